"""A learner of several processes, and losses that fail in one of them: other processes import this file."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Mapping
from typing import Any

import numpy as np

from rheos import Batch, BatchInfo
from rheos.arrays.namespace import Array, ArrayNamespace
from rheos.backend import Coefficients, Networks
from rheos.networks.specs import MLP, Normalizer
from rheos_ops.learners import LearnerSpec
from rheos_ops.normalization import NormalizerSpec

NETWORKS = {"normalizer": Normalizer(3), "regression": MLP(3, 2, (8,))}


def squared_error(
    xp: ArrayNamespace, networks: Networks, batch: Mapping[str, Array], coefficients: Coefficients
) -> tuple[Array, dict[str, Array]]:
    """Return a mean over rows, and metrics that are such means."""
    error = networks["regression"](networks["normalizer"](batch["x"])) - batch["y"]
    return xp.mean(xp.square(error)), {"bias": xp.mean(error), "size": xp.mean(xp.abs(error))}


def fails_elsewhere(*arguments: Any) -> Any:
    """Raise, but not in the first process."""
    if multiprocessing.parent_process() is not None:
        raise ZeroDivisionError("division by zero")
    return squared_error(*arguments)


def is_killed_elsewhere(*arguments: Any) -> Any:
    """Kill the process, but not the first one."""
    if multiprocessing.parent_process() is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return squared_error(*arguments)


def fails_here(*arguments: Any) -> Any:
    """Raise in the first process only, while others wait for it."""
    if multiprocessing.parent_process() is None:
        raise ZeroDivisionError("division by zero")
    return squared_error(*arguments)


def spread(xp: ArrayNamespace, columns: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
    """Divide by a deviation over all rows."""
    deviation = xp.std(columns["y"])
    return {**columns, "y": columns["y"] / deviation}, {"spread": deviation}


def spec(**settings: Any) -> LearnerSpec:
    """Describe a learner of a regression."""
    given: dict[str, Any] = {"loss": squared_error, "learning_rate": 1e-2, "max_grad_norm": 0.5, **settings}
    return LearnerSpec(networks=NETWORKS, columns=("x", "y"), **given)


def full_spec(**settings: Any) -> LearnerSpec:
    """Describe a learner with all that is decided or measured on a whole batch."""
    return spec(
        num_epochs=4,
        minibatch_size=16,
        prepare=spread,
        stop_above=("size", 0.7),
        normalizers={"normalizer": NormalizerSpec("x")},
        **settings,
    )


def batch_of(rows: int, *, seed: int = 0) -> Batch:
    """Return rows to learn from."""
    draw = np.random.default_rng(seed)
    x = draw.normal(2.0, 3.0, (rows, 3)).astype(np.float32)
    y = np.stack([x[:, 0], x[:, 1] * x[:, 2]], axis=1) / 10 + draw.normal(0.0, 0.1, (rows, 2)).astype(np.float32)
    return Batch({"x": x, "y": y.astype(np.float32)}, BatchInfo(("rollout-0",), env_steps=rows))
