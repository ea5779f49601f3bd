"""Cases for what learners estimate: advantages, V-trace, Q-learning, and what standardizes and judges."""

from __future__ import annotations

import math

from parity.cases import FRACTIONS, QUARTERS, SMALL, WIDE, Case, flags, floats, indices, largest, of_shape
from rheos_ops.advantages import explained_variance, generalized_advantages, standardize
from rheos_ops.distributional import project_distribution, quantile_huber
from rheos_ops.q_learning import (
    double_q_targets,
    dueling_q_values,
    huber,
    rescaled_targets,
    sequence_priorities,
    signed_hyperbolic,
    signed_parabolic,
    td_errors,
)
from rheos_ops.vtrace import vtrace

X = of_shape("T", "B", numbers=QUARTERS)
APART = of_shape("T", "B", numbers=QUARTERS, unique=True)
RATIOS = of_shape("T", "B", numbers=floats(-20.0, 20.0))
Q_VALUES = of_shape("T", "B", 3, numbers=QUARTERS, unique=True)


def advantages(discount, lambda_):
    def call(xp, *columns):
        return generalized_advantages(xp, *columns, discount=discount, lambda_=lambda_)

    return Case(call, (X, X, X), (flags("T", "B"), flags("T", "B")), scale=largest)


def v_trace(**settings):
    def call(xp, *columns):
        return vtrace(xp, *columns, **settings)._asdict()

    ratio = math.exp(min(20.0, math.log(settings.get("rho_bar", 1.0))))
    discounts = of_shape("T", "B", numbers=FRACTIONS)
    return Case(
        call,
        (RATIOS, X, X, of_shape("B", numbers=QUARTERS), discounts),
        scale=lambda *arrays: ratio * largest(*arrays[1:4]),
        differences=False,  # nothing flows through them
    )


ESTIMATES = {
    "generalized_advantages": advantages(0.99, 0.95),
    "generalized_advantages, without discount": advantages(1.0, 1.0),
    "generalized_advantages, one step": advantages(0.9, 0.0),
    "vtrace": v_trace(),
    "vtrace, wide": v_trace(rho_bar=4.0, c_bar=2.0, lambda_=0.9),
    "double_q_targets": Case(
        double_q_targets, (X, of_shape("T", "B", numbers=FRACTIONS), Q_VALUES, Q_VALUES), differences=False
    ),
    "td_errors": Case(
        lambda xp, q, targets, actions: td_errors(xp, q, actions, targets), (Q_VALUES, X), (indices(3, "T", "B"),)
    ),
    "dueling_q_values": Case(dueling_q_values, (X, of_shape("T", "B", 3)), scale=largest),
    "signed_hyperbolic": Case(signed_hyperbolic, (of_shape("T", "B", numbers=WIDE),)),
    "signed_parabolic": Case(signed_parabolic, (of_shape("T", "B", numbers=floats(-300.0, 300.0)),)),
    "rescaled_targets": Case(
        lambda xp, rewards, discounts, values: (
            rescaled_targets(xp, rewards, discounts, values, epsilon=1e-3),
            rescaled_targets(xp, rewards, discounts, values, epsilon=None),
        ),
        (X, of_shape("T", "B", numbers=FRACTIONS), X),
        scale=lambda r, d, v: 2.0 * (float(abs(v).max(initial=0.0)) + 2.0) ** 2,  # what h⁻¹ makes of the values
    ),
    "sequence_priorities": Case(
        lambda xp, errors, mask: sequence_priorities(xp, errors, mask, max_share=0.9),
        (X,),
        (flags("T", "B"),),
        scale=largest,
        differences=False,  # nothing flows through them
    ),
    "project_distribution": Case(
        lambda xp, atoms, logits: project_distribution(xp, atoms, xp.softmax(logits), xp.asarray([-2.0, 0.0, 2.0])),
        (of_shape("B", 5, numbers=QUARTERS, unique=True), of_shape("B", 5)),
        differences=False,  # it bends at each atom
    ),
    "quantile_huber": Case(
        lambda xp, quantiles, targets: quantile_huber(xp, quantiles, targets, kappa=0.5),
        (of_shape("B", 4, numbers=QUARTERS, unique=True), of_shape("B", 3)),
        differences=False,  # it bends where a quantile meets a target
    ),
    "huber": Case(lambda xp, x: (huber(xp, x), huber(xp, x, delta=0.25)), (of_shape("T", "B", numbers=WIDE),)),
    "standardize": Case(standardize, (APART,)),
    "standardize, one number": Case(standardize, (of_shape(1, numbers=SMALL),)),
    "explained_variance": Case(explained_variance, (X, APART), scale=lambda p, y: largest(p)),
    "explained_variance, one number": Case(explained_variance, (of_shape(1, numbers=SMALL),) * 2),
}

GROUPS = {"estimates": ESTIMATES}
