"""Distributions over actions, as pure functions of one array of parameters that a policy's networks give."""

from __future__ import annotations

from rheos_ops.distributions.bernoulli import Bernoulli
from rheos_ops.distributions.categorical import Categorical, MultiCategorical
from rheos_ops.distributions.fitting import distribution_for
from rheos_ops.distributions.gaussian import DiagonalGaussian, SquashedGaussian
from rheos_ops.distributions.product import Product
from rheos_ops.distributions.protocol import Distribution

__all__ = [
    "Bernoulli",
    "Categorical",
    "DiagonalGaussian",
    "Distribution",
    "MultiCategorical",
    "Product",
    "SquashedGaussian",
    "distribution_for",
]
