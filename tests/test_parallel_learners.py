"""Several processes that learn together: they learn what one would, fail in one line, and leave nothing behind."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rheos.backend import SGD, Adam
from rheos.configuration.run_config import BackendConfig
from rheos.errors import ConfigError, RheosError
from rheos.plugins import make_backend
from rheos_ops.learners import GradientLearner, LearnerSpec
from rheos_ops.minibatches import Part
from rheos_ops.parallel_learners import ParallelLearner
from rheos_torch.backend import TorchBackend

sys.path.append(str(Path(__file__).parent))  # where other processes find the module, too

import learning_together as together

ROWS = (50, 33, 1, 64)
"""Of batches one after the other; a single row is fewer than there are processes."""


def alone(spec: LearnerSpec) -> GradientLearner:
    return GradientLearner(make_backend(BackendConfig("torch")), spec, seed=1)


@contextmanager
def in_processes(spec: LearnerSpec, processes: int = 2, **settings: Any):
    learner = ParallelLearner(BackendConfig("torch", processes=processes, **settings), spec, seed=1)
    try:
        yield learner
    finally:
        learner.close()


def in_threads(
    spec: LearnerSpec, size: int, sizes: Sequence[int] = ROWS, **settings: Any
) -> list[tuple[list[Any], GradientLearner]]:
    """Learn with a part each in as many threads, which meet as processes do; return all reports and learners."""
    backends = [TorchBackend(**settings) for _ in range(size)]
    address = backends[-1].meet()

    def learn(rank: int) -> tuple[list[Any], GradientLearner]:
        backends[rank].join(rank, size, address)
        learner = GradientLearner(backends[rank], spec, seed=1, part=Part(rank, size))
        return [learner.update(together.batch_of(rows, seed=seed)) for seed, rows in enumerate(sizes)], learner

    with ThreadPoolExecutor(size) as threads:
        return list(threads.map(learn, range(size)))


def assert_same_learning(expected, reports, learner):
    assert [report.metrics.keys() for report in expected[0]] == [report.metrics.keys() for report in reports]
    for wanted, told in zip(expected[0], reports, strict=True):
        # Means in float32 of the parts, added up; and steps from weights that differ by such rounding.
        assert told.metrics == pytest.approx(wanted.metrics, rel=1e-3, abs=1e-5)
        assert (wanted.version, wanted.updates) == (told.version, told.updates)
    for name, array in expected[1].weights().arrays.items():
        np.testing.assert_allclose(learner.weights().arrays[name], array, atol=1e-5, rtol=1e-4, err_msg=name)


def reports_of(learner: GradientLearner) -> list[Any]:
    return [learner.update(together.batch_of(rows, seed=seed)) for seed, rows in enumerate(ROWS)]


# What they learn


@pytest.mark.parametrize("processes", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_several_processes_learn_what_one_does(processes):
    expected = alone(together.full_spec())
    reports = reports_of(expected)

    with in_processes(together.full_spec(), processes) as learner:
        told = reports_of(learner)

        assert_same_learning((reports, expected), told, learner)
    assert len({report.metrics["epochs"] for report in reports}) > 1  # some stopped early, in all processes alike


@pytest.mark.parametrize("optimizer", [Adam(epsilon=1e-5), SGD(momentum=0.9)])
def test_two_with_half_the_batch_each_end_with_the_weights_of_one_with_the_whole(optimizer):
    spec = together.spec(num_epochs=10, optimizer=optimizer)  # one minibatch in each epoch
    expected = alone(spec)
    reports = reports_of(expected)

    results = in_threads(spec, 2)

    for told, learner in results:
        assert_same_learning((reports, expected), told, learner)


@pytest.mark.parametrize(
    ("size", "sizes", "settings"),
    [(2, ROWS, {}), (3, ROWS, {}), (2, (50, 33), {"mode": "graph", "compiler": "aot_eager"})],
    ids=["2", "3", "2 graph"],
)
def test_all_processes_have_the_same_weights_metrics_and_moments_bit_for_bit(size, sizes, settings):
    (first_reports, first), *others = in_threads(together.full_spec(), size, sizes, **settings)

    for reports, learner in others:
        assert [report.metrics for report in first_reports] == [report.metrics for report in reports]
        for name, array in first.weights().arrays.items():
            np.testing.assert_array_equal(array, learner.weights().arrays[name], err_msg=name)
        for name, array in first.state_dict()["optimizer"].items():
            np.testing.assert_array_equal(array, learner.state_dict()["optimizer"][name], err_msg=name)


def test_a_state_goes_on_bit_for_bit_and_in_another_number_of_processes():
    with in_processes(together.full_spec()) as uncut:
        reports_of(uncut)
        state = uncut.state_dict()
        expected = reports_of(uncut)
        weights = uncut.weights()

    with in_processes(together.full_spec()) as resumed:
        resumed.load_state_dict(state)
        assert [report.metrics for report in expected] == [report.metrics for report in reports_of(resumed)]
        for name, array in weights.arrays.items():
            np.testing.assert_array_equal(array, resumed.weights().arrays[name], err_msg=name)

    fewer = alone(together.full_spec())
    fewer.load_state_dict(state)
    assert_same_learning((expected, resumed), reports_of(fewer), fewer)


def test_a_loss_that_is_not_finite_is_told_as_by_one_process():
    spoilt = together.batch_of(20)
    spoilt.columns["y"][3, 0] = np.nan

    with in_processes(together.spec()) as learner:
        learner.update(together.batch_of(20))
        before = learner.weights()
        with pytest.raises(RheosError, match=r"^learner: loss is nan in update 2, on a batch of rollout-0"):
            learner.update(spoilt)

        for name, array in before.arrays.items():
            np.testing.assert_array_equal(array, learner.weights().arrays[name], err_msg=name)


# What can go wrong


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (together.fails_elsewhere, r"^learner: process 2 of 2 failed: ZeroDivisionError: division by zero"),
        (together.is_killed_elsewhere, r"^learner: process 2 of 2 was killed by SIGKILL\.$"),
    ],
)
def test_the_end_of_a_process_is_told_at_once_by_the_update_that_waits_for_it(loss, message):
    with in_processes(together.spec(loss=loss)) as learner:
        begin = time.monotonic()
        with pytest.raises(RheosError, match=message):
            learner.update(together.batch_of(20))

        assert time.monotonic() - begin < 5.0


def test_a_process_that_is_killed_between_updates_is_told_of_by_the_next_one():
    with in_processes(together.spec()) as learner:
        learner.update(together.batch_of(20))
        (victim,) = active_children()
        victim.kill()
        victim.join()

        for _ in range(2):
            with pytest.raises(RheosError, match=r"^learner: process 2 of 2 was killed by SIGKILL\.$"):
                learner.update(together.batch_of(20))

        assert [] == active_children()


def test_an_error_in_the_first_process_keeps_its_type_and_leaves_nobody_waiting():
    with in_processes(together.spec(loss=together.fails_here)) as learner:
        with pytest.raises(ZeroDivisionError, match="division by zero"):
            learner.update(together.batch_of(20))

        assert [] == active_children()
        assert 0 == learner.weights().version


def test_closing_leaves_neither_process_nor_thread_and_may_be_repeated():
    threads = threading.active_count()
    with in_processes(together.spec()) as learner:
        learner.update(together.batch_of(20))
        learner.close()

        assert [] == active_children()
        with pytest.raises(RheosError, match=r"^learner: its other processes have ended\.$"):
            learner.update(together.batch_of(20))
    assert threading.active_count() <= threads


def test_what_cannot_be_sent_to_another_process_is_refused():
    with pytest.raises(ConfigError, match=r"^backend.processes: the learner cannot be sent to other .*at the top of a"):
        ParallelLearner(BackendConfig("torch", processes=2), together.spec(loss=lambda *_: None), seed=1)

    assert [] == active_children()


def test_more_processes_than_gpus_and_other_devices_are_refused_in_one_line(monkeypatch):
    from rheos_torch.processes import devices_of

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)

    assert ("cpu", "cpu") == devices_of("cpu", 2)
    assert ("cuda:0", "cuda:1", "cuda:2") == devices_of("cuda", 3)
    assert ("cuda:1", "cuda:2") == devices_of("cuda:1", 2)
    with pytest.raises(ConfigError, match=r"^backend.processes: got 3, expected at most 2: each has a GPU of its"):
        devices_of("cuda:1", 3)
    with pytest.raises(ConfigError, match=r"^backend.processes: got 2, expected 1 on 'mps'"):
        devices_of("mps", 2)
