"""Ape-X on Ray for ten minutes, at its own pace: once replay is full, nothing grows any more.

`RHEOS_SOAK_SECONDS=60` makes it a minute, to try it.
"""

from __future__ import annotations

import os
from statistics import fmean
from time import monotonic
from typing import NamedTuple

import psutil
import pytest

from rheos import Flow, Report, run
from rheos.configuration.run_config import BackendConfig, EnvironmentConfig
from rheos.environments.gym import GymEnvironment
from rheos.plugins import Kind, load_registry
from rheos.runs.context import RunContext
from rheos_apex.config import ApexConfig
from rheos_apex.flow import apex
from rheos_apex.roles import apex_roles

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("ray" not in load_registry().names(Kind.EXECUTOR), reason="needs rheos-executor-ray"),
]

SECONDS = float(os.environ.get("RHEOS_SOAK_SECONDS", "600"))
SAMPLES = 60
"""Looks at memory, queues and lag, evenly over the time."""
ROWS = 20_000
"""What replay holds: full after a few seconds."""
BOUNDS = {
    "gather_async(in_flight=1)": 2,
    "gather_async(in_flight=2)": 2,
    "Replay.add": 8,
    "Worker.load": 16,
    "Learner.update": 2,
    "Replay.update_priorities": 8,
}
"""Calls that the flow allows to be unfinished, of all actors of a stage: two workers, a shard and a learner."""


class Look(NamedTuple):
    """What a look at the flow found."""

    memory: dict[int, int]
    """Bytes that only this process has, by its number; the first one is the driver, with the learner."""
    outstanding: dict[str, int]
    """Calls that are not finished, by stage."""
    lag: float
    """The largest since the look before: updates since the oldest row of a batch acted."""
    env_steps: int


def memory() -> dict[int, int]:
    """Return the unique set size of this process, and of those in which Ray's actors are."""
    this = psutil.Process()
    actors = [child for child in this.children(recursive=True) if child.name().startswith("ray::")]
    return {process.pid: process.memory_full_info().uss for process in (this, *actors)}


def looks(flow: Flow[Report]) -> list[Look]:
    found: list[Look] = []
    began_at, env_steps = monotonic(), 0
    for number in range(1, SAMPLES + 1):
        lag = 0.0
        while monotonic() - began_at < SECONDS * number / SAMPLES:
            report = next(flow)
            env_steps += report.env_steps
            lag = max(lag, report.lag[2] if report.lag else 0.0)
        outstanding = {stage.name: stage.outstanding for stage in flow.statistics().stages}
        found.append(Look(memory(), outstanding, lag, env_steps))
    return found


def test_nothing_grows_in_ten_minutes_of_apex_on_ray():
    from rheos_ray.config import RayConfig
    from rheos_ray.executor import RayExecutor

    config = ApexConfig(batch_size=32, replay_steps=ROWS, learning_starts=1_000)
    environment = GymEnvironment(EnvironmentConfig(id="CartPole-v1", num_envs=4))
    roles = apex_roles(RunContext(config, environment, BackendConfig(), num_workers=2, seed=1))
    executor = RayExecutor(RayConfig(workers=2, address="local"))

    try:
        with run(apex(roles, config), executor) as flow:
            found = looks(flow)
            explained = flow.explain(stats=True)
    finally:
        executor.close()

    full = [look for look in found if look.env_steps > 2 * ROWS]
    for look in full[:: max(len(full) // 10, 1)]:
        print([size // 2**20 for size in look.memory.values()], list(look.outstanding.values()), look.lag)
    print(explained)
    third = len(full) // 3
    begins, ends = full[:third], full[-third:]
    assert third >= 5
    for process in ends[-1].memory:
        before, after = (fmean(look.memory[process] for look in part) for part in (begins, ends))
        assert after - before < 8 * 2**20, process  # a copy of replay has 2 MB, and a report of each update 40 MB
    for part, bound in BOUNDS.items():
        (stage,) = (name for name in ends[-1].outstanding if part in name)
        assert max(look.outstanding[stage] for look in full) <= bound
    lags = [max(look.lag for look in part) for part in (begins, ends)]
    assert lags[1] < 2 * lags[0]
