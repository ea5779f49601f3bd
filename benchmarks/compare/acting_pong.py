"""Acting in Pong with the CNN of Mnih et al. 2015, beside Stable-Baselines3: `nox -s compare`.

8 environments, frames skipped, scaled and stacked, torch with one thread; nobody learns. Ours is the worker of
`algo=dqn`, whose rollouts are ready for replay, in ale-py's vector environment (which steps its games in threads of its
own); theirs is `predict` of its DQN in `make_atari_env`. A step is one of an agent, four frames.
"""

from __future__ import annotations

import itertools
import time

from _sides import compare

NUM_ENVS, ROLLOUT_STEPS = 8, 16
RIVAL = "stable-baselines3"


def rheos_speed(steps: int) -> float:
    from rheos.configuration.run_config import BackendConfig
    from rheos.environments.atari import make_environment
    from rheos.environments.atari_config import AtariConfig
    from rheos.runs.context import RunContext
    from rheos_apex.config import DQNConfig
    from rheos_apex.roles import dqn_roles

    environment = make_environment(AtariConfig(game="pong", num_envs=NUM_ENVS))
    config = DQNConfig(rollout_steps=ROLLOUT_STEPS, initial_epsilon=0.05)
    roles = dqn_roles(RunContext(config, environment, BackendConfig(name="torch"), num_workers=1, seed=1))
    worker = roles.workers[0].factory()
    worker.load(roles.learner.factory().weights())
    worker.rollout()
    began_at, done = time.perf_counter(), 0
    while done < steps:
        done += worker.rollout().info.env_steps
    speed = done / (time.perf_counter() - began_at)
    worker.close()
    return speed


def stable_baselines3_speed(steps: int) -> float:
    import ale_py
    import gymnasium
    import torch
    from stable_baselines3 import DQN
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import VecFrameStack

    gymnasium.register_envs(ale_py)
    torch.set_num_threads(1)
    environments = VecFrameStack(make_atari_env("PongNoFrameskip-v4", n_envs=NUM_ENVS, seed=1), 4)
    model = DQN("CnnPolicy", environments, buffer_size=1_000, device="cpu")
    model.exploration_rate = 0.05
    observations = environments.reset()
    began_at = time.perf_counter()
    for number in itertools.count():
        if number == ROLLOUT_STEPS:
            began_at = time.perf_counter()
        if NUM_ENVS * (number - ROLLOUT_STEPS) >= steps:
            break
        actions, _ = model.predict(observations)
        observations, _, _, _ = environments.step(actions)
    return steps / (time.perf_counter() - began_at)


if __name__ == "__main__":
    sides = {"rheos": rheos_speed, RIVAL: stable_baselines3_speed}
    compare("Acting in Pong, 8 environments", sides, {RIVAL: RIVAL}, unit="steps of agents/s", steps=8_000)
