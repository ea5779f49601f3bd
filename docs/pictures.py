"""Makes the pictures in docs/images/ from real runs: `python docs/pictures.py`, in some two minutes on two cores."""

from __future__ import annotations

import argparse
import io
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from rich.console import Console

import rheos
from rheos.configuration.run_config import RunConfig
from rheos.plugins import load_registry
from rheos.runs.program import describe
from rheos.runs.run import Run
from rheos.streams import nodes
from rheos_cli.live_table import LiveTable
from rheos_cli.plots import draw_learning_curves
from rheos_cli.wording import headline

IMAGES = Path(__file__).resolve().parent / "images"
WIDTH = 100
INK, STAGE, ACTOR = "#333333", "#e4f0f4", "#fbe9df"
STAGE_EDGE, ACTOR_EDGE = "#1f6f8b", "#d1603d"


class Photographer:
    """Takes a picture of the live table at the first row of measurements from some env steps on."""

    def __init__(self, at_env_steps: int) -> None:
        self._at_env_steps = at_env_steps
        self._table: LiveTable | None = None
        self.console = Console(file=io.StringIO(), record=True, width=WIDTH, force_terminal=True)

    @rheos.hookimpl
    def rheos_run_started(self, run: Run) -> None:
        """Begin to follow the run."""
        self._table = LiveTable(run)

    @rheos.hookimpl
    def rheos_report(self, run: Run, row: Mapping[str, float]) -> None:
        """Take in a row, and the picture once it is due."""
        if self._table is None:
            return
        self._table.update(row)
        if row["env_steps"] >= self._at_env_steps:
            self.console.print("$ rheos train algo=ppo env=cartpole eval.every_steps=25000", highlight=False)
            self.console.print(headline(run), style="bold", markup=False, soft_wrap=True, highlight=False)
            self.console.print(self._table.draw(WIDTH))
            self._table = None


def draw_live_table(output: Path) -> None:
    """Train PPO on CartPole-v1, and draw what the terminal shows on the way."""
    photographer = Photographer(at_env_steps=130_000)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        rheos.train(
            "ppo",
            env="CartPole-v1",
            seed=1,
            stop={"env_steps": 200_000},
            eval={"every_steps": 25_000},
            observers=[photographer],
        )
    svg = photographer.console.export_svg(title="rheos train", unique_id="rheos")
    output.write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL))  # nothing is fetched from elsewhere


def draw_learning_curve(output: Path) -> None:
    """Train PPO on CartPole-v1 with three seeds, and draw mean and band, as `rheos plot` does."""
    with tempfile.TemporaryDirectory() as folder:
        runs = [
            rheos.train(
                "ppo", env="CartPole-v1", seed=seed, stop={"env_steps": 150_000}, run_dir=Path(folder, f"seed{seed}")
            ).run_dir
            for seed in (1, 2, 3)
        ]
        draw_learning_curves(runs, output)


def draw_dataflow(output: Path) -> None:
    """Draw the stages of PPO from its own description, and the actors that they talk to."""
    registry = load_registry()
    settings = {"algo": {"name": "ppo"}, "env": {"id": "CartPole-v1"}, "executor": {"name": "inline", "workers": 4}}
    stages = nodes.stages(describe(RunConfig.from_mapping(settings, registry), registry).stream.node)
    places = {node: -float(index) for index, node in enumerate(stages)}
    figure = Figure(figsize=(8.0, 0.78 * len(stages) + 0.3), dpi=120, layout="constrained")
    axes = figure.subplots()
    for number, node in enumerate(stages, 1):
        draw_box(axes, (0.0, places[node]), f"{number}   {node.label}", (STAGE, STAGE_EDGE), is_actor=False)
        for source in node.inputs:
            draw_arrow(axes, (0.0, places[source] - 0.3), (0.0, places[node] + 0.3))
    for index, (names, talking) in enumerate(actors_of(stages).items()):
        side = 1.0 if index % 2 == 0 else -1.0
        place = (3.1 * side, fmean(places[node] for node in talking))
        title = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
        draw_box(axes, place, title, (ACTOR, ACTOR_EDGE), is_actor=True)
        for node in talking:
            gap = 0.3 if places[node] > place[1] else -0.3 if places[node] < place[1] else 0.0
            actor = (place[0] - (0.85 * side if gap == 0.0 else 0.0), place[1] + gap)
            draw_message(axes, node, (1.65 * side, places[node]), actor, is_bent=gap != 0.0)
    axes.set_xlim(-4.1, 4.1)
    axes.set_ylim(-len(stages) + 0.5, 0.5)
    axes.set_axis_off()
    figure.savefig(output)


def actors_of(stages: Sequence[nodes.Node]) -> dict[tuple[str, ...], list[nodes.Node]]:
    """Return the stages that talk to each group of actors, by the names of the actors."""
    found: dict[tuple[str, ...], list[nodes.Node]] = {}
    for node in stages:
        if node.actors():
            found.setdefault(tuple(actor.name for actor in node.actors()), []).append(node)
    return found


def draw_box(axes: Axes, place: tuple[float, float], text: str, colors: tuple[str, str], *, is_actor: bool) -> None:
    """Draw a box around a text; that of an actor is round."""
    half_width, half_height = (0.85, 0.26) if is_actor else (1.65, 0.28)
    corner = (place[0] - half_width, place[1] - half_height)
    shape = f"round,pad=0,rounding_size={half_height if is_actor else 0.06}"
    face, edge = colors
    axes.add_patch(FancyBboxPatch(corner, 2 * half_width, 2 * half_height, shape, fc=face, ec=edge, lw=1.2))
    axes.text(*place, text, ha="center", va="center", color=INK, fontsize=9.5)


def draw_arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], **style: Any) -> None:
    """Draw an arrow."""
    properties = {"arrowstyle": "-|>", "color": INK, "lw": 1.2, "shrinkA": 0, "shrinkB": 0, **style}
    axes.annotate("", xy=end, xytext=start, arrowprops=properties)


def draw_message(
    axes: Axes, node: nodes.Node, stage: tuple[float, float], actor: tuple[float, float], *, is_bent: bool
) -> None:
    """Draw a dashed arrow: from an actor that is a source, to one that is told, both ways where one is asked."""
    is_source, is_told = isinstance(node, nodes.FromActors), isinstance(node, nodes.Tell)
    start, end = (actor, stage) if is_source else (stage, actor)
    style: dict[str, Any] = {"linestyle": (0, (4, 2)), "color": ACTOR_EDGE}
    if not is_source and not is_told:
        style["arrowstyle"] = "<|-|>"
    if is_bent:
        style["connectionstyle"] = "angle,angleA=90,angleB=0,rad=8" if is_source else "angle,angleA=0,angleB=90,rad=8"
    draw_arrow(axes, start, end, **style)


PICTURES: Mapping[str, Callable[[Path], None]] = {
    "live-table.svg": draw_live_table,
    "learning-curve.png": draw_learning_curve,
    "ppo-dataflow.svg": draw_dataflow,
}


def main() -> None:
    """Make all pictures, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PICTURES)}; all by default")
    names: list[str] = parser.parse_args().names
    IMAGES.mkdir(exist_ok=True)
    for name in names or PICTURES:
        PICTURES[name](IMAGES / name)
        print(IMAGES / name)


if __name__ == "__main__":
    main()
