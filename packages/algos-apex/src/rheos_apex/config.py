"""The settings of DQN and its family, with unit and range."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from rheos.configuration.settings import setting

__all__ = [
    "ApexConfig",
    "DQNConfig",
    "PacedConfig",
    "QLearningConfig",
    "QRDQNConfig",
    "R2D2Config",
    "RainbowConfig",
    "ReplayConfig",
]


@dataclass(frozen=True)
class ReplayConfig:
    """What all of the family have: how values are learned, from which replay, by which network."""

    rollout_steps: int = setting(
        8, minimum=1, maximum=1_000_000, unit="steps", help="steps of each environment in a rollout"
    )
    discount: float = setting(0.99, minimum=0.0, maximum=1.0, help="weight of a reward one environment step later")
    n_step: int = setting(1, minimum=1, maximum=1000, unit="steps", help="rewards added up before a value takes over")
    double: bool = setting(
        True, help="whether the network that learns chooses the action that the target network values"
    )
    dueling: bool = setting(False, help="whether values are those of a state plus the advantages of actions")

    replay_steps: int = setting(100_000, minimum=1, unit="rows", help="how much all shards keep together")
    replay_bytes: int | None = setting(
        None, minimum=1, unit="bytes", help="how much memory all shards use at most; null: what replay_steps need"
    )
    replay_shards: int = setting(1, minimum=1, help="actors that keep the replay, each a part")
    learning_starts: int = setting(
        1_000, minimum=0, unit="transitions", help="how many there must be in replay before learning starts"
    )
    batch_size: int = setting(32, minimum=1, unit="transitions", help="transitions in a gradient step")
    prioritized: bool = setting(
        False, help="whether transitions with a large error are sampled more often than the others"
    )
    priority_exponent: float = setting(
        0.6, minimum=0.0, maximum=1.0, help="what priorities are raised to; with 0 all transitions are alike"
    )
    importance_exponent: float = setting(
        0.4, minimum=0.0, maximum=1.0, help="how far weights in the loss make up for it; 1: wholly"
    )
    final_importance_exponent: float | None = setting(
        None, minimum=0.0, maximum=1.0, help="where that goes to, linearly until stop.env_steps; null: it stays"
    )

    learning_rate: float = setting(5e-4, exclusive_minimum=0.0, help="step size of Adam")
    adam_epsilon: float = setting(1e-8, exclusive_minimum=0.0, help="epsilon of Adam")
    max_grad_norm: float | None = setting(
        10.0, exclusive_minimum=0.0, help="gradients are scaled down to this global norm; null leaves them"
    )
    huber_delta: float | None = setting(
        None,
        exclusive_minimum=0.0,
        unit="return",
        help="errors beyond it count linearly, which suits clipped rewards; null: squares, and 1 for quantiles",
    )
    target_update_every: int = setting(
        500, minimum=1, unit="updates", help="updates of the learner between two moves of the target network"
    )
    target_tau: float = setting(
        1.0, exclusive_minimum=0.0, maximum=1.0, help="how far the target network moves then; 1 copies"
    )

    hidden_sizes: tuple[int, ...] | None = setting(
        None, minimum=1, unit="units", help="hidden layers; null: 64, 64, and none behind the CNN of images alone"
    )
    activation: str = setting("relu", choices=("tanh", "relu"), help="non-linearity of the hidden layers")
    filters: tuple[tuple[int, int, int], ...] | None = setting(
        None, minimum=1, help="channels, size and stride of each convolution; null: Nature's, or smaller ones that fit"
    )


@dataclass(frozen=True)
class QLearningConfig(ReplayConfig):
    """What those of the family have that remember nothing: noisy layers, and distributions of the return."""

    noisy: bool = setting(False, help="whether noise on the last layers explores; set the epsilons to 0 beside it")
    noisy_sigma: float = setting(
        0.5, exclusive_minimum=0.0, help="deviation of the noise at the start, times the root of a layer's inputs"
    )
    value_distribution: str = setting(
        "none",
        choices=("none", "categorical", "quantile"),
        help="whether the return's mean is learned or its distribution: on fixed atoms (C51) or as quantiles (QR-DQN)",
    )
    num_atoms: int = setting(51, minimum=2, help="atoms of a categorical distribution, or quantiles")
    value_min: float = setting(-10.0, unit="return", help="the lowest atom of a categorical distribution")
    value_max: float = setting(10.0, unit="return", help="the highest atom of a categorical distribution")


def _changed(name: str, default: Any, config: type[Any] = QLearningConfig) -> Any:
    """Declare a field of a base class again, with another default."""
    (inherited,) = (item for item in fields(config) if item.name == name)
    return field(default=default, metadata=inherited.metadata)


@dataclass(frozen=True)
class DQNConfig(QLearningConfig):
    """The settings of deep Q-learning, whose every improvement is a switch."""

    updates_per_step: float = setting(
        0.25, exclusive_minimum=0.0, help="updates of the learner for each step of each environment; exact"
    )
    initial_epsilon: float = setting(1.0, minimum=0.0, maximum=1.0, help="share of random actions at the start")
    final_epsilon: float = setting(0.05, minimum=0.0, maximum=1.0, help="share of random actions in the end")
    exploration_steps: int = setting(
        10_000, minimum=1, unit="env steps", help="env steps from the initial to the final share, linearly"
    )


@dataclass(frozen=True)
class RainbowConfig(DQNConfig):
    """DQN with all six improvements of Hessel et al. 2018."""

    n_step: int = _changed("n_step", 3)
    dueling: bool = _changed("dueling", True)
    noisy: bool = _changed("noisy", True)
    value_distribution: str = _changed("value_distribution", "categorical")
    prioritized: bool = _changed("prioritized", True)
    priority_exponent: float = _changed("priority_exponent", 0.5)
    initial_epsilon: float = _changed("initial_epsilon", 0.0, DQNConfig)
    final_epsilon: float = _changed("final_epsilon", 0.0, DQNConfig)


@dataclass(frozen=True)
class QRDQNConfig(DQNConfig):
    """DQN that learns quantiles of the return, as in Dabney et al. 2018."""

    value_distribution: str = _changed("value_distribution", "quantile")
    num_atoms: int = _changed("num_atoms", 50)


@dataclass(frozen=True)
class PacedConfig:
    """How workers explore each in its own way, and act and learn each at its own pace."""

    epsilon_base: float = setting(
        0.4, minimum=0.0, maximum=1.0, help="share of random actions in the environment that explores most"
    )
    epsilon_exponent: float = setting(
        7.0, minimum=0.0, help="the one that explores least has epsilon_base to the power of 1 plus this"
    )
    updates_per_rollout: float | None = setting(
        None,
        exclusive_minimum=0.0,
        help="updates of the learner for each rollout of a worker; null: acting and learning each at its own pace",
    )
    rollouts_in_flight: int = setting(1, minimum=1, help="rollouts that a worker is asked for at a time")
    samples_in_flight: int = setting(2, minimum=1, help="batches that a shard is asked for at a time")
    weight_sync_steps: int = setting(
        400, minimum=1, unit="env steps", help="env steps of a worker from one load of the newest weights to the next"
    )
    publish_every: int = setting(
        10, minimum=1, unit="updates", help="updates of the learner from one publication of its weights to the next"
    )


@dataclass(frozen=True)
class ApexConfig(PacedConfig, QLearningConfig):
    """The settings of Ape-X: many workers that explore each in its own way, one learner, replay between them."""

    rollout_steps: int = _changed("rollout_steps", 16)
    n_step: int = _changed("n_step", 3)
    dueling: bool = _changed("dueling", True)
    prioritized: bool = _changed("prioritized", True)
    batch_size: int = _changed("batch_size", 512)


@dataclass(frozen=True)
class R2D2Config(PacedConfig, ReplayConfig):
    """The settings of R2D2: Ape-X with a memory, which learns from sequences; a row of its replay is a sequence."""

    rollout_steps: int = _changed("rollout_steps", 16)
    discount: float = _changed("discount", 0.997)
    n_step: int = _changed("n_step", 5)
    dueling: bool = _changed("dueling", True)
    replay_steps: int = _changed("replay_steps", 10_000)
    learning_starts: int = setting(
        100, minimum=0, unit="sequences", help="how many there must be in replay before learning starts"
    )
    batch_size: int = setting(32, minimum=1, unit="sequences", help="sequences in a gradient step")
    prioritized: bool = setting(True, help="whether sequences with large errors are sampled more often than the others")
    priority_exponent: float = _changed("priority_exponent", 0.9)
    importance_exponent: float = _changed("importance_exponent", 0.6)

    burn_in: int = setting(
        40, minimum=0, unit="steps", help="steps before those that are learned from, to warm the memory up"
    )
    length: int = setting(40, minimum=1, unit="steps", help="steps of a sequence that are learned from")
    lstm_units: int = setting(64, minimum=1, unit="units", help="units of the LSTM, between the hidden layers")
    rescale_epsilon: float | None = setting(
        1e-3, minimum=0.0, help="values are learned as sign(x) (√(|x| + 1) - 1) + this x; null: as they are"
    )
    max_error_share: float = setting(
        0.9, minimum=0.0, maximum=1.0, help="share of the largest error in a priority; the rest is that of their mean"
    )
