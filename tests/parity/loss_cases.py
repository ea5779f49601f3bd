"""The learner of every algorithm in every kind of space, and losses of the other mathematics of `rheos_ops`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np

from rheos.configuration.run_config import BackendConfig
from rheos.networks.specs import LSTM, MLP, Heads
from rheos.runs.context import RunContext
from rheos.spaces import ObservationAdapter, Spaces
from rheos_apex.config import DQNConfig, R2D2Config, RainbowConfig
from rheos_apex.roles import learner_spec as replay_learner_spec
from rheos_ops.distributions import Categorical
from rheos_ops.minibatches import SHARE, WeightedLoss
from rheos_ops.q_learning import double_q_targets, dueling_q_values, huber, td_errors
from rheos_ops.vtrace import vtrace
from rheos_ppo.config import PPOConfig
from rheos_ppo.roles import learner_spec

NUMBERS = gym.spaces.Box(-np.inf, np.inf, (5,), np.float32)
IMAGE = gym.spaces.Box(0, 255, (12, 12, 3), np.uint8)
MASKED = gym.spaces.Dict(observation=NUMBERS, action_mask=gym.spaces.MultiBinary(3))
DISCRETE, BOX = gym.spaces.Discrete(3), gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
SCALAR, FRACTION = gym.spaces.Box(-np.inf, np.inf, (), np.float32), gym.spaces.Box(0.0, 1.0, (), np.float32)


def ppo(observation_space: gym.Space[Any], action_space: gym.Space[Any], **settings: Any) -> tuple[Any, Spaces]:
    spaces = Spaces(observation_space, action_space)
    config = PPOConfig(hidden_sizes=(16, 16), value_clip_range=0.2, **settings)
    environment = SimpleNamespace(spaces=lambda: spaces)
    context: Any = RunContext(config, environment, BackendConfig(), num_workers=1, seed=0)
    return learner_spec(context), spaces


def q_learning(
    observation_space: gym.Space[Any], action_space: gym.Space[Any], config: DQNConfig
) -> tuple[Any, dict[str, gym.Space[Any]]]:
    spaces = Spaces(observation_space, action_space)
    environment = SimpleNamespace(spaces=lambda: spaces)
    context: Any = RunContext(config, environment, BackendConfig(), num_workers=1, seed=0)
    spec = replay_learner_spec(context)
    observed = ObservationAdapter(observation_space, action_space).columns
    columns: dict[str, gym.Space[Any]] = {}
    for name, column in observed.items():
        leaf = SPACES_OF_DTYPES[column.dtype.kind](column.shape)
        columns |= {name: leaf, f"next_{name}": leaf}
    columns |= {"actions": action_space, "rewards": SCALAR, "discounts": FRACTION, "weights": FRACTION}
    noise = {name: array.shape[1:] for name, array in spec.draw_noise(np.random.default_rng(0)).items()}
    return spec, columns | {name: gym.spaces.Box(-np.inf, np.inf, shape, np.float32) for name, shape in noise.items()}


def sequences(
    observation_space: gym.Space[Any], action_space: gym.Space[Any], config: R2D2Config
) -> tuple[Any, dict[str, gym.Space[Any]]]:
    spaces = Spaces(observation_space, action_space)
    environment = SimpleNamespace(spaces=lambda: spaces)
    context: Any = RunContext(config, environment, BackendConfig(), num_workers=1, seed=0)
    length, observed = config.length, config.burn_in + config.length + 1
    branches = [action_space.n] if isinstance(action_space, gym.spaces.Discrete) else list(action_space.nvec)
    numbers = SPACES_OF_DTYPES["f"]
    columns: dict[str, gym.Space[Any]] = {
        name: SPACES_OF_DTYPES[column.dtype.kind]((observed, *column.shape))
        for name, column in ObservationAdapter(observation_space, action_space).columns.items()
    }
    columns |= {"is_first": gym.spaces.MultiBinary(observed), "memory": numbers((2 * config.lstm_units,))}
    columns["actions"] = gym.spaces.MultiDiscrete(np.tile(branches, (length, 1)).squeeze())
    columns |= {"rewards": numbers((length,)), "discounts": gym.spaces.Box(0.0, 1.0, (length,), np.float32)}
    columns["bootstraps"] = gym.spaces.MultiDiscrete([length + 1] * length)
    return replay_learner_spec(context), columns | {"mask": gym.spaces.MultiBinary(length), "weights": FRACTION}


SPACES_OF_DTYPES = {
    "f": lambda shape: gym.spaces.Box(-np.inf, np.inf, shape, np.float32),
    "u": lambda shape: gym.spaces.Box(0, 255, shape, np.uint8),
    "b": gym.spaces.MultiBinary,
}
SMALL: Any = {"hidden_sizes": (16, 16), "num_atoms": 7}
SEQUENCES: Any = {"hidden_sizes": (16, 16), "burn_in": 2, "length": 3, "lstm_units": 4}
BRANCHES = gym.spaces.MultiDiscrete([2, 3])


LEARNERS = {
    "dqn": {
        "Discrete": q_learning(NUMBERS, DISCRETE, DQNConfig(**SMALL)),
        "Discrete, masked": q_learning(MASKED, DISCRETE, DQNConfig(**SMALL)),
        "not double": q_learning(NUMBERS, DISCRETE, DQNConfig(double=False, **SMALL)),
        "branches, dueling": q_learning(NUMBERS, BRANCHES, DQNConfig(dueling=True, **SMALL)),
        "noisy": q_learning(NUMBERS, DISCRETE, DQNConfig(noisy=True, **SMALL)),
        "image": q_learning(IMAGE, DISCRETE, DQNConfig(num_atoms=7)),
    },
    "rainbow": {
        "Discrete": q_learning(NUMBERS, DISCRETE, RainbowConfig(**SMALL)),
        "branches": q_learning(NUMBERS, BRANCHES, RainbowConfig(**SMALL)),
    },
    "qrdqn": {"branches": q_learning(NUMBERS, BRANCHES, DQNConfig(value_distribution="quantile", **SMALL))},
    "apex": {"Discrete": q_learning(NUMBERS, DISCRETE, DQNConfig(dueling=True, **SMALL))},
    "r2d2": {
        "Discrete": sequences(NUMBERS, DISCRETE, R2D2Config(**SEQUENCES)),
        "branches, not double, not rescaled": sequences(
            NUMBERS, BRANCHES, R2D2Config(double=False, dueling=False, rescale_epsilon=None, **SEQUENCES)
        ),
    },
    "ppo": {
        "Discrete": ppo(NUMBERS, DISCRETE),
        "Discrete, masked": ppo(MASKED, DISCRETE),
        "MultiDiscrete": ppo(NUMBERS, gym.spaces.MultiDiscrete([2, 3])),
        "MultiBinary": ppo(NUMBERS, gym.spaces.MultiBinary(3)),
        "Box": ppo(NUMBERS, BOX),
        "Box, squashed": ppo(NUMBERS, BOX, squash_actions=True, normalize_advantages="batch"),
        "nested": ppo(gym.spaces.Dict(camera=IMAGE, speed=NUMBERS), gym.spaces.Dict(steer=BOX, gear=DISCRETE)),
        "image": ppo(IMAGE, DISCRETE),
        "shared trunk": ppo(NUMBERS, BOX, shared_trunk=True),
        "normalized": ppo(NUMBERS, DISCRETE, normalize_observations=True, normalize_rewards=True),
    },
}
"""By the name of the algorithm."""
PROBLEMS = {f"{algorithm}, {name}": given for algorithm, own in LEARNERS.items() for name, given in own.items()}


def vtrace_loss(xp, networks, batch, coefficients):
    """The loss of an actor-critic with V-trace, over time-major columns, with a memory."""
    state = xp.zeros((batch["x"].shape[1], 8))
    features, _ = networks["memory"](batch["x"], state, batch["is_first"])
    params, values = networks["policy"](features), networks["value"](features)[..., 0]
    policy = Categorical(3)
    log_probs = policy.log_prob(xp, params, batch["actions"])
    targets, advantages = vtrace(
        xp, log_probs - batch["log_probs"], batch["rewards"], values, values[-1], batch["discounts"], lambda_=0.9
    )
    entropy = xp.mean(policy.entropy(xp, params))
    value_loss = 0.5 * xp.mean(xp.square(targets - values))
    loss = value_loss - xp.mean(log_probs * advantages) - coefficients["entropy_coef"] * entropy
    return loss, {"entropy": entropy, "value_loss": value_loss}


def double_dqn_loss(xp, networks, batch, coefficients):
    """The loss of a dueling double DQN, with a target network that is not trained."""

    def q_values(name, x):
        heads = networks[name](x)
        return dueling_q_values(xp, heads["value"][..., 0], heads["advantages"])

    next_q_values, next_target_q_values = q_values("online", batch["next_x"]), q_values("target", batch["next_x"])
    targets = double_q_targets(xp, batch["rewards"], batch["discounts"], next_q_values, next_target_q_values)
    errors = td_errors(xp, q_values("online", batch["x"]), batch["actions"], targets)
    return xp.mean(batch["weights"] * huber(xp, errors)), {"error_max": xp.max(xp.abs(errors))}


DUELING = Heads(MLP(5, 8, (), activates_output=True), {"value": MLP(8, 1, ()), "advantages": MLP(8, 3, ())})
TRANSITIONS = {
    "x": NUMBERS,
    "next_x": NUMBERS,
    "actions": DISCRETE,
    "rewards": SCALAR,
    "discounts": FRACTION,
    "weights": FRACTION,
}
LOSSES = {
    "vtrace_loss": (
        vtrace_loss,
        {
            "x": NUMBERS,
            "is_first": gym.spaces.MultiBinary(()),
            "actions": DISCRETE,
            "log_probs": gym.spaces.Box(-3.0, 0.0, ()),
            "rewards": SCALAR,
            "discounts": FRACTION,
        },
        {
            "networks": {"memory": LSTM(5, 4), "policy": MLP(4, 3, ()), "value": MLP(4, 1, ())},
            "coefficients": {"entropy_coef": 0.01},
            "lead": (4, 3),
        },
    ),
    "double_dqn_loss": (double_dqn_loss, TRANSITIONS, {"networks": {"online": DUELING}, "frozen": {"target": DUELING}}),
    "weighted loss": (
        WeightedLoss(double_dqn_loss),
        TRANSITIONS,
        {"networks": {"online": DUELING}, "frozen": {"target": DUELING}, "coefficients": {SHARE: 0.6}},
    ),
}
"""Each with the spaces of its columns, and what else `check_component` takes."""
