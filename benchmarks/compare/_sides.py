"""What comparisons share: a clock, sides that are measured in processes of their own in turns, and their table."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version

__all__ = ["ONE_THREAD", "Clock", "compare", "measure_apart", "print_speeds", "versions"]

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Clock:
    """Remembers at which step what time it was."""

    def __init__(self) -> None:
        self.marks: list[tuple[int, float]] = []

    def mark(self, steps: int) -> None:
        self.marks.append((steps, time.perf_counter()))

    def steady_speed(self) -> float:
        """Return steps a second from the first mark behind a fifth of the steps to the last."""
        last_steps, last_time = self.marks[-1]
        first_steps, first_time = next(mark for mark in self.marks if mark[0] >= last_steps / 5)
        return (last_steps - first_steps) / (last_time - first_time)


def measure_apart(*words: str) -> dict[str, float]:
    """Run this script with other words, in a process of its own with one thread; return what it prints last."""
    command = [sys.executable, sys.argv[0], *words]
    process = subprocess.run(command, env={**os.environ, **ONE_THREAD}, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, float] = json.loads(process.stdout.splitlines()[-1])
    return result


def print_speeds(speeds: Mapping[str, list[float]], rivals: tuple[str, ...]) -> None:
    """Print the table of one comparison: each side's speeds, and their ratios to the rivals that were measured."""
    medians = {side: statistics.median(values) for side, values in speeds.items()}
    for side, values in speeds.items():
        spread = f"({min(values):,.0f} to {max(values):,.0f})"
        ratios = "  ".join(f"{medians[side] / medians[rival]:.2f} x {rival}" for rival in rivals if rival != side)
        print(f"  {side:32s} {medians[side]:8,.0f}  {spread:20s}  {ratios}", flush=True)


def versions(*distributions: str) -> str:
    """Return the versions of what is compared; "none" of what is not installed."""
    found = []
    for name in distributions:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} none")
    return ", ".join(found)


def compare(
    title: str, sides: Mapping[str, Callable[[int], float]], rivals: Mapping[str, str], *, unit: str, steps: int
) -> None:
    """Measure sides in turns, each in a process of its own, and print their table: the program of a script.

    Args:
        title: what is compared.
        sides: by name, the functions that measure: from a number of steps to a speed.
        rivals: the sides that others are compared with, and the distribution that each of them needs; one that is not
            installed is left out.
        unit: of the speeds.
        steps: of each measurement, unless the command line says otherwise.
    """
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--steps", type=int, default=steps, help="of each measurement")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each side")
    parser.add_argument("--side", choices=list(sides), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps({"speed": sides[arguments.side](arguments.steps)}))
        return
    print(f"\n{title}\n{versions('rheos-core', *rivals.values(), 'torch')}")
    there = [side for side in sides if side not in rivals or not versions(rivals[side]).endswith(" none")]
    speeds: dict[str, list[float]] = {side: [] for side in there}
    for _ in range(arguments.repeats):
        for side in there:
            speeds[side].append(measure_apart("--side", side, "--steps", str(arguments.steps))["speed"])
    print(unit)
    print_speeds(speeds, tuple(rival for rival in rivals if rival in there))
