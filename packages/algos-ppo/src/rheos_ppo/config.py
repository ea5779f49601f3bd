"""PPOConfig: the settings of PPO, with unit and range."""

from __future__ import annotations

from dataclasses import dataclass

from rheos.configuration.settings import setting

__all__ = ["PPOConfig"]


@dataclass(frozen=True)
class PPOConfig:
    """The settings of proximal policy optimisation."""

    rollout_steps: int = setting(
        128, minimum=1, maximum=1_000_000, unit="steps", help="steps of each environment in a rollout"
    )
    discount: float = setting(0.99, minimum=0.0, maximum=1.0, help="weight of a reward one environment step later")
    gae_lambda: float = setting(
        0.8, minimum=0.0, maximum=1.0, help="0: advantages are TD errors; 1: returns minus the value"
    )
    num_epochs: int = setting(4, minimum=1, help="passes over the rollouts of a round")
    minibatch_size: int = setting(256, minimum=1, unit="transitions", help="transitions in a gradient step")
    learning_rate: float = setting(1e-3, exclusive_minimum=0.0, help="step size of Adam")
    adam_epsilon: float = setting(1e-5, exclusive_minimum=0.0, help="epsilon of Adam")
    clip_range: float = setting(
        0.2, exclusive_minimum=0.0, help="how far the probability ratio may move from 1 and still be rewarded"
    )
    entropy_coef: float = setting(0.01, minimum=0.0, help="weight of the entropy bonus")
    value_coef: float = setting(0.5, minimum=0.0, help="weight of the value loss")
    max_grad_norm: float | None = setting(
        0.5, exclusive_minimum=0.0, help="gradients are scaled down to this global norm; null leaves them"
    )
    normalize_advantages: bool = setting(True, help="standardize the advantages of each minibatch")
    hidden_sizes: tuple[int, ...] = setting(
        (64, 64), minimum=1, unit="units", help="hidden layers of the policy and of the value network"
    )
    activation: str = setting("tanh", choices=("tanh", "relu"), help="non-linearity of the hidden layers")
    initial_log_std: float = setting(0.0, help="log of the policy's standard deviation at the start, Box actions only")
