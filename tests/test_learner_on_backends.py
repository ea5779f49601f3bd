"""The generic learner with real gradients: limits of minibatches, normalizers, and a state that goes on identically."""

from __future__ import annotations

import numpy as np
import pytest

from rheos import Batch, BatchInfo
from rheos.arrays.numpy_namespace import numpy_xp
from rheos.configuration.run_config import BackendConfig
from rheos.errors import RheosError
from rheos.networks.numpy_networks import NumpyNetworks
from rheos.networks.specs import MLP, Normalizer
from rheos.plugins import Kind, load_registry, make_backend
from rheos_ops.advantages import standardize
from rheos_ops.distributions import Categorical
from rheos_ops.learners import GradientLearner, LearnerSpec
from rheos_ops.normalization import NormalizerSpec
from rheos_ops.schedules import Linear

BACKENDS = load_registry().names(Kind.BACKEND)
NETWORKS = {"normalizer": Normalizer(3), "policy": MLP(3, 2, (8,))}
POLICY = Categorical(2)

every_backend = pytest.mark.parametrize("backend_name", BACKENDS)


def policy_gradient(xp, networks, batch, coefficients):
    """The loss of REINFORCE with an entropy bonus, and the divergence from the policy that acted."""
    params = networks["policy"](networks["normalizer"](batch["observations"]))
    log_probs = POLICY.log_prob(xp, params, batch["actions"])
    entropy = xp.mean(POLICY.entropy(xp, params))
    loss = -xp.mean(log_probs * batch["advantages"]) - coefficients["entropy_coef"] * entropy
    return loss, {"approx_kl": xp.mean(batch["log_probs"] - log_probs), "entropy": entropy}


def standardizing(xp, networks, batch, coefficients):
    advantages = standardize(xp, batch["advantages"])
    return policy_gradient(xp, networks, {**batch, "advantages": advantages}, coefficients)


def standardized(xp, columns):
    return {**columns, "advantages": standardize(xp, columns["advantages"])}, {"spread": xp.std(columns["advantages"])}


def learner_on(backend_name, **settings):
    given = {"loss": policy_gradient, "learning_rate": 0.01, "coefficients": {"entropy_coef": 0.01}, **settings}
    columns = ("observations", "actions", "log_probs", "advantages")
    backend = make_backend(BackendConfig(backend_name), "cpu")
    return GradientLearner(backend, LearnerSpec(networks=NETWORKS, columns=columns, **given), seed=1)


def batch_of(rows, *, seed=0):
    draw = np.random.default_rng(seed)
    columns = {
        "observations": draw.normal(5.0, 3.0, (rows, 3)).astype(np.float32),
        "actions": draw.integers(0, 2, rows, np.int32),
        "log_probs": np.full(rows, -0.7, np.float32),
        "advantages": draw.standard_normal(rows, np.float32),
    }
    return Batch(columns, BatchInfo(("rollout-0",), env_steps=rows))


@every_backend
@pytest.mark.parametrize("how", [{"loss": standardizing}, {"prepare": standardized}], ids=["minibatch", "batch"])
@pytest.mark.parametrize(("rows", "minibatch_size"), [(1, 1), (1, 256), (3, 1), (3, 2)])
def test_minibatches_of_one_transition_with_standardized_advantages_are_finite(backend_name, how, rows, minibatch_size):
    learner = learner_on(backend_name, num_epochs=2, minibatch_size=minibatch_size, max_grad_norm=0.5, **how)

    told = learner.update(batch_of(rows))

    assert all(np.isfinite(value) for value in told.metrics.values())
    assert all(np.isfinite(array).all() for array in told.weights.arrays.values())


@every_backend
def test_a_learner_goes_on_from_its_state_bit_for_bit(backend_name):
    settings = {
        "learning_rate": Linear(0.05, 0.0, steps=200),
        "coefficients": {"entropy_coef": Linear(0.1, 0.0, steps=200)},
        "num_epochs": 3,
        "minibatch_size": 8,
        "prepare": standardized,
        "stop_above": ("approx_kl", 0.05),
        "normalizers": {"normalizer": NormalizerSpec("observations")},
    }
    batches = [batch_of(30, seed=seed) for seed in range(5)]
    uncut, cut, resumed = (learner_on(backend_name, **settings) for _ in range(3))

    expected = [uncut.update(batch) for batch in batches]
    for batch in batches[:2]:
        cut.update(batch)
    resumed.load_state_dict(cut.state_dict())
    told = [resumed.update(batch) for batch in batches[2:]]

    assert [report.metrics for report in expected[2:]] == [report.metrics for report in told]
    assert len({report.metrics["epochs"] for report in expected}) > 1  # some stopped early
    for name, array in uncut.weights().arrays.items():
        np.testing.assert_array_equal(array, resumed.weights().arrays[name])


@every_backend
def test_the_published_normalizer_is_the_one_that_the_next_update_uses(backend_name):
    learner = learner_on(backend_name, normalizers={"normalizer": NormalizerSpec("observations")})
    first, second = batch_of(40), batch_of(40, seed=1)
    published = learner.update(first).weights.arrays

    told = learner.update(second)

    rows = first["observations"].astype(np.float64)
    np.testing.assert_allclose(published["normalizer/mean"], rows.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(published["normalizer/std"], rows.std(axis=0), rtol=1e-6)
    networks = NumpyNetworks(NETWORKS, published)
    _, expected = policy_gradient(numpy_xp, networks, second.columns, {"entropy_coef": 0.01})
    for name, value in expected.items():
        assert told.metrics[name] == pytest.approx(float(value), abs=1e-5)  # float32, means of 40


@every_backend
def test_no_gradient_moves_a_normalizer(backend_name):
    learner = learner_on(backend_name)

    arrays = learner.update(batch_of(40)).weights.arrays

    np.testing.assert_array_equal(np.zeros(3), arrays["normalizer/mean"])
    np.testing.assert_array_equal(np.ones(3), arrays["normalizer/std"])


@every_backend
def test_a_loss_that_is_not_finite_publishes_nothing_and_leaves_weights_and_moments(backend_name):
    learner = learner_on(backend_name, normalizers={"normalizer": NormalizerSpec("observations")})
    learner.update(batch_of(10))
    before = learner.state_dict()
    spoilt = batch_of(10)
    spoilt["advantages"][3] = np.inf

    with pytest.raises(RheosError, match=r"loss is (nan|-?inf) in update 2, on a batch of rollout-0"):
        learner.update(spoilt)

    after = learner.state_dict()
    for name, array in before["weights"].items():
        np.testing.assert_array_equal(array, after["weights"][name])
    assert before["version"] == after["version"] == 1
    assert before["moments"]["normalizer"]["count"] == after["moments"]["normalizer"]["count"] == 10
