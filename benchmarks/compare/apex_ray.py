"""Ape-X on Ray at its own pace, on CartPole-v1: env steps and updates a second, and the flow's statistics.

Two workers with 4 environments each and one shard, in processes of their own; the learner is where a run puts it. It is
to be read beside what RLlib Flow's Ape-X on Ray 1.13 does on such a machine: 2,460 env steps and 89 updates a second
with batches of 32, 2,200 and 14 with batches of 512. The first seconds do not count.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

from _sides import versions

from rheos import Flow, Placement, Report, run
from rheos.configuration.run_config import BackendConfig, EnvironmentConfig
from rheos.environments.gym import GymEnvironment
from rheos.runs.context import RunContext
from rheos_apex.config import ApexConfig
from rheos_apex.flow import apex
from rheos_apex.roles import apex_roles
from rheos_ray.config import RayConfig
from rheos_ray.executor import RayExecutor

WARM_UP_S = 10.0


def totals(flow: Flow[Report], seconds: float) -> tuple[int, int, float]:
    """Follow the flow for some seconds; return env steps, updates, and how long it was."""
    env_steps = updates = 0
    began_at = time.perf_counter()
    while (passed := time.perf_counter() - began_at) < seconds:
        report = next(flow)
        env_steps += report.env_steps
        updates += report.updates
    return env_steps, updates, passed


def measure(batch_size: int, seconds: float, placement: Placement) -> None:
    config = ApexConfig(batch_size=batch_size, replay_steps=100_000, learning_starts=1_000)
    environment = GymEnvironment(EnvironmentConfig(id="CartPole-v1", num_envs=4))
    roles = apex_roles(RunContext(config, environment, BackendConfig(name="torch"), num_workers=2, seed=1))
    roles = replace(roles, learner=replace(roles.learner, placement=placement))
    executor = RayExecutor(RayConfig(workers=2, address="local"))
    try:
        with run(apex(roles, config), executor) as flow:
            totals(flow, WARM_UP_S)
            env_steps, updates, passed = totals(flow, seconds)
            print(
                f"\nbatches of {batch_size}: {env_steps / passed:,.0f} env steps/s, {updates / passed:,.1f} updates/s"
            )
            print(flow.explain(stats=True), flush=True)
    finally:
        executor.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each measurement")
    parser.add_argument("--learner", choices=[place.value for place in Placement], default="thread", help="where it is")
    arguments = parser.parse_args()
    print(f"Ape-X on Ray, 2 workers, 1 shard\n{versions('rheos-core', 'ray', 'torch')}")
    for batch_size in (32, 512):
        measure(batch_size, arguments.seconds, Placement(arguments.learner))


if __name__ == "__main__":
    main()
