"""Steady speed of PPO on CartPole-v1, Rheos beside Stable-Baselines3: `nox -s compare`.

Both train with the same settings, one thread each, in processes of their own, in turns. Speed is env steps a second
after the first fifth of the steps, so neither the start nor the first compilation counts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version

NUM_ENVS, ROLLOUT_STEPS, EPOCHS, MINIBATCH = 8, 128, 4, 256
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Clock:
    """Remembers at which env step what time it was."""

    def __init__(self) -> None:
        self.marks: list[tuple[int, float]] = []

    def mark(self, env_steps: int) -> None:
        self.marks.append((env_steps, time.perf_counter()))

    def steady_speed(self) -> float:
        """Return env steps a second from the first mark behind a fifth of the steps to the last."""
        last_steps, last_time = self.marks[-1]
        first_steps, first_time = next(mark for mark in self.marks if mark[0] >= last_steps / 5)
        return (last_steps - first_steps) / (last_time - first_time)


def measure_rheos(env_steps: int, vectorization: str) -> float:
    import rheos

    clock = Clock()

    class Observer:
        @rheos.hookimpl
        def rheos_report(self, row: dict[str, float]) -> None:
            clock.mark(int(row["env_steps"]))

    ppo = {
        "name": "ppo",
        "rollout_steps": ROLLOUT_STEPS,
        "num_epochs": EPOCHS,
        "minibatch_size": MINIBATCH,
        "learning_rate": 2.5e-4,
        "adam_epsilon": 1e-5,
        "discount": 0.99,
        "gae_lambda": 0.95,
        "clip_range": 0.2,
        "entropy_coef": 0.01,
        "value_coef": 0.5,
        "max_grad_norm": 0.5,
        "hidden_sizes": [64, 64],
    }
    with tempfile.TemporaryDirectory() as folder:
        rheos.train(
            ppo,
            env={"id": "CartPole-v1", "num_envs": NUM_ENVS, "vectorization": vectorization},
            stop={"env_steps": env_steps},
            logger={"names": []},
            seed=1,
            run_dir=f"{folder}/run",
            observers=[Observer()],
        )
    return clock.steady_speed()


def measure_stable_baselines3(env_steps: int) -> float:
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)
    clock = Clock()

    class Callback(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_start(self) -> None:
            clock.mark(self.num_timesteps)

    model = PPO(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=NUM_ENVS, seed=1),
        n_steps=ROLLOUT_STEPS,
        n_epochs=EPOCHS,
        batch_size=MINIBATCH,
        learning_rate=2.5e-4,
        gamma=0.99,
        gae_lambda=0.95,
        clip_range=0.2,
        ent_coef=0.01,
        vf_coef=0.5,
        max_grad_norm=0.5,
        policy_kwargs={"net_arch": {"pi": [64, 64], "vf": [64, 64]}, "optimizer_kwargs": {"eps": 1e-5}},
        device="cpu",
    )
    model.learn(env_steps, callback=Callback())
    return clock.steady_speed()


SIDES: dict[str, Callable[[int], float]] = {
    "rheos, vectorization=auto": lambda env_steps: measure_rheos(env_steps, "auto"),
    "rheos, vectorization=sync": lambda env_steps: measure_rheos(env_steps, "sync"),
    "stable-baselines3": measure_stable_baselines3,
}


def measure_apart(side: str, env_steps: int) -> float:
    """Measure one side in a process of its own."""
    command = [sys.executable, __file__, "--side", side, "--env-steps", str(env_steps)]
    process = subprocess.run(command, env={**os.environ, **ONE_THREAD}, stdout=subprocess.PIPE, text=True, check=True)
    return float(json.loads(process.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--env-steps", type=int, default=100_000, help="of each measurement")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each side")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps(SIDES[arguments.side](arguments.env_steps)))
        return
    speeds: dict[str, list[float]] = {side: [] for side in SIDES}
    for _ in range(arguments.repeats):
        for side in SIDES:
            speeds[side].append(measure_apart(side, arguments.env_steps))
    rival = statistics.median(speeds["stable-baselines3"])
    print(f"PPO on CartPole-v1, {NUM_ENVS} environments x {ROLLOUT_STEPS} steps, steady env steps/s, one thread")
    print(f"rheos {version('rheos-core')}, stable-baselines3 {version('stable-baselines3')}, torch {version('torch')}")
    for side, values in speeds.items():
        median = statistics.median(values)
        print(f"{side:28s} {median:8,.0f}  ({min(values):,.0f} to {max(values):,.0f})  ratio {median / rival:.2f}")


if __name__ == "__main__":
    main()
