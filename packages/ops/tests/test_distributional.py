"""Distributional mathematics beside brute force in plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rheos.arrays.numpy_namespace import numpy_xp as xp
from rheos.errors import ShapeError
from rheos_ops.distributional import project_distribution, quantile_huber


def projected(atoms, probs, support):
    """Algorithm 1 of Bellemare et al. 2017, atom by atom."""
    step = support[1] - support[0]
    given = [0.0] * len(support)
    for atom, prob in zip(atoms, probs, strict=True):
        place = (min(max(atom, support[0]), support[-1]) - support[0]) / step
        lower, upper = math.floor(place), math.ceil(place)
        if lower == upper:
            given[lower] += prob
        else:
            given[lower] += prob * (upper - place)
            given[upper] += prob * (place - lower)
    return given


def test_a_projection_is_that_of_the_paper():
    generator = np.random.default_rng(0)
    support = np.linspace(-3.0, 5.0, 9).astype(np.float32)
    atoms = generator.uniform(-6.0, 8.0, (40, 7)).astype(np.float32)
    atoms[0] = support[:7]  # upon the atoms, where both neighbours are one
    probs = generator.dirichlet(np.ones(7), 40).astype(np.float32)

    found = project_distribution(xp, atoms, probs, support)

    wanted = [projected(*row, support.tolist()) for row in zip(atoms.tolist(), probs.tolist(), strict=True)]
    np.testing.assert_allclose(found, wanted, atol=1e-6)  # a few roundings of float32
    np.testing.assert_allclose(found.sum(axis=-1), 1.0, atol=1e-6)


def test_a_projection_within_the_support_keeps_the_mean():
    support = np.linspace(-1.0, 1.0, 5).astype(np.float32)
    atoms, probs = np.array([[-0.9, 0.3, 0.95]], np.float32), np.array([[0.2, 0.5, 0.3]], np.float32)

    found = project_distribution(xp, atoms, probs, support)

    assert (found * support).sum() == pytest.approx((atoms * probs).sum(), abs=1e-6)


def test_every_atom_needs_a_probability():
    with pytest.raises(ShapeError, match="one probability for each atom"):
        project_distribution(xp, np.zeros((2, 3), np.float32), np.zeros((2, 4), np.float32), np.arange(2.0))


def test_the_quantile_loss_is_that_of_the_paper():
    generator = np.random.default_rng(1)
    quantiles, targets = (generator.normal(0.0, 2.0, (6, count)).astype(np.float32) for count in (4, 5))

    found = quantile_huber(xp, quantiles, targets, kappa=0.7)

    for row, loss in enumerate(found):
        wanted = 0.0
        for index, quantile in enumerate(quantiles[row].tolist()):
            for target in targets[row].tolist():
                error = target - quantile
                huber = 0.5 * error**2 if abs(error) <= 0.7 else 0.7 * (abs(error) - 0.35)
                wanted += abs((index + 0.5) / 4 - (error < 0.0)) * huber / 0.7 / 5
        assert loss == pytest.approx(wanted, rel=1e-5)  # a sum of 20 numbers of float32


def test_quantiles_that_lower_the_loss_are_those_of_the_targets():
    targets = np.linspace(0.0, 1.0, 1001).astype(np.float32)[None]
    grid = np.linspace(0.0, 1.0, 101).astype(np.float32)

    losses = quantile_huber(xp, np.stack([grid, grid], axis=-1), np.repeat(targets, 101, axis=0), kappa=1e-3)
    alone = [
        quantile_huber(xp, np.array([[low, high]], np.float32), targets, kappa=1e-3)[0]
        for low, high in ((0.25, 0.75), (0.35, 0.75), (0.25, 0.65), (0.15, 0.85))
    ]

    assert int(np.argmin(alone)) == 0
    assert alone[0] < losses.min()  # both at one place describe half of it
