"""What the generic learner does with batches, on a backend that records instead of computing."""

from __future__ import annotations

import numpy as np
import pytest

from rheos import Batch, BatchInfo
from rheos.errors import RheosError, ShapeError
from rheos.networks.specs import MLP
from rheos_ops.learners import GradientLearner, LearnerSpec, transitions


class RecordingBackend:
    """A backend whose update records the minibatches and counts in a weight."""

    name, device, xp = "recording", "cpu", None

    def __init__(self):
        self.minibatches = []
        self.rates = []

    def build(self, specs, weights):
        return {name: array.copy() for name, array in weights.items()}

    def weights(self, networks):
        return {name: array.copy() for name, array in networks.items()}

    def load(self, networks, weights):
        networks.update({name: array.copy() for name, array in weights.items()})

    def optimizer(self, spec, networks):
        class Counter:
            steps = 0

            def state_dict(self):
                return {"steps": np.asarray(self.steps)}

            def load_state_dict(self, state):
                self.steps = int(state["steps"])

        return Counter()

    def update(self, loss, networks, optimizer, *, max_grad_norm):
        def step(minibatch, learning_rate):
            self.minibatches.append(minibatch)
            self.rates.append(learning_rate)
            optimizer.steps += 1
            for array in networks.values():
                array += 1.0
            return {"loss": np.float32(optimizer.steps) + minibatch["rewards"].sum() * 0}

        return step

    def infer(self, function, networks):
        raise AssertionError("a learner does not act")

    def put(self, columns):
        return dict(columns)

    def take(self, columns, indices):
        return {name: column[indices] for name, column in columns.items()}

    def get(self, arrays):
        return dict(arrays)


def learner_with(backend, **settings):
    spec = LearnerSpec(
        networks={"policy": MLP(1, 1, (2,))}, loss=None, columns=("rewards",), learning_rate=0.5, **settings
    )
    return GradientLearner(backend, spec, seed=3)


def fragment(steps, envs, *, is_transition=None):
    columns = {"rewards": np.arange(steps * envs, dtype=np.float32).reshape(steps, envs), "other": np.zeros(1)}
    if is_transition is not None:
        columns["is_transition"] = np.asarray(is_transition)
    return Batch(columns, BatchInfo(("rollout-0",), env_steps=steps * envs), axis=1)


def test_every_epoch_sees_every_transition_once_in_an_order_of_its_own():
    backend = RecordingBackend()

    learner_with(backend, num_epochs=2, minibatch_size=4).update(fragment(4, 2))

    seen = [minibatch["rewards"] for minibatch in backend.minibatches]
    first, second = np.concatenate(seen[:2]), np.concatenate(seen[2:])
    assert [4, 4, 4, 4] == [len(rows) for rows in seen]
    np.testing.assert_array_equal(np.arange(8), np.sort(first))
    np.testing.assert_array_equal(np.arange(8), np.sort(second))
    assert first.tolist() != second.tolist()


def test_minibatches_are_of_equal_size_so_none_is_a_remainder_of_a_few():
    backend = RecordingBackend()

    learner_with(backend, minibatch_size=8).update(fragment(17, 1))

    assert [9, 8] == [len(minibatch["rewards"]) for minibatch in backend.minibatches]


def test_a_step_in_which_an_environment_reset_itself_is_not_trained_on():
    backend = RecordingBackend()
    is_transition = [[True, True], [False, True], [True, False]]

    learner_with(backend).update(fragment(3, 2, is_transition=is_transition))

    (minibatch,) = backend.minibatches
    np.testing.assert_array_equal([0, 1, 3, 4], np.sort(minibatch["rewards"]))


def test_a_batch_without_transitions_is_skipped_and_publishes_nothing():
    backend = RecordingBackend()
    learner = learner_with(backend)

    told = learner.update(fragment(1, 1, is_transition=[[False]]))

    assert (0, 0, None) == (told.updates, told.version, told.weights)
    assert [] == backend.minibatches


def test_weights_are_published_each_time_so_many_updates_were_made():
    learner = learner_with(RecordingBackend(), publish_every=2)

    published = [learner.update(fragment(2, 1)).weights for _ in range(4)]

    assert [None, 2, None, 4] == [weights and weights.version for weights in published]


def test_published_weights_do_not_change_when_the_learner_goes_on():
    learner = learner_with(RecordingBackend())
    published = learner.update(fragment(2, 1)).weights
    before = {name: array.copy() for name, array in published.arrays.items()}

    learner.update(fragment(2, 1))

    for name, array in before.items():
        np.testing.assert_array_equal(array, published.arrays[name])


def test_the_metrics_of_a_report_are_means_over_its_gradient_steps():
    told = learner_with(RecordingBackend(), num_epochs=3).update(fragment(2, 1))

    assert {"loss": 2.0} == told.metrics  # the steps report 1, 2 and 3


def test_a_learner_goes_on_from_its_state_as_if_it_had_not_stopped():
    whole, first, second = RecordingBackend(), RecordingBackend(), RecordingBackend()
    uncut = learner_with(whole, num_epochs=2)
    for _ in range(4):
        uncut.update(fragment(5, 1))

    cut, resumed = learner_with(first, num_epochs=2), learner_with(second, num_epochs=2)
    for _ in range(2):
        cut.update(fragment(5, 1))
    resumed.load_state_dict(cut.state_dict())
    for _ in range(2):
        resumed.update(fragment(5, 1))

    orders = [[m["rewards"].tolist() for m in backend.minibatches] for backend in (whole, first, second)]
    assert orders[0] == orders[1] + orders[2]
    assert uncut.weights().version == resumed.weights().version
    for name, array in uncut.weights().arrays.items():
        np.testing.assert_array_equal(array, resumed.weights().arrays[name])


def test_transitions_as_they_come_from_replay_keep_their_one_axis():
    rows = transitions(Batch({"rewards": np.arange(3.0)}, BatchInfo(env_steps=3)), ("rewards",))

    np.testing.assert_array_equal([0, 1, 2], rows["rewards"])


def test_a_batch_that_lacks_what_the_loss_reads_is_refused_by_name():
    with pytest.raises(ShapeError, match="no column 'advantages'"):
        transitions(fragment(2, 1), ("rewards", "advantages"))


def test_a_loss_that_is_not_finite_stops_the_learner_and_says_where():
    learner = learner_with(RecordingBackend())
    batch = Batch({"rewards": np.array([1.0, np.nan], np.float32)}, BatchInfo(("rollout-3",), env_steps=2))

    with pytest.raises(RheosError, match=r"loss is nan in update 1, on a batch of rollout-3"):
        learner.update(batch)
