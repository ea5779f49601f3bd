"""Cases: functions over `xp`, each with specs from which hypothesis draws the arrays that it is called with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

Arrays = dict[str, np.ndarray]


def float32(*numbers: float) -> st.SearchStrategy[float]:
    return st.sampled_from([float(np.float32(number)) for number in numbers])


def floats(low: float, high: float) -> st.SearchStrategy[float]:
    """Without subnormal numbers: some frameworks flush them to 0, and nobody needs them."""
    return st.floats(low, high, width=32, allow_subnormal=False)


SMALL = floats(-3.0, 3.0)
WIDE = st.one_of(SMALL, floats(-1e4, 1e4), float32(0.0, 1e-30, -1e-30, 1e-7, 1e6, -1e6))
POSITIVE = st.one_of(floats(0.125, 3.0), floats(1.0, 1e4), float32(1e-6, 1e6))
QUARTERS = st.integers(-400, 400).map(lambda number: number / 4)
"""Differences and sums of these are exact in float32, so that nothing cancels into noise."""
FRACTIONS = floats(0.0, 1.0)
ANYTHING = st.one_of(WIDE, st.floats(width=32, allow_subnormal=False))
"""Also infinity and NaN."""


@dataclasses.dataclass(frozen=True)
class Spec:
    """An array to draw: its shape, in which `T` and `B` stand for what varies, and its numbers."""

    shape: tuple[str | int, ...]
    numbers: st.SearchStrategy[Any] = WIDE
    dtype: Any = np.float32
    unique: bool = False
    """Whether no two numbers are equal: for functions that leave open which of several equal ones they mean."""

    def draw(self, steps: int, rows: int) -> st.SearchStrategy[np.ndarray]:
        shape = tuple({"T": steps, "B": rows}.get(axis, axis) for axis in self.shape)
        return hnp.arrays(self.dtype, shape, elements=self.numbers, unique=self.unique)


@dataclasses.dataclass(frozen=True)
class Flags(Spec):
    """Flags; often all alike, as where every episode ends."""

    def draw(self, steps: int, rows: int) -> st.SearchStrategy[np.ndarray]:
        drawn = super().draw(steps, rows)
        return st.one_of(drawn, drawn.map(np.ones_like), drawn.map(np.zeros_like))


@dataclasses.dataclass(frozen=True)
class SideBySide(Spec):
    """Several arrays, joined along the last axis."""

    parts: tuple[Spec, ...] = ()

    def draw(self, steps: int, rows: int) -> st.SearchStrategy[np.ndarray]:
        drawn = st.tuples(*(part.draw(steps, rows) for part in self.parts))
        return drawn.map(lambda arrays: np.concatenate(arrays, axis=-1, dtype=self.dtype))


def flags(*shape: str | int) -> Spec:
    return Flags(shape, st.booleans(), np.bool_)


def indices(num: int, *shape: str | int, low: int = 0) -> Spec:
    return Spec(shape, st.integers(low, num - 1), np.int32)


def of_shape(*shape: str | int, numbers: st.SearchStrategy[Any] = WIDE, **settings: Any) -> Spec:
    return Spec(shape, numbers, **settings)


@dataclasses.dataclass(frozen=True)
class Case:
    """A function, called as `call(xp, *smooth, *held)`; it gives an array, or a tuple or dict of them.

    Gradients of the float outputs flow to the smooth inputs.
    """

    call: Callable[..., Any]
    smooth: tuple[Spec, ...] = ()
    held: tuple[Spec, ...] = ()
    scale: Callable[..., float] = lambda *arrays: 0.0
    """From the arrays that are given to the size of what is added up within, where that may be larger than the result:
    float32 rounds at 6e-8 of that."""
    differences: bool = True
    """Whether central differences in float64 are its gradients: not where it gives gradients of its own, or casts."""

    def outputs(self, xp: Any, *arrays: Any) -> dict[str, Any]:
        """Call it; give each array that comes back a name."""
        found = self.call(xp, *arrays)
        if isinstance(found, Mapping):
            return dict(found)
        if isinstance(found, tuple):
            return {str(index): array for index, array in enumerate(found)}
        return {"0": found}


def largest(*arrays: np.ndarray) -> float:
    """The largest number of some arrays: of a sum of dozens of them, float32 keeps 1e-5 of it and more."""
    return max(float(np.abs(array).max(initial=0.0)) for array in arrays if array.dtype.kind == "f")


Group = Mapping[str, Case]
"""Cases that are run as one function, so that compiling them takes once the time."""


def draw_group(group: Group, steps: int, rows: int) -> st.SearchStrategy[Arrays]:
    """Draw a tree of arrays: all that the cases take, named `<case>/<number of the input>`."""
    specs = {f"{name}/{i}": spec for name, case in group.items() for i, spec in enumerate((*case.smooth, *case.held))}
    drawn = st.fixed_dictionaries({name: spec.draw(steps, rows) for name, spec in specs.items()})
    return drawn.map(lambda arrays: {name: arrays[name] for name in specs})  # they come in any order


def inputs_of(name: str, case: Case, arrays: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """Return the smooth and the held inputs of a case."""
    own = [arrays[f"{name}/{i}"] for i in range(len(case.smooth) + len(case.held))]
    return own[: len(case.smooth)], own[len(case.smooth) :]
