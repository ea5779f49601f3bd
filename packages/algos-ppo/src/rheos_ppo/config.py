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
        0.95, minimum=0.0, maximum=1.0, help="0: advantages are TD errors; 1: returns minus the value"
    )
    num_epochs: int = setting(10, minimum=1, help="passes over the rollouts of a round")
    minibatch_size: int = setting(256, minimum=1, unit="transitions", help="transitions in a gradient step")
    target_kl: float | None = setting(
        None, exclusive_minimum=0.0, unit="nats", help="no further pass over a round once approx_kl is above; null: all"
    )

    learning_rate: float = setting(1e-3, exclusive_minimum=0.0, help="step size of Adam")
    final_learning_rate: float | None = setting(
        None, minimum=0.0, help="where learning_rate goes to, linearly until stop.env_steps; null: it stays"
    )
    adam_epsilon: float = setting(1e-5, exclusive_minimum=0.0, help="epsilon of Adam")
    max_grad_norm: float | None = setting(
        0.5, exclusive_minimum=0.0, help="gradients are scaled down to this global norm; null leaves them"
    )

    clip_range: float = setting(
        0.2, exclusive_minimum=0.0, help="how far the probability ratio may move from 1 and still be rewarded"
    )
    final_clip_range: float | None = setting(None, minimum=0.0, help="as final_learning_rate, of clip_range")
    entropy_coef: float = setting(0.01, minimum=0.0, help="weight of the entropy bonus")
    final_entropy_coef: float | None = setting(None, minimum=0.0, help="as final_learning_rate, of entropy_coef")
    value_coef: float = setting(0.5, minimum=0.0, help="weight of the value loss")
    value_clip_range: float | None = setting(
        None,
        exclusive_minimum=0.0,
        help="how far a value may move and still lower the loss; null: as far as it wants",
    )
    normalize_advantages: str = setting(
        "minibatch", choices=("minibatch", "batch", "none"), help="over what advantages are standardized"
    )

    normalize_observations: bool = setting(
        False, help="shift and scale observed numbers (not images) by their running mean and deviation"
    )
    normalize_rewards: bool = setting(
        False, help="divide rewards by the running deviation of the discounted return; returns are shown as they are"
    )

    hidden_sizes: tuple[int, ...] | None = setting(
        None, minimum=1, unit="units", help="hidden layers; null: 64, 64, and none behind the CNN of images alone"
    )
    activation: str = setting("tanh", choices=("tanh", "relu"), help="non-linearity of the hidden layers")
    shared_trunk: bool | None = setting(
        None, help="whether policy and value share all layers but the last; null: where there are images"
    )
    filters: tuple[tuple[int, int, int], ...] | None = setting(
        None, minimum=1, help="channels, size and stride of each convolution; null: Nature's, or smaller ones that fit"
    )
    torso: str | None = setting(
        None,
        allow_empty=False,
        help="what sees observations: resnet, the one of IMPALA, for images; package.module:function, which makes a"
        " torch module or Keras model of your own; null: a CNN for images, numbers as they are",
    )
    torso_outputs: int | None = setting(
        None, minimum=1, unit="features", help="what a module of your own gives; null where there is none"
    )
    initial_log_std: float = setting(
        0.0, help="log of the policy's standard deviation at the start, in units where a bounded action is in [-1, 1]"
    )
    squash_actions: bool = setting(
        False, help="draw bounded actions from a normal squashed by tanh, so that none is clipped"
    )
