"""Checks: what every component must keep on every backend, and the one line that says where it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rheos.arrays.numpy_namespace import numpy_xp
from rheos.errors import ConfigError
from rheos.networks.initial import initial_weights
from rheos.networks.numpy_networks import NumpyNetworks
from rheos.networks.specs import Native
from rheos.networks.weights import leaf_specs, trainable_shapes
from rheos.seeds import generator_for
from rheos.testing.components.places import Place, Steps

if TYPE_CHECKING:
    from rheos.networks.specs import NetworkSpec
    from rheos.testing.components.columns import Columns
    from rheos.testing.components.problems import Problem

__all__ = ["ComponentFailure", "check_problem"]

__tracebackhide__ = True

_Arrays = Mapping[str, npt.NDArray[Any]]

_UPDATES, _EAGER_UPDATES = 100, 10
"""Over which a function may be compiled once; define-by-run, where nothing is, a few are enough to see what they do."""
_LEARNING_RATES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
"""With one of them the loss falls along a true gradient; by less, float32 would not tell most weights apart."""


class ComponentFailure(AssertionError):
    """A component does not do what it should; one line says what, on which backend and mode, got and expected."""


class _Agreement:
    """What a component gave first, and has to give everywhere."""

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance
        self._first: dict[str, tuple[str, _Arrays]] = {}

    def check(self, subject: str, report: _Report, arrays: _Arrays) -> None:
        """Require what was found first for this subject; the first time, remember it.

        Args:
            subject: with a `{}` for the name of an array.
            report: of where this is.
            arrays: what was found, by name.
        """
        where, expected = self._first.setdefault(subject, (report.where, arrays))
        if expected.keys() != arrays.keys():
            raise report.failure(subject.format("names"), ", ".join(arrays), f"{', '.join(expected)}, as on {where}")
        for name, array in arrays.items():
            self.check_equal(report, subject.format(name), array, expected[name], f"as on {where}")

    def check_equal(
        self, report: _Report, name: str, array: npt.NDArray[Any], expected: npt.NDArray[Any], why: str
    ) -> None:
        """Require the same shape, and numbers that are as near as the tolerance says."""
        if array.shape != expected.shape:
            raise report.failure(name, f"the shape {array.shape}", f"{expected.shape}, {why}")
        if array.dtype.kind != "f":
            is_off = array != expected
        else:
            scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
            is_off = ~(np.abs(array.astype(np.float64) - expected) <= self._tolerance * scale)
        if is_off.any():
            first = tuple(int(axis) for axis in np.argwhere(is_off)[0])
            at = f" at {list(first)}" if first else ""
            raise report.failure(name, f"{array[first]:.8g}{at}", f"{expected[first]:.8g}, {why}")


class _Report:
    """Makes the lines of failures.

    Args:
        what: the component.
        where: the backend and its mode, or NumPy.
    """

    def __init__(self, what: str, where: str) -> None:
        self.what, self.where = what, where

    def failure(self, subject: str, got: str, expected: str) -> ComponentFailure:
        return ComponentFailure(f"{self.what} on {self.where}: {subject}: got {got}, expected {expected}.")

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Say of an error of another kind where it happened."""
        try:
            yield
        except Exception as error:
            if not isinstance(error, ComponentFailure):
                error.add_note(f"check_component: {self.what} on {self.where}")
            raise


def check_problem(problem: Problem, places: Sequence[Place], *, seed: int, tolerance: float) -> None:
    """Check a component on NumPy and on every place.

    Raises:
        ComponentFailure: where it does not do what it should.
        ConfigError: if a backend does not offer a mode, or none runs a network that is the user's own.
    """
    generator = generator_for(seed, "check_component")
    batches = [problem.draw(generator) for _ in range(3)]
    agreement = _Agreement(tolerance)
    weights: _Arrays = {}
    if not problem.has_native:
        weights = _weights(problem, generator)
        report = _Report(problem.what, "numpy")
        with report.noting():
            _check_numpy(problem, report, agreement, weights, batches[0])
    refusals: list[ConfigError] = []
    for place in places:
        report = _Report(problem.what, str(place))
        with report.noting():
            try:
                trial = _Trial(problem, place, report, weights, batches, seed)
            except ConfigError as refusal:
                if not problem.has_native:
                    raise
                refusals.append(refusal)
            else:
                weights = trial.weights
                trial.run(agreement)
    if refusals and len(refusals) == len(places):
        raise refusals[0]


def _weights(problem: Problem, generator: np.random.Generator) -> _Arrays:
    """Draw weights none of which is 0 or 1, as many are at the start, so that none could be forgotten unseen."""
    return {
        name: array + generator.uniform(-0.1, 0.1, array.shape).astype(np.float32)
        for name, array in initial_weights({**problem.networks, **problem.frozen}, generator).items()
    }


def _check_numpy(problem: Problem, report: _Report, agreement: _Agreement, weights: _Arrays, columns: Columns) -> None:
    prepared: _Arrays = columns
    if problem.prepare is not None:
        prepared, metrics = problem.prepare(numpy_xp, columns)
        agreement.check("{}, prepared", report, {**prepared, **metrics})
    networks = NumpyNetworks({**problem.networks, **problem.frozen}, weights)
    outputs = problem.function(numpy_xp, networks, prepared)
    outputs = {name: np.asarray(output) for name, output in outputs.items()}
    _check_outputs(problem, report, agreement, outputs)


def _check_outputs(problem: Problem, report: _Report, agreement: _Agreement, outputs: _Arrays) -> None:
    for subject, got, expected in problem.complaints(outputs):
        raise report.failure(subject, got, expected)
    for name, output in outputs.items():
        _check_finite(report, name, output)
    agreement.check("{}", report, outputs)


def _check_finite(report: _Report, name: str, array: npt.NDArray[Any]) -> None:
    is_bad = ~np.isfinite(array)
    if is_bad.any():
        raise report.failure(name, f"{array[is_bad][0]} in {is_bad.sum()} of {array.size}", "finite numbers")


class _Trial:
    """A component on one place: a backend in one of its modes.

    Raises:
        ConfigError: if the backend does not offer the mode, or does not run a network that is the user's own.
    """

    def __init__(
        self,
        problem: Problem,
        place: Place,
        report: _Report,
        weights: _Arrays,
        batches: Sequence[Columns],
        seed: int,
    ) -> None:
        self._problem, self._report = problem, report
        self._is_eager = place.mode == "eager"
        self._num_updates = _EAGER_UPDATES if self._is_eager else _UPDATES
        self._backend = place.make_backend()
        self._given, self._seed = weights, seed
        self._networks, self._frozen = self._build(problem.networks), self._build(problem.frozen)
        self._called = {**self._networks, **self._frozen}
        self._start = self._backend.weights(self._networks)
        self.weights = {**self._start, **self._backend.weights(self._frozen)}
        leaves = leaf_specs({**problem.networks, **problem.frozen})
        self._own_to_move = tuple(f"{path}/" for path, leaf in leaves.items() if isinstance(leaf, Native))
        self._batches: list[Mapping[str, Any]] = []
        self._measured: Mapping[str, Any] = {}
        for columns in reversed(batches):
            batch: Mapping[str, Any] = self._backend.put(columns)
            if problem.prepare is not None:
                batch, self._measured = problem.prepare(self._backend.xp, batch)
            self._batches.insert(0, batch)

    def _build(self, specs: Mapping[str, NetworkSpec]) -> Any:
        own = {
            name: array for name, array in self._given.items() if name.startswith(tuple(f"{spec}/" for spec in specs))
        }
        return self._backend.build(specs, own, seed=self._seed)

    def run(self, agreement: _Agreement) -> None:
        """Check everything that there is to check here."""
        first = self._backend.get(self._batches[0])
        if self._problem.prepare is not None:
            agreement.check("{}, prepared", self._report, {**first, **self._backend.get(self._measured)})
        infer = self._backend.infer(self._problem.function, self._called)
        before = self._backend.num_compilations
        outputs = infer(first)
        infer(first)
        self._check_compilations(before, "its outputs, asked for twice")
        _check_outputs(self._problem, self._report, agreement, outputs)
        if self._is_eager and self._problem.maps_rows and not self._problem.has_native:
            self._check_rows(infer, first, outputs, agreement)
        steps = Steps(self._backend, self._problem.loss, self._networks, self._frozen)
        self._check_trained(steps)
        if steps.trained:
            before = self._backend.num_compilations
            self._check_moves(steps, agreement)
            self._check_updates(steps, before)
            self._check_falls(steps)
            self._backend.load(self._networks, self._start)
        if self._is_eager:
            self._check_saving(first, has_optimizer=bool(steps.trained))

    def _check_compilations(self, before: int, subject: str) -> None:
        count = self._backend.num_compilations - before
        if count > 1:
            raise self._report.failure(subject, f"{count} compilations", "at most 1")

    def _check_rows(
        self, infer: Callable[[_Arrays], _Arrays], columns: _Arrays, outputs: _Arrays, agreement: _Agreement
    ) -> None:
        alone = infer({name: column[:1] for name, column in columns.items()})
        within = infer({name: column[None] for name, column in columns.items()})
        for name, output in outputs.items():
            agreement.check_equal(self._report, name, alone[name], output[:1], "as the first row gives among others")
            agreement.check_equal(self._report, name, within[name], output[None], "with another axis in front")

    def _check_trained(self, steps: Steps) -> None:
        if self._problem.has_native:
            return
        found, expected = set(steps.trained), set(trainable_shapes(self._problem.networks))
        if found != expected:
            raise self._report.failure("what is trained", ", ".join(sorted(found)), ", ".join(sorted(expected)))

    def _check_moves(self, steps: Steps, agreement: _Agreement) -> None:
        metrics = steps.step(self._batches[0], self._problem.coefficients, 1e-3)
        for name, value in metrics.items():
            _check_finite(self._report, f"{name} of an update", value)
        agreement.check("{} of an update", self._report, metrics)
        agreement.check("the gradient of {}", self._report, steps.gradients())
        after = {**self._backend.weights(self._networks), **self._backend.weights(self._frozen)}
        for name, array in self.weights.items():
            has_moved = not np.array_equal(array, after[name])
            if name in steps.trained and not has_moved:
                raise self._report.failure(
                    f"{name} in an update", "the numbers that it had before", "every trained weight to move"
                )
            if name not in steps.trained and has_moved and not name.startswith(self._own_to_move):
                raise self._report.failure(
                    f"{name} in an update", "other numbers", "a weight that is not trained to stay"
                )

    def _check_falls(self, steps: Steps) -> None:
        def fall(learning_rate: float) -> tuple[float, float]:
            steps.reset(self._start)
            before, after = (
                float(steps.step(self._batches[0], self._problem.coefficients, learning_rate)["loss"]) for _ in range(2)
            )
            return before, after

        for learning_rate in _LEARNING_RATES:
            before, after = fall(learning_rate)
            if after < before:
                return
        last = _LEARNING_RATES[-1]
        before, after = fall(last)
        raise self._report.failure(
            "the loss on one batch", f"{after:.8g} after a step of {last:g}", f"less than {before:.8g}"
        )

    def _check_updates(self, steps: Steps, compilations_before: int) -> None:
        steps.reset(self._start)
        for update in range(self._num_updates):
            changing = {name: value * (1.0 - update / 1_000) for name, value in self._problem.coefficients.items()}
            steps.step(self._batches[update % len(self._batches)], changing, 1e-4 / (update + 1))
            self._check_compilations(compilations_before, f"{_UPDATES} updates")
        for name, array in self._backend.weights(self._networks).items():
            _check_finite(self._report, f"{name} after {self._num_updates} updates", array)

    def _check_saving(self, columns: _Arrays, *, has_optimizer: bool) -> None:
        """Train a little, so that there is something to save; load that elsewhere, and go on in both."""
        first, second = self._networks, self._build(self._problem.networks)
        called = [{**networks, **self._frozen} for networks in (first, second)]
        copies = [self._backend.infer(self._problem.function, networks) for networks in called]
        updates: list[Callable[..., Any]] = []
        coefficients = {**self._problem.coefficients, "learning_rate": 1e-3}
        if has_optimizer:
            optimizers = [self._backend.optimizer(self._problem.optimizer, networks) for networks in (first, second)]
            updates = [
                self._backend.update(self._problem.loss, networks, optimizer, max_grad_norm=1.0)
                for networks, optimizer in zip(called, optimizers, strict=True)
            ]
            for batch in self._batches:
                updates[0](batch, coefficients)
            saved = optimizers[0].state_dict()
            optimizers[1].load_state_dict(saved)
            self._check_same("the optimizer's {} saved again", saved, optimizers[1].state_dict())
        saved_weights = self._backend.weights(first)
        self._backend.load(second, saved_weights)
        self._check_same("{} saved again", saved_weights, self._backend.weights(second))
        self._check_same("{} with the weights that were saved", copies[0](columns), copies[1](columns))
        if updates:
            for update in updates:
                update(self._batches[0], coefficients)
            self._check_same("{} a step later", self._backend.weights(first), self._backend.weights(second))

    def _check_same(self, subject: str, expected: _Arrays, arrays: _Arrays) -> None:
        """Require the same bits: on one machine and one thread, the same operations give them."""
        if expected.keys() != arrays.keys():
            raise self._report.failure(subject.format("names"), ", ".join(arrays), ", ".join(expected))
        for name, array in arrays.items():
            if not np.array_equal(array, expected[name]):
                raise self._report.failure(subject.format(name), "other numbers", "the same bits")
