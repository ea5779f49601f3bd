"""Cases for every function of every distribution over actions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from hypothesis import strategies as st

from parity.cases import SMALL, Case, Flags, SideBySide, Spec, float32, floats, indices, largest, of_shape
from rheos_ops.distributions import (
    Bernoulli,
    Categorical,
    DiagonalGaussian,
    MultiCategorical,
    Product,
    SquashedGaussian,
)

FAMILIES = {
    "Categorical": Categorical(3),
    "MultiCategorical": MultiCategorical((2, 2)),
    "MultiCategorical of several sizes": MultiCategorical((2, 4, 1)),
    "Bernoulli": Bernoulli(2),
    "DiagonalGaussian": DiagonalGaussian(3),
    "SquashedGaussian": SquashedGaussian(2),
    "Product": Product((Categorical(3), SquashedGaussian(1), Bernoulli(2), DiagonalGaussian(1))),
}
BOX = gym.spaces.Box(-1.0, 3.0, (1,), np.float32)
SPACES = {
    "Categorical": gym.spaces.Discrete(3, start=1),
    "MultiCategorical": gym.spaces.MultiDiscrete([2, 2]),
    "MultiCategorical of several sizes": gym.spaces.MultiDiscrete([2, 4, 1]),
    "Bernoulli": gym.spaces.MultiBinary(2),
    "DiagonalGaussian": gym.spaces.Box(-np.inf, np.inf, (3,), np.float32),
    "SquashedGaussian": gym.spaces.Box(-1.0, 3.0, (2,), np.float32),
    "Product": gym.spaces.Tuple([gym.spaces.Discrete(3), BOX, gym.spaces.MultiBinary(2), BOX]),
}
"""Of the actions that each family is for."""
OUTPUTS = st.one_of(SMALL, floats(-50.0, 50.0), float32(0.0, 1e-30, 1e3, -1e3))
LOG_STDS = floats(-4.0, 2.0)
WHOLE = st.integers(-500, 500)
FRACTION = st.integers(1, 1023).map(lambda number: number / 1024)
"""Added to whole numbers, and all different, they leave no two alike."""
AT_THE_BOUNDS = st.one_of(floats(-1.0, 1.0), float32(-1.0, 1.0, 1.0 - 1e-6, 1.0 - 1e-7, 0.0))


def params_of(family: Any, outputs: st.SearchStrategy[Any] = OUTPUTS, **settings: Any) -> Spec:
    parts = [of_shape("T", "B", family.num_outputs, numbers=outputs, **settings)]
    if family.num_log_stds:
        parts.append(of_shape("T", "B", family.num_log_stds, numbers=LOG_STDS))
    return SideBySide((), parts=tuple(parts))


def actions_of(family: Any) -> Spec:
    """The actions that a family can give, drawn by themselves."""
    match family:
        case Categorical():
            return indices(family.num_values, "T", "B")
        case MultiCategorical():
            parts = tuple(indices(num, "T", "B", 1) for num in family.nvec)
            return SideBySide((), dtype=np.int32, parts=parts)
        case Bernoulli():
            return indices(2, "T", "B", family.size)
        case DiagonalGaussian():
            return of_shape("T", "B", family.size, numbers=floats(-50.0, 50.0))
        case SquashedGaussian():
            return of_shape("T", "B", family.size, numbers=AT_THE_BOUNDS)
    parts = (indices(3, "T", "B", 1), actions_of(family.parts[1]), indices(2, "T", "B", 2), actions_of(family.parts[3]))
    return SideBySide((), parts=parts)


def cases_of(name: str) -> dict[str, Case]:
    """A case for every function of a family, and of those of masked logits."""
    family = FAMILIES[name]
    params, actions, noise = (
        params_of(family),
        actions_of(family),
        of_shape("T", "B", family.num_outputs, numbers=SMALL),
    )
    chosen = params
    if not isinstance(family, DiagonalGaussian | SquashedGaussian):
        # one of several values is chosen, so the numbers that it is chosen by are all different
        chosen = params_of(family, WHOLE, unique=True)
        noise = of_shape("T", "B", family.num_outputs, numbers=FRACTION, unique=True)
    cases = {
        "sample": case_of(family.sample, (chosen, noise), is_smooth=not family.is_discrete, scale=largest),
        "mode": case_of(family.mode, (chosen,), is_smooth=not family.is_discrete),
        "entropy": Case(family.entropy, (params,), scale=lambda p: 40.0 + 4.0 * largest(p)),  # within: μ ± 5.5 σ, twice
        "kl": Case(family.kl, (params, params), scale=largest),
        "log_prob": Case(family.log_prob, (params,), (actions,), scale=partial(size_of_a_density, family)),
    }
    if isinstance(family, DiagonalGaussian):
        cases["log_prob"] = Case(family.log_prob, (params, actions))
    if isinstance(family, Categorical | MultiCategorical):
        cases |= masked_cases_of(family, params, actions)
    return {f"{name}.{function}": case for function, case in cases.items()}


def case_of(call: Callable[..., Any], inputs: tuple[Spec, ...], *, is_smooth: bool, **settings: Any) -> Case:
    return Case(call, inputs if is_smooth else (), () if is_smooth else inputs, **settings)


def size_of_a_density(family: Any, params: np.ndarray, actions: np.ndarray) -> float:
    """Logits are added up as they are; u = artanh a, up to 8, loses digits beside the mean before it is squared."""
    if not family.num_log_stds:
        return largest(params)
    log_stds = params[..., family.num_outputs :]
    return float(largest(params) + (8.0 + largest(params)) ** 2 * np.exp(-2.0 * log_stds.min()) / 10)


def masked_cases_of(family: Categorical | MultiCategorical, params: Spec, actions: Spec) -> dict[str, Case]:
    """Masks leave several values, one or none."""
    mask = Flags(("T", "B", family.num_outputs), st.booleans(), np.bool_)

    def masked(function):
        return lambda xp, p, mask: function(xp, family.mask(xp, p, mask))

    def masked_kl(xp, p, q, mask):
        return family.kl(xp, family.mask(xp, p, mask), family.mask(xp, q, mask))

    return {
        "mask": Case(family.mask, (params,), (mask,)),
        "entropy, masked": Case(masked(family.entropy), (params,), (mask,), scale=largest),
        "kl, masked": Case(masked_kl, (params, params), (mask,), scale=largest),
        "log_prob, masked": Case(
            lambda xp, p, mask, actions: family.log_prob(xp, family.mask(xp, p, mask), actions),
            (params,),
            (mask, actions),
            scale=largest,
        ),
    }


GROUPS = {name: cases_of(name) for name in FAMILIES}
