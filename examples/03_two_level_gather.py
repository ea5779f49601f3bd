"""A gather on two levels: two regions run a flow over their half of four workers, the driver one over the regions.

So the driver takes in one item a round from each region, however many workers are behind it. What is learned is the
same as with one gather over all workers, bit for bit: python examples/03_two_level_gather.py [inline, threads or ray].

Source: augmented random search, Mania et al. 2018, arXiv:1803.07055, on a bowl instead of an environment.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt

import rheos
from rheos.configuration.settings import from_mapping
from rheos.executors.protocol import Executor
from rheos.plugins import load_registry, make_executor
from rheos.plugins.resolving import settings_class
from rheos.seeds import generator_for

Point = npt.NDArray[np.float64]
BOTTOM = np.array([3.0, -2.0, 1.0, 0.5])
REGIONS, WORKERS_EACH, ROUNDS = 2, 2, 100
SETTINGS: dict[str, dict[str, Any]] = {"ray": {"worker": {"num_cpus": 0.25}}}
"""What an executor is to know beside its name: six actors of a quarter of a core fit on two cores."""


@dataclass(frozen=True)
class Trial:
    """A direction, and how steeply it goes up."""

    direction: Point
    slope: float


class Explorer:
    """A worker: tries directions from the point that it was given."""

    def __init__(self, index: int) -> None:
        self.generator = generator_for(0, "explorer", index)
        self.point = np.zeros(BOTTOM.shape)

    def load(self, point: Point) -> None:
        """Go on from this point."""
        self.point = point

    def explore(self) -> Trial:
        """Try one random direction both ways."""
        step = self.generator.standard_normal(BOTTOM.shape)
        return Trial(step, self._height(self.point + step) - self._height(self.point - step))

    def _height(self, point: Point) -> float:
        return float(np.sum(np.square(point - BOTTOM)))


class Searcher:
    """Holds the point and moves it downhill."""

    def __init__(self) -> None:
        self.point = np.zeros(BOTTOM.shape)

    def update(self, trials: tuple[Trial, ...]) -> Point:
        """Move against each direction by how steep it is."""
        uphill = sum((trial.slope * trial.direction for trial in trials), np.zeros(BOTTOM.shape))
        self.point = self.point - 0.05 * uphill / len(trials)
        return self.point


EXPLORERS = rheos.ActorGroup("explorer", REGIONS * WORKERS_EACH, Explorer)


class Region:
    """Runs a flow over its part of the workers, and passes on what is for them.

    Args:
        executor: the name of the one on which its workers live.
        index: which part.
    """

    def __init__(self, executor: str, index: int) -> None:
        self.workers = EXPLORERS[index * WORKERS_EACH : (index + 1) * WORKERS_EACH]  # they keep their names
        self.executor = executor_named(executor)
        self.rounds = rheos.run(rheos.from_actors(self.workers, Explorer.explore).gather_sync(), self.executor)

    def explore(self) -> tuple[Trial, ...]:
        """Return a round of its workers: one item, whatever their number."""
        return next(self.rounds)

    def load(self, point: Point) -> None:
        """Have all its workers go on from this point, before their next round."""
        for worker in self.workers:
            self.rounds.ask(worker, Explorer.load, point)

    def close(self) -> None:
        """End its workers."""
        self.rounds.close()
        self.executor.close()


def one_level(searcher: rheos.Actor[Searcher]) -> rheos.Stream[Point]:
    """Gather from every worker."""
    return (
        rheos.from_actors(EXPLORERS, Explorer.explore)
        .gather_sync()
        .ask(searcher, Searcher.update)
        .tell(EXPLORERS, Explorer.load, route=rheos.Route.ALL)
    )


def two_levels(regions: rheos.ActorGroup[Region], searcher: rheos.Actor[Searcher]) -> rheos.Stream[Point]:
    """Gather from every region, each of which gathers from its workers."""
    return (
        rheos.from_actors(regions, Region.explore)
        .gather_sync()
        .map(lambda parts: tuple(chain.from_iterable(parts)))
        .ask(searcher, Searcher.update)
        .tell(regions, Region.load, route=rheos.Route.ALL)
    )


def executor_named(name: str) -> Executor:
    """Make an executor as `executor=<name>` does."""
    registry = load_registry()
    settings = settings_class(registry.executor(name))
    return make_executor(from_mapping(settings, {"name": name, **SETTINGS.get(name, {})}, "executor"), registry)


def last_point(stream: rheos.Stream[Point], executor: Executor) -> Point:
    """Run a search, and return where it is after its last round."""
    with rheos.run(stream, executor) as points:
        *_, last = islice(points, ROUNDS)
    return last


def main(name: str) -> None:
    """Search both ways, and say whether they came to the same point."""
    executor, searcher = executor_named(name), rheos.Actor("searcher", Searcher)
    flat = last_point(one_level(searcher), executor)
    nested = last_point(two_levels(rheos.ActorGroup("region", REGIONS, partial(Region, name)), searcher), executor)
    executor.close()
    print(f"one level:  {flat.tolist()}")
    print(f"two levels: {nested.tolist()}")
    print("the same, bit for bit" if flat.tobytes() == nested.tobytes() else "not the same")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "inline")
