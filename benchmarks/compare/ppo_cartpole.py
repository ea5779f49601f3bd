"""Steady speed of PPO on CartPole-v1, Rheos beside Stable-Baselines3, and where our time goes: `nox -s compare`.

Both train with the same settings, one thread each, in processes of their own, in turns. Speed is env steps a second
after the first fifth of the steps, so neither the start nor the first compilation counts.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

from _sides import Clock, measure_apart, print_speeds, versions

import rheos

EPOCHS, MINIBATCH = 4, 256
SHAPES = ((8, 128), (64, 32), (128, 128))
"""Environments and steps of a rollout; the first is the one that is compared in both vectorizations."""
SETTINGS = {
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


class Shares:
    """Adds up the time in parts of the program, by wrapping their functions."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def wrap(self, part: str, owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def timed(*arguments: Any, **named: Any) -> Any:
            started = time.perf_counter()
            try:
                return original(*arguments, **named)
            finally:
                self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - started

        setattr(owner, name, timed)

    @contextmanager
    def of_ppo(self) -> Any:
        """Time the environments, the functions of the policy, and the learner."""
        from rheos import acting
        from rheos.environments import native, serial
        from rheos_ops import learners

        self.wrap("environments", native.NativeEnvironments, "step")
        self.wrap("environments", serial.SerialEnvironments, "step")
        self.wrap("learning", learners.GradientLearner, "update")
        make = acting.Acting.__init__

        def make_timed(instance: Any, *arguments: Any, **named: Any) -> None:
            make(instance, *arguments, **named)
            for name in ("explore", "annotate", "value"):
                self.wrap("acting", instance, name)

        acting.Acting.__init__ = make_timed  # type: ignore[method-assign]
        yield


def train_rheos(env_steps: int, vectorization: str, shape: tuple[int, int], observer: object) -> None:
    num_envs, rollout_steps = shape
    with tempfile.TemporaryDirectory() as folder:
        rheos.train(
            {"name": "ppo", "rollout_steps": rollout_steps, **SETTINGS},
            env={"id": "CartPole-v1", "num_envs": num_envs, "vectorization": vectorization},
            stop={"env_steps": env_steps},
            logger={"names": []},
            checkpoint={"every_steps": None},
            seed=1,
            run_dir=f"{folder}/run",
            observers=[observer],
        )


def measure_rheos(env_steps: int, vectorization: str, shape: tuple[int, int]) -> dict[str, float]:
    clock = Clock()

    class Observer:
        @rheos.hookimpl
        def rheos_report(self, row: dict[str, float]) -> None:
            clock.mark(int(row["env_steps"]))

    train_rheos(env_steps, vectorization, shape, Observer())
    return {"speed": clock.steady_speed()}


def measure_shares(env_steps: int, vectorization: str, shape: tuple[int, int]) -> dict[str, float]:
    """Return the share of each part in the time between the first row of measurements and the last."""
    shares, marks = Shares(), []

    class Observer:
        @rheos.hookimpl
        def rheos_report(self) -> None:
            marks.append((time.perf_counter(), dict(shares.seconds)))

    with shares.of_ppo():
        train_rheos(env_steps, vectorization, shape, Observer())
    (started, before), (ended, after) = marks[0], marks[-1]
    parts = {part: (after[part] - before.get(part, 0.0)) / (ended - started) for part in after}
    return {**parts, "everything else": 1.0 - sum(parts.values())}


def measure_stable_baselines3(env_steps: int, shape: tuple[int, int]) -> dict[str, float]:
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

    num_envs, rollout_steps = shape
    model = PPO(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=num_envs, seed=1),
        n_steps=rollout_steps,
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
    return {"speed": clock.steady_speed()}


Measure = Callable[[int, tuple[int, int]], dict[str, float]]

RIVAL = "stable-baselines3"
SIDES: dict[str, Measure] = {
    "rheos, vectorization=auto": lambda env_steps, shape: measure_rheos(env_steps, "auto", shape),
    "rheos, vectorization=sync": lambda env_steps, shape: measure_rheos(env_steps, "sync", shape),
    RIVAL: measure_stable_baselines3,
}
SHARES: dict[str, Measure] = {
    "auto": lambda env_steps, shape: measure_shares(env_steps, "auto", shape),
    "sync": lambda env_steps, shape: measure_shares(env_steps, "sync", shape),
}


def measured(side: str, env_steps: int, shape: tuple[int, int]) -> dict[str, float]:
    """Measure one side in a process of its own."""
    return measure_apart("--side", side, "--env-steps", str(env_steps), "--shape", *map(str, shape))


def print_shape(shape: tuple[int, int], sides: list[str], env_steps: int, repeats: int) -> None:
    """Print the table of one shape, of sides in turns."""
    speeds: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(repeats):
        for side in sides:
            speeds[side].append(measured(side, env_steps, shape)["speed"])
    print(f"\n{shape[0]} environments x {shape[1]} steps, steady env steps/s")
    print_speeds(speeds, (RIVAL,))


def print_shares(env_steps: int) -> None:
    """Print where our own time goes."""
    print(f"\nwhere the time of rheos goes, {SHAPES[0][0]} environments x {SHAPES[0][1]} steps")
    for vectorization in SHARES:
        shares = measured(vectorization, env_steps, SHAPES[0])
        parts = "  ".join(f"{part} {share:.1%}" for part, share in shares.items())
        print(f"  vectorization={vectorization}: {parts}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--env-steps", type=int, default=100_000, help="of each measurement")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each side")
    parser.add_argument("--side", choices=[*SIDES, *SHARES], help=argparse.SUPPRESS)
    parser.add_argument("--shape", type=int, nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        measure = {**SIDES, **SHARES}[arguments.side]
        print(json.dumps(measure(arguments.env_steps, tuple(arguments.shape))))
        return
    print("PPO on CartPole-v1, one thread")
    print(versions("rheos-core", RIVAL, "torch"))
    print_shape(SHAPES[0], list(SIDES), arguments.env_steps, arguments.repeats)
    for shape in SHAPES[1:]:
        print_shape(shape, ["rheos, vectorization=auto", RIVAL], arguments.env_steps, arguments.repeats)
    print_shares(arguments.env_steps)


if __name__ == "__main__":
    main()
