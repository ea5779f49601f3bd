"""Actors of these tests, which are imported in processes of their own."""

from __future__ import annotations

import os
from threading import Event
from typing import Any

import numpy as np

from rheos import Batch, BatchInfo, LearnerReport
from rheos.executors.last_words import end_process
from rheos.reports import Weights


class Unpicklable(Exception):
    """Cannot be made again from what pickle keeps of it."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


class Troubled:
    """Fails as it is told."""

    def __init__(self, index: int = 0) -> None:
        self.index = index

    def give(self) -> int:
        """Return the id of its process."""
        return os.getpid()

    def hang(self) -> None:
        """Never return."""
        Event().wait()

    def fail(self, item: Any) -> None:
        """Raise deep inside."""
        _raise(item)

    def fail_unpicklably(self, item: Any) -> None:
        """Raise what cannot travel."""
        raise Unpicklable(item, item)

    def leave(self, item: Any) -> None:
        """End its process and say why."""
        end_process(f"troubled-{self.index} has had enough of {item}")

    def speak(self, item: Any) -> int:
        """Print."""
        print(f"I am told {item}", flush=True)
        return os.getpid()


class Counted:
    """Takes half a second for a call, and counts those that it begins."""

    def __init__(self, index: int, folder: str) -> None:
        self.path = os.path.join(folder, str(index))

    def give(self) -> int:
        """Count, then wait."""
        with open(self.path, "a") as file:
            file.write("x")
        Event().wait(0.5)
        return 0


class DyingLearner:
    """Ends its process when it is asked for its weights."""

    def weights(self) -> Weights:
        """Say why, and end."""
        end_process("the learner has had enough")


class Rarely:
    """Publishes a megabyte of weights with every third update."""

    def __init__(self) -> None:
        self.updates = 0

    def update(self, item: Any) -> LearnerReport:
        """Count an update, and publish where it is due."""
        self.updates += 1
        weights = Weights(self.updates, {"kernel": np.full(2**18, self.updates, np.float32)})
        return LearnerReport(BatchInfo(), self.updates, 1, {}, weights if self.updates % 3 == 0 else None)


def _raise(item: Any) -> None:
    raise ZeroDivisionError(f"cannot divide {item}")


class Roller:
    """Gives a megabyte each time."""

    def __init__(self, index: int) -> None:
        self.name = f"rollout-{index}"
        self.version = -1

    def load(self, weights: Weights) -> None:
        """Take the version of weights."""
        self.version = weights.version

    def rollout(self) -> Batch:
        """Return a megabyte of the version."""
        columns = {"observations": np.full((2**18,), self.version, np.float32)}
        return Batch(columns, BatchInfo((self.name,), env_steps=4, agent_steps=4))


class Shard:
    """Keeps the newest batch and gives it again."""

    def __init__(self, index: int) -> None:
        self.name = f"replay-{index}"
        self.newest: Batch | None = None

    def add(self, batch: Batch) -> None:
        """Keep a batch."""
        self.newest = batch

    def sample(self) -> Batch:
        """Return what it keeps, or the like of it."""
        return Batch({"observations": np.zeros(2**18, np.float32)}) if self.newest is None else self.newest


class Learning:
    """Reads what it learns from, and publishes weights."""

    def __init__(self) -> None:
        self.updates = 0
        self.seen: list[float] = []

    def update(self, batch: Batch) -> LearnerReport:
        """Look at every number."""
        self.updates += 1
        self.seen.append(float(batch["observations"].mean()))
        return LearnerReport(batch.info, self.updates, 1, {}, self.weights())

    def weights(self) -> Weights:
        """Return a megabyte of weights."""
        return Weights(self.updates, {"kernel": np.full(2**18, self.updates, np.float32)})

    def versions(self) -> list[float]:
        """Return what it has seen."""
        return self.seen
