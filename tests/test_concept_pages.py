"""The pages of concepts show code that runs, and what it prints."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from rheos import Route, run
from rheos.testing.fakes import counting_learner, stamping_workers
from rheos_ops.roles import Learner, Worker
from rheos_ops.sources import newest_weights, rollouts
from rheos_ops.stages import rebatch, report

DOCS = Path(__file__).parents[1] / "docs"
STREAMS = DOCS / "concepts" / "streams.md"


@pytest.mark.parametrize("path", sorted((DOCS / "concepts").glob("*.md")), ids=lambda path: path.stem)
def test_every_example_of_a_page_prints_what_the_page_shows(path: Path, read_page: Callable[[Path], Any]):
    page = read_page(path)

    shown, printed, _ = page.run()

    assert shown == printed


def test_every_output_of_a_page_stands_behind_the_example_that_prints_it(read_page: Callable[[Path], Any]):
    languages = [language for language, _, _ in read_page(STREAMS).blocks]

    alone = [
        index for index, language in enumerate(languages) if language == "text" and languages[index - 1] != "python"
    ]

    assert [] == alone


@pytest.mark.parametrize("name", ["timelines.py", "concepts/streams.md"])
def test_the_drawings_of_a_page_exist(name: str):
    pictures = [
        name for name in _words((DOCS / name).read_text()) if name.startswith("time-") and name.endswith(".svg")
    ]

    assert [] == [picture for picture in pictures if not (DOCS / "images" / picture).is_file()]
    assert len(pictures) >= 4


@pytest.mark.parametrize("shards", [1, 3, 4])
@pytest.mark.parametrize("in_flight", [1, 2])
@pytest.mark.parametrize("joined", [1, 3])
@pytest.mark.parametrize("window", [1, 2])
def test_the_lag_that_the_page_gives_as_a_bound_is_one(
    shards: int, in_flight: int, joined: int, window: int, streams_page: dict[str, Any]
):
    workers, learner = stamping_workers(shards), counting_learner()
    newest = newest_weights(learner)
    stream = (
        rollouts(workers, newest)
        .gather_async(in_flight=in_flight)
        .flat_map(rebatch(min_steps=joined))
        .ask(learner, Learner.update, in_flight=window)
        .tell(workers, Worker.load, message=newest, route=Route.SOURCE)
        .map(report)
    )

    lags = [learned.lag[2] for learned in islice(run(stream), 40) if learned.lag is not None]

    most = streams_page["most_lag"](shards, in_flight, joined=joined, window=window)
    assert 40 == len(lags)
    assert most - 1 <= max(lags) <= most


@pytest.fixture(scope="module")
def streams_page(read_page: Callable[[Path], Any]) -> dict[str, Any]:
    """Return the names that the examples of the page about streams leave."""
    names: dict[str, Any] = read_page(STREAMS).run()[2]
    return names


def _words(text: str) -> list[str]:
    return text.replace('"', " ").replace("(", " ").replace(")", " ").replace("/", " ").split()
