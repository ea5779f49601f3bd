"""Probes: what a group of cases gives on one place, values and gradients, and whether that is what NumPy gives."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from parity.cases import Arrays, Case, Group, inputs_of
from rheos.arrays.numpy_namespace import numpy_xp
from rheos.networks.specs import Parameter
from rheos.testing.components import Place, Steps

AGREEMENT = 1e-5
"""Of 1, or of the number itself, or of what was added up to it, where that is more."""


class Probe:
    """A group on one place, for arrays of given shapes, by the verbs of a backend alone.

    All arrays are parts of one weight, and the loss is the sum of the outputs, each multiplied by a part of its shape.
    So the gradients in the inputs are those that a learner would get, those in the multipliers are the outputs
    themselves, and one function gives all, which is compiled once where the place compiles.

    Args:
        place: a backend and a mode.
        group: the cases.
        arrays: inputs of the shapes that all others have.
        outputs: what the cases give for them.
    """

    def __init__(self, place: Place, group: Group, arrays: Arrays, outputs: Arrays) -> None:
        self._group = group
        self._dtypes = {name: array.dtype for name, array in arrays.items()}
        smooth = {f"{name}/{i}" for name, case in group.items() for i in range(len(case.smooth))}
        self._held = [name for name in arrays if name not in smooth]
        self._shapes = {name: array.shape for name, array in {**arrays, **outputs}.items()}
        sizes = [math.prod(shape) for shape in self._shapes.values()]
        ends = itertools.accumulate(sizes)
        self._places = {name: (end - size, end) for name, size, end in zip(self._shapes, sizes, ends, strict=True)}
        self._num_values = sum(output.size for output in outputs.values())
        self._backend = place.make_backend()
        start = {"arrays/value": np.zeros(sum(sizes), np.float32)}
        self._networks = self._backend.build({"arrays": Parameter((sum(sizes),))}, start)
        self._steps = Steps(self._backend, self._loss, self._networks)
        self._infer = self._backend.infer(self._outputs, self._networks) if place.mode == "eager" else None

    def __call__(self, arrays: Arrays, multipliers: Arrays) -> tuple[Arrays, Arrays]:
        """Return the outputs, and the gradients in the inputs of their sum, weighted by the multipliers."""
        given = {**arrays, **multipliers}
        flat = np.concatenate([given[name].astype(np.float32).ravel() for name in self._shapes])
        self._backend.load(self._networks, {"arrays/value": flat})
        metrics = self._steps.step(self._backend.put(_NOTHING), {}, 0.0)
        assert np.isfinite(metrics["grad_norm"]), "a gradient or a value is not finite"
        found = self._parts(numpy_xp, self._steps.gradients()["arrays/value"], given)
        outputs = {name: found[name] for name in multipliers}
        if self._infer is not None:  # with the dtypes that they have
            outputs = self._infer(_NOTHING)
        return outputs, {name: found[name] for name in arrays}

    def _parts(self, xp: Any, flat: Any, names: Iterable[str]) -> dict[str, Any]:
        return {name: xp.reshape(flat[slice(*self._places[name])], self._shapes[name]) for name in names}

    def _called(self, xp: Any, flat: Any) -> dict[str, Any]:
        arrays = self._parts(xp, flat, self._dtypes)
        for name in self._held:
            arrays[name] = xp.stop_gradient(arrays[name])
        for name, dtype in self._dtypes.items():
            if dtype == np.int32:
                arrays[name] = xp.astype(arrays[name], xp.int32)
            elif dtype == np.bool_:
                arrays[name] = arrays[name] > 0.5
        return outputs_of(xp, self._group, arrays)

    def _outputs(self, xp: Any, networks: Any, batch: Mapping[str, Any]) -> dict[str, Any]:
        return self._called(xp, networks["arrays"](batch["nothing"]))

    def _loss(self, xp: Any, networks: Any, batch: Mapping[str, Any], coefficients: Any) -> tuple[Any, dict[str, Any]]:
        flat = networks["arrays"](batch["nothing"])
        outputs = self._called(xp, flat)
        values = xp.concat([xp.reshape(xp.astype(output, xp.float32), (-1,)) for output in outputs.values()])
        return xp.sum(values * flat[-self._num_values :]), {}


_NOTHING = {"nothing": np.zeros((2, 1), np.float32)}
"""A batch, since there has to be one."""


def outputs_of(xp: Any, group: Group, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the cases give, named `<case> -> <output>`."""
    return {
        f"{name} -> {key}": output
        for name, case in group.items()
        for key, output in case.outputs(
            xp, *(array for part in inputs_of(name, case, arrays) for array in part)
        ).items()
    }


class Probes:
    """Probes of one group, made once for all arrays of the same shapes."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self._made: dict[Any, Probe] = {}

    def at(self, place: Place, arrays: Arrays, outputs: Arrays) -> Probe:
        key = (place, *(array.shape for array in arrays.values()))
        if key not in self._made:
            self._made[key] = Probe(place, self.group, arrays, outputs)
        return self._made[key]


def check_group(probes: Probes, arrays: Arrays, places: Sequence[Place]) -> None:
    """Require the values of NumPy and one and the same gradients everywhere, which are central differences, too."""
    group = probes.group
    expected = {name: np.asarray(output) for name, output in outputs_of(numpy_xp, group, arrays).items()}
    multipliers = {key: weights_like(output) for key, output in expected.items()}
    gradients: Arrays = {}
    for place in places:
        outputs, found = probes.at(place, arrays, expected)(arrays, multipliers)
        assert expected.keys() == outputs.keys()
        for name, case in group.items():
            own = [array for part in inputs_of(name, case, arrays) for array in part]
            bound = AGREEMENT * max(1.0, case.scale(*own))
            for key in keys_of(name, expected):
                assert_near(outputs[key], expected[key], bound, f"{key} on {place}")
                assert place.mode == "graph" or outputs[key].dtype == expected[key].dtype, (
                    f"{key} on {place}: its dtype"
                )
            for key in (f"{name}/{i}" for i in range(len(case.smooth))):
                known = gradients.setdefault(key, found[key])
                assert_near(
                    found[key], known, bound * max(1.0, np.abs(known).max()), f"the gradient of {key} on {place}"
                )
    for name, case in group.items():
        if case.smooth and case.differences:
            check_differences(name, case, arrays, multipliers, gradients)


def keys_of(name: str, outputs: Mapping[str, Any]) -> list[str]:
    return [key for key in outputs if key.partition(" -> ")[0] == name]


def weights_like(array: np.ndarray) -> np.ndarray:
    """Numbers that differ, between -1 and 1, so that no output's gradient hides behind another one's."""
    return np.cos(np.arange(array.size, dtype=np.float32) + 0.5).astype(np.float32).reshape(array.shape)


def assert_near(found: np.ndarray, expected: np.ndarray, bound: float, what: str) -> None:
    assert expected.shape == found.shape, f"{what}: shape {found.shape}, expected {expected.shape}"
    if expected.dtype != np.float32:
        np.testing.assert_array_equal(found, expected, err_msg=what)
    else:
        np.testing.assert_allclose(found, expected, rtol=AGREEMENT, atol=bound, err_msg=what)


STEP = 1e-5
"""Of a central difference; of numbers below 1e-3, in parts of the number."""
SLOPES = 1e-4
"""How near a gradient in float32 is to a central difference, in parts of what is added up to it."""


def check_differences(name: str, case: Case, arrays: Arrays, multipliers: Arrays, gradients: Arrays) -> None:
    """Require the slope, along one direction, of NumPy's values in float64; a kink between the points has none."""
    smooth, held = inputs_of(name, case, arrays)
    smooth = [array.astype(np.float64) for array in smooth]
    directions = [
        weights_like(array.astype(np.float32)) * np.where((array == 0.0) | (np.abs(array) > 1e-3), 1.0, np.abs(array))
        for array in smooth
    ]

    def terms(step: float) -> np.ndarray:
        moved = [array + step * direction for array, direction in zip(smooth, directions, strict=True)]
        outputs = case.outputs(numpy_xp, *moved, *held)
        weighted = [np.asarray(output, np.float64) * multipliers[f"{name} -> {key}"] for key, output in outputs.items()]
        return np.concatenate([part.ravel() for part in weighted])

    scale = case.scale(*(arrays[f"{name}/{i}"] for i in range(len(case.smooth) + len(case.held))))
    before, here, after = terms(-STEP), terms(0.0), terms(STEP)
    along = [gradients[f"{name}/{i}"] * direction for i, direction in enumerate(directions)]
    found, size = (sum(float(part.sum()) for part in parts) for parts in (along, map(np.abs, along)))
    size = max(1.0, size)
    if np.abs(after - 2 * here + before).sum() / STEP > SLOPES * size:  # a smaller kink moves the slope by half of that
        return
    slope = float((after - before).sum()) / (2 * STEP)
    # The gradient is float32; a difference of large values, such as logits of what is forbidden, loses their digits.
    bound = max(SLOPES, AGREEMENT * scale) * size + 4e-16 * np.abs(here).sum() / STEP
    assert abs(found - slope) <= bound, f"the gradient of {name}: slope {found}, expected {slope}"
