"""Makes the pictures in docs/images/ from real runs: `python docs/pictures.py`, in some two minutes on two cores."""

from __future__ import annotations

import argparse
import io
import re
import tempfile
from collections.abc import Callable, Mapping
from contextlib import chdir
from pathlib import Path

from rich.console import Console
from timelines import TIMELINES

import rheos
from rheos.configuration.run_config import RunConfig
from rheos.plugins import load_registry
from rheos.runs.program import describe
from rheos.runs.run import Run
from rheos_cli.flow_picture import draw_flow
from rheos_cli.live_table import LiveTable
from rheos_cli.plots import draw_learning_curves
from rheos_cli.wording import headline

IMAGES = Path(__file__).resolve().parent / "images"
WIDTH = 100


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
    """Draw the flow of PPO, from its own description."""
    registry = load_registry()
    settings = {"algo": {"name": "ppo"}, "env": {"id": "CartPole-v1"}, "executor": {"name": "inline", "workers": 4}}
    draw_flow(describe(RunConfig.from_mapping(settings, registry), registry).stream.node, output)


PICTURES: Mapping[str, Callable[[Path], None]] = {
    "live-table.svg": draw_live_table,
    "learning-curve.png": draw_learning_curve,
    "ppo-dataflow.svg": draw_dataflow,
    **TIMELINES,
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
