"""Steady speed of DQN on CartPole-v1, beside Stable-Baselines3 and Tianshou: `nox -s compare`.

4 environments, an update of 32 transitions for every 4 env steps, Adam, two hidden layers of 64, one thread. Uniform
replay beside Stable-Baselines3, which has no other; prioritised replay beside Tianshou, whose loop is its collector and
its algorithm's `update`, without loggers. Each side in a process of its own, in turns; the first fifth of the steps, in
which ours are compiled where `graph` stands, does not count.
"""

from __future__ import annotations

import tempfile
from functools import partial
from typing import Any

from _sides import Clock, compare

import rheos

NUM_ENVS, BATCH_SIZE, CAPACITY, LEARNING_STARTS = 4, 32, 100_000, 1_000
LEARNING_RATE, DISCOUNT, HIDDEN, TARGET_EVERY, EPSILON = 5e-4, 0.99, [64, 64], 500, 0.05
UNIFORM_RIVAL, PRIORITISED_RIVAL = "stable-baselines3, uniform", "tianshou, prioritised"


def rheos_speed(steps: int, *, prioritized: bool, mode: str) -> float:
    clock = Clock()

    class Observer:
        @rheos.hookimpl
        def rheos_report(self, row: dict[str, float]) -> None:
            clock.mark(int(row["env_steps"]))

    settings: dict[str, Any] = {
        "batch_size": BATCH_SIZE,
        "updates_per_step": 0.25,
        "double": False,
        "prioritized": prioritized,
        "replay_steps": CAPACITY,
        "learning_starts": LEARNING_STARTS,
        "learning_rate": LEARNING_RATE,
        "discount": DISCOUNT,
        "hidden_sizes": HIDDEN,
        "target_update_every": TARGET_EVERY,
        "huber_delta": 1.0,
        "initial_epsilon": EPSILON,
        "final_epsilon": EPSILON,
    }
    with tempfile.TemporaryDirectory() as folder:
        rheos.train(
            {"name": "dqn", **settings},
            env={"id": "CartPole-v1", "num_envs": NUM_ENVS},
            backend={"name": "torch", "mode": mode},
            stop={"env_steps": steps},
            logger={"names": []},
            checkpoint={"every_steps": None},
            seed=1,
            run_dir=f"{folder}/run",
            observers=[Observer()],
        )
    return clock.steady_speed()


def stable_baselines3_speed(steps: int) -> float:
    import torch
    from stable_baselines3 import DQN
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)
    clock = Clock()

    class Callback(BaseCallback):
        def _on_step(self) -> bool:
            clock.mark(self.num_timesteps)
            return True

    model = DQN(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=NUM_ENVS, seed=1),
        learning_rate=LEARNING_RATE,
        buffer_size=CAPACITY,
        learning_starts=LEARNING_STARTS,
        batch_size=BATCH_SIZE,
        gamma=DISCOUNT,
        train_freq=1,  # a step of all environments
        gradient_steps=1,
        target_update_interval=4 * TARGET_EVERY,
        exploration_initial_eps=EPSILON,
        exploration_final_eps=EPSILON,
        policy_kwargs={"net_arch": HIDDEN},
        device="cpu",
    )
    model.learn(steps, callback=Callback())
    return clock.steady_speed()


def tianshou_speed(steps: int) -> float:
    import gymnasium
    import torch
    from tianshou.algorithm import DQN
    from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Collector, PrioritizedVectorReplayBuffer
    from tianshou.env import DummyVectorEnv
    from tianshou.utils.net.common import Net
    from tianshou.utils.torch_utils import policy_within_training_step

    torch.set_num_threads(1)
    environments = DummyVectorEnv([lambda: gymnasium.make("CartPole-v1")] * NUM_ENVS)
    action_space = gymnasium.spaces.Discrete(2)
    policy = DiscreteQLearningPolicy(
        model=Net(state_shape=4, action_shape=2, hidden_sizes=HIDDEN), action_space=action_space, eps_training=EPSILON
    )
    algorithm = DQN(
        policy=policy,
        optim=AdamOptimizerFactory(lr=LEARNING_RATE),
        gamma=DISCOUNT,
        target_update_freq=TARGET_EVERY,
        is_double=False,
        huber_loss_delta=1.0,
    )
    buffer = PrioritizedVectorReplayBuffer(CAPACITY, NUM_ENVS, alpha=0.6, beta=0.4)
    collector = Collector(policy, environments, buffer, exploration_noise=True)
    clock = Clock()
    collector.reset()
    collector.collect(n_step=LEARNING_STARTS)
    with policy_within_training_step(policy):
        for done in range(LEARNING_STARTS, steps, NUM_ENVS):
            collector.collect(n_step=NUM_ENVS)
            algorithm.update(buffer, BATCH_SIZE)
            clock.mark(done)
    return clock.steady_speed()


SIDES = {
    "rheos, uniform, eager": partial(rheos_speed, prioritized=False, mode="eager"),
    "rheos, uniform, graph": partial(rheos_speed, prioritized=False, mode="graph"),
    UNIFORM_RIVAL: stable_baselines3_speed,
    "rheos, prioritised, eager": partial(rheos_speed, prioritized=True, mode="eager"),
    "rheos, prioritised, graph": partial(rheos_speed, prioritized=True, mode="graph"),
    PRIORITISED_RIVAL: tianshou_speed,
}

if __name__ == "__main__":
    rivals = {UNIFORM_RIVAL: "stable-baselines3", PRIORITISED_RIVAL: "tianshou"}
    compare("DQN on CartPole-v1, one thread", SIDES, rivals, unit="steady env steps/s", steps=20_000)
