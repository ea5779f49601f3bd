"""What the generic learner does with batches, on a backend that records instead of computing."""

from __future__ import annotations

import numpy as np
import pytest

from rheos import Batch, BatchInfo
from rheos.arrays.numpy_namespace import numpy_xp
from rheos.errors import RheosError, ShapeError
from rheos.networks.specs import MLP, Normalizer
from rheos_ops.learners import GradientLearner, LearnerSpec, transitions
from rheos_ops.minibatches import SHARE, Part
from rheos_ops.normalization import NormalizerSpec
from rheos_ops.schedules import Constant, Linear


class RecordingBackend:
    """A backend whose steps record what they were given and count in the weights; each tells its number as `loss`.

    Args:
        kls: what the steps tell as `approx_kl`, one after the other.
    """

    name, device, xp = "recording", "cpu", numpy_xp

    def __init__(self, kls=()):
        self.minibatches_seen, self.coefficients, self.calls = [], [], []
        self._kls = list(kls)

    def build(self, specs, weights, *, seed=0):
        self.seed = seed
        return {name: array.copy() for name, array in weights.items()}

    def weights(self, networks):
        return {name: array.copy() for name, array in networks.items()}

    def load(self, networks, weights, *, strict=True):
        assert weights.keys() == networks.keys() if strict else weights.keys() <= networks.keys()
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
        def step(minibatch, coefficients):
            self.minibatches_seen.append(minibatch)
            self.coefficients.append(dict(coefficients))
            optimizer.steps += 1
            for array in networks.values():
                array += 1.0
            told = {"loss": np.float32(optimizer.steps) + minibatch["rewards"].sum() * 0}
            return {**told, "approx_kl": np.float32(self._kls.pop(0))} if self._kls else told

        return step

    def infer(self, function, networks):
        raise AssertionError("a learner does not act")

    def put(self, columns):
        self.calls.append(f"put {' '.join(columns)}")
        return dict(columns)

    def minibatches(self, columns, order, bounds):
        self.calls.append("minibatches")
        return [{name: column[order[part]] for name, column in columns.items()} for part in bounds]

    def get(self, arrays):
        self.calls.append("get")
        return dict(arrays)


def learner_with(backend, **settings):
    given = {"columns": ("rewards",), "learning_rate": 0.5, **settings}
    return GradientLearner(backend, LearnerSpec(networks={"policy": MLP(1, 1, (2,))}, loss=None, **given), seed=3)


def fragment(steps, envs, *, is_transition=None):
    columns = {"rewards": np.arange(steps * envs, dtype=np.float32).reshape(steps, envs), "other": np.zeros(1)}
    if is_transition is not None:
        columns["is_transition"] = np.asarray(is_transition)
    return Batch(columns, BatchInfo(("rollout-0",), env_steps=steps * envs), axis=1)


def test_every_epoch_sees_every_transition_once_in_an_order_of_its_own():
    backend = RecordingBackend()

    learner_with(backend, num_epochs=2, minibatch_size=4).update(fragment(4, 2))

    seen = [minibatch["rewards"] for minibatch in backend.minibatches_seen]
    first, second = np.concatenate(seen[:2]), np.concatenate(seen[2:])
    assert [4, 4, 4, 4] == [len(rows) for rows in seen]
    np.testing.assert_array_equal(np.arange(8), np.sort(first))
    np.testing.assert_array_equal(np.arange(8), np.sort(second))
    assert first.tolist() != second.tolist()


def test_minibatches_are_of_equal_size_so_none_is_a_remainder_of_a_few():
    backend = RecordingBackend()

    learner_with(backend, minibatch_size=8).update(fragment(17, 1))

    assert [9, 8] == [len(minibatch["rewards"]) for minibatch in backend.minibatches_seen]


def test_a_step_in_which_an_environment_reset_itself_is_not_trained_on():
    backend = RecordingBackend()
    is_transition = [[True, True], [False, True], [True, False]]

    learner_with(backend).update(fragment(3, 2, is_transition=is_transition))

    (minibatch,) = backend.minibatches_seen
    np.testing.assert_array_equal([0, 1, 3, 4], np.sort(minibatch["rewards"]))


def test_a_batch_without_transitions_is_skipped_and_publishes_nothing():
    backend = RecordingBackend()
    learner = learner_with(backend)

    told = learner.update(fragment(1, 1, is_transition=[[False]]))

    assert (0, 0, None) == (told.updates, told.version, told.weights)
    assert [] == backend.minibatches_seen


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

    assert {"loss": 2.0, "learning_rate": 0.5} == told.metrics  # the steps report 1, 2 and 3


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

    orders = [[m["rewards"].tolist() for m in backend.minibatches_seen] for backend in (whole, first, second)]
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

    assert 0 == learner.weights().version


def test_weights_that_a_finite_step_made_infinite_are_not_published():
    class Exploding(RecordingBackend):
        def weights(self, networks):
            return {name: array * np.inf for name, array in networks.items()}

    learner = learner_with(Exploding())

    with pytest.raises(RheosError, match=r"the weight policy/hidden_0/kernel is not finite in update 1, .* rollout-0"):
        learner.update(fragment(2, 1))


def test_modules_are_seeded_by_the_run_and_the_name_of_the_learner():
    def seed_of(seed, name):
        backend = RecordingBackend()
        GradientLearner(backend, LearnerSpec({}, None, ("rewards",), 0.5), seed=seed, name=name)
        return backend.seed

    assert seed_of(3, "learner") == seed_of(3, "learner")
    assert 3 == len({seed_of(3, "learner"), seed_of(4, "learner"), seed_of(3, "other")})


# Part of the rows


def learner_of(backend, part, **settings):
    spec = LearnerSpec({"policy": MLP(1, 1, (2,))}, None, ("rewards",), 0.5, **settings)
    return GradientLearner(backend, spec, seed=3, part=part)


@pytest.mark.parametrize("size", [2, 3])
def test_learners_with_a_part_each_have_all_rows_of_each_minibatch_between_them(size):
    whole, parts = RecordingBackend(), [RecordingBackend() for _ in range(size)]

    learner_with(whole, num_epochs=2, minibatch_size=8).update(fragment(17, 1))
    for rank, backend in enumerate(parts):
        learner_of(backend, Part(rank, size), num_epochs=2, minibatch_size=8).update(fragment(17, 1))

    seen = zip(*(backend.minibatches_seen for backend in parts), strict=True)
    for minibatch, shared in zip(whole.minibatches_seen, seen, strict=True):
        assert minibatch["rewards"].tolist() == np.concatenate([part["rewards"] for part in shared]).tolist()
    for minibatch, shares in zip(
        whole.minibatches_seen, zip(*(b.coefficients for b in parts), strict=True), strict=True
    ):
        rows = [round(told[SHARE] * len(minibatch["rewards"])) for told in shares]
        assert sum(rows) == len(minibatch["rewards"])
        assert max(rows) - min(rows) <= 1


def test_a_minibatch_with_fewer_rows_than_parts_is_taken_whole_by_each():
    backends = [RecordingBackend() for _ in range(3)]

    for rank, backend in enumerate(backends):
        learner_of(backend, Part(rank, 3)).update(fragment(2, 1))

    for backend in backends:
        assert [2] == [len(minibatch["rewards"]) for minibatch in backend.minibatches_seen]
        assert [1 / 3] == [told[SHARE] for told in backend.coefficients]


def test_a_share_is_neither_a_metric_nor_told_to_a_loss_that_has_all_rows():
    alone, one_of_two = RecordingBackend(), RecordingBackend()

    learner_with(alone).update(fragment(2, 1))
    told = learner_of(one_of_two, Part(0, 2)).update(fragment(2, 1))

    assert SHARE not in alone.coefficients[0]
    assert {"loss", "learning_rate"} == told.metrics.keys()


# How often the device is asked for something


@pytest.mark.parametrize(("num_epochs", "minibatch_size"), [(1, None), (4, 2)])
def test_a_batch_is_taken_once_an_epoch_and_metrics_are_fetched_once(num_epochs, minibatch_size):
    backend = RecordingBackend()

    learner_with(backend, num_epochs=num_epochs, minibatch_size=minibatch_size).update(fragment(4, 2))

    assert ["put rewards", *["minibatches"] * num_epochs, "get"] == backend.calls


# Coefficients


def test_schedules_are_evaluated_at_the_env_steps_learned_from_before_the_batch():
    backend = RecordingBackend()
    learner = learner_with(
        backend,
        num_epochs=2,
        learning_rate=Linear(1.0, 0.0, steps=8),
        coefficients={"clip_range": Linear(0.0, 0.4, steps=8), "entropy_coef": 0.01, "fixed": Constant(3.0)},
    )

    told = [learner.update(fragment(4, 1)) for _ in range(3)]

    fixed = {"entropy_coef": 0.01, "fixed": 3.0}
    expected = [{"learning_rate": rate, "clip_range": clip} for rate, clip in [(1.0, 0.0), (0.5, 0.2), (0.0, 0.4)]]
    assert [{**moving, **fixed} for moving in expected for _ in range(2)] == backend.coefficients
    shown = [{k: v for k, v in report.metrics.items() if k != "loss"} for report in told]
    assert expected == shown  # what never changes is not a metric


def test_env_steps_are_those_of_the_batch_not_its_rows():
    backend = RecordingBackend()
    learner = learner_with(backend, learning_rate=lambda env_steps: float(env_steps))

    learner.update(fragment(1, 1, is_transition=[[False]]))
    learner.update(fragment(2, 2, is_transition=[[True, False], [False, False]]))
    learner.update(fragment(1, 1))

    assert [{"learning_rate": 1.0}, {"learning_rate": 5.0}] == backend.coefficients  # a fragment here counts T x B


# Stopping early


def test_epochs_end_after_the_one_whose_mean_divergence_is_above_the_limit():
    backend = RecordingBackend(kls=[0.0, 0.1, 0.1, 0.4, 9.9])
    learner = learner_with(backend, num_epochs=4, minibatch_size=2, stop_above=("approx_kl", 0.2))

    told = learner.update(fragment(4, 1))

    assert 4 == len(backend.minibatches_seen)  # the means of the epochs are 0.05 and 0.25
    assert 2 == told.metrics["epochs"]
    assert pytest.approx(0.15) == told.metrics["approx_kl"]
    assert 2.5 == told.metrics["loss"]  # the mean of 1, 2, 3 and 4: of the steps that were taken
    assert 1 == told.updates


def test_a_divergence_at_the_limit_does_not_stop():
    backend = RecordingBackend(kls=[0.25] * 3)

    told = learner_with(backend, num_epochs=3, stop_above=("approx_kl", 0.25)).update(fragment(4, 1))

    assert 3 == told.metrics["epochs"] == len(backend.minibatches_seen)


def test_no_epoch_is_counted_where_none_can_be_skipped():
    told = learner_with(RecordingBackend(), num_epochs=3).update(fragment(4, 1))

    assert "epochs" not in told.metrics


def test_a_learner_that_stops_early_still_repeats_and_resumes():
    kls = [0.0, 9.0, 0.0, 0.0, 0.0, 9.0]  # of three updates of up to three epochs: two, three and one
    settings = {"num_epochs": 3, "stop_above": ("approx_kl", 1.0)}
    whole, first, second = RecordingBackend(kls), RecordingBackend(kls[:2]), RecordingBackend(kls[2:])

    uncut = learner_with(whole, **settings)
    for _ in range(3):
        uncut.update(fragment(5, 1))
    cut, resumed = learner_with(first, **settings), learner_with(second, **settings)
    cut.update(fragment(5, 1))
    resumed.load_state_dict(cut.state_dict())
    for _ in range(2):
        resumed.update(fragment(5, 1))

    orders = [[m["rewards"].tolist() for m in backend.minibatches_seen] for backend in (whole, first, second)]
    assert [6, 2, 4] == [len(order) for order in orders]
    assert orders[0] == orders[1] + orders[2]


def test_a_limit_on_a_metric_that_the_loss_does_not_give_is_refused():
    learner = learner_with(RecordingBackend(), num_epochs=2, stop_above=("kl", 0.1))

    with pytest.raises(RheosError, match="stop_above names 'kl', the loss gives loss"):
        learner.update(fragment(2, 1))


# Preparing a batch


def test_a_batch_is_prepared_once_with_all_its_rows_and_what_comes_out_is_learned_from():
    seen = []

    def prepare(xp, columns):
        seen.append(columns["rewards"].tolist())
        return {"rewards": columns["rewards"] * 10}, {"spread": xp.std(columns["rewards"])}

    backend = RecordingBackend()
    learner = learner_with(backend, num_epochs=2, minibatch_size=2, prepare=prepare)

    told = learner.update(fragment(4, 1))

    assert [[0.0, 1.0, 2.0, 3.0]] == seen
    for epoch in (backend.minibatches_seen[:2], backend.minibatches_seen[2:]):
        assert [0, 10, 20, 30] == sorted(np.concatenate([minibatch["rewards"] for minibatch in epoch]).tolist())
    assert pytest.approx(np.std([0, 1, 2, 3])) == told.metrics["spread"]
    assert 1 == backend.calls.count("get")


def test_every_metric_is_a_plain_float():
    def prepare(xp, columns):
        return columns, {"spread": xp.std(columns["rewards"])}

    backend = RecordingBackend(kls=[0.0] * 2)
    settings = {"num_epochs": 2, "stop_above": ("approx_kl", 1.0), "coefficients": {"c": Linear(0, 1, 9)}}
    told = learner_with(backend, prepare=prepare, **settings).update(fragment(4, 1))

    assert {"loss", "approx_kl", "spread", "learning_rate", "c", "epochs"} == told.metrics.keys()
    assert {float} == {type(value) for value in told.metrics.values()}


# Normalizers


def normalizing(backend, *, is_centered=True, **settings):
    spec = LearnerSpec(
        networks={"policy": MLP(1, 1, (2,)), "normalizer": Normalizer(2)},
        loss=None,
        columns=("rewards",),
        learning_rate=0.5,
        normalizers={"normalizer": NormalizerSpec("seen", is_centered=is_centered)},
        **settings,
    )
    return GradientLearner(backend, spec, seed=3)


def sights(seen, *, is_transition=None):
    """A fragment `[T, B]` with the column `seen` `[T, B, 2]`."""
    seen = np.asarray(seen, np.float32)
    columns = {"rewards": np.zeros(seen.shape[:2], np.float32), "seen": seen}
    if is_transition is not None:
        columns["is_transition"] = np.asarray(is_transition)
    return Batch(columns, BatchInfo(("rollout-0",), env_steps=seen.shape[0] * seen.shape[1]), axis=1)


def test_normalizers_are_set_to_the_moments_of_all_raw_rows_so_far():
    learner = normalizing(RecordingBackend())
    first, second = np.random.default_rng(0).normal(5.0, 3.0, (2, 4, 3, 2)).astype(np.float32)

    published = [learner.update(sights(seen)).weights for seen in (first, second)]

    for weights, seen in zip(published, (first, np.concatenate([first, second])), strict=True):
        rows = seen.reshape(-1, 2).astype(np.float64)
        # Computed in float64 and rounded once.
        np.testing.assert_allclose(weights.arrays["normalizer/mean"], rows.mean(axis=0), rtol=1e-6)
        np.testing.assert_allclose(weights.arrays["normalizer/std"], rows.std(axis=0), rtol=1e-6)
        assert weights.arrays["normalizer/std"].dtype == np.float32


def test_normalizers_stay_as_they_are_while_an_update_learns_from_a_batch():
    during = []

    class Watching(RecordingBackend):
        def load(self, networks, weights, *, strict=True):
            during.append(len(self.minibatches_seen))
            super().load(networks, weights, strict=strict)

    normalizing(Watching(), num_epochs=3).update(sights([[[1.0, 2.0]], [[3.0, 4.0]]]))

    assert [3] == during  # once, behind the last epoch


def test_a_normalizer_that_is_not_centered_only_divides():
    learner = normalizing(RecordingBackend(), is_centered=False)

    arrays = learner.update(sights([[[1.0, 10.0]], [[3.0, 30.0]]])).weights.arrays

    np.testing.assert_array_equal([0.0, 0.0], arrays["normalizer/mean"])
    np.testing.assert_array_equal([1.0, 10.0], arrays["normalizer/std"])  # about the mean, all the same


def test_what_has_been_constant_is_divided_by_a_small_number_not_by_zero():
    arrays = normalizing(RecordingBackend()).update(sights([[[7.0, 1.0]], [[7.0, 2.0]]])).weights.arrays

    np.testing.assert_array_equal(np.float32([1e-4, 0.5]), arrays["normalizer/std"])


def test_a_step_that_is_no_transition_does_not_move_the_moments():
    seen = [[[1.0, 1.0], [100.0, 100.0]], [[3.0, 3.0], [5.0, 5.0]]]

    learner = normalizing(RecordingBackend())
    arrays = learner.update(sights(seen, is_transition=[[True, False], [True, True]])).weights.arrays

    np.testing.assert_array_equal([3.0, 3.0], arrays["normalizer/mean"])


def test_a_column_that_only_a_normalizer_reads_is_not_put_on_the_device():
    backend = RecordingBackend()

    normalizing(backend).update(sights([[[1.0, 2.0]]]))

    assert "put rewards" == backend.calls[0]
    assert {"rewards"} == backend.minibatches_seen[0].keys()


def test_a_batch_that_lacks_what_a_normalizer_reads_is_refused_by_name():
    with pytest.raises(ShapeError, match="no column 'seen'"):
        normalizing(RecordingBackend()).update(fragment(2, 1))


def test_moments_go_on_from_the_state_of_a_learner():
    batches = [sights(seen) for seen in np.random.default_rng(0).normal(size=(3, 4, 1, 2))]
    uncut, cut, resumed = (normalizing(RecordingBackend()) for _ in range(3))

    for batch in batches:
        uncut.update(batch)
    cut.update(batches[0])
    resumed.load_state_dict(cut.state_dict())
    for batch in batches[1:]:
        resumed.update(batch)

    for name, array in uncut.weights().arrays.items():
        np.testing.assert_array_equal(array, resumed.weights().arrays[name])


def test_a_normalizer_must_be_one_of_the_networks():
    with pytest.raises(ValueError, match=r"got 'policy', which is MLP.*, expected a Normalizer"):
        learner_with(RecordingBackend(), normalizers={"policy": NormalizerSpec("rewards")})
