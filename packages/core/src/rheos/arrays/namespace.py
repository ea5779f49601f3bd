"""ArrayNamespace: the functions over arrays in which all mathematics is written once."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

__all__ = ["Array", "ArrayNamespace", "Arrays", "Step"]

Array: TypeAlias = Any
"""A native array of the namespace's framework: an ndarray, a torch.Tensor, a tf.Tensor."""

Arrays: TypeAlias = tuple[Array, ...]
"""Several arrays that go together, such as the state of a recurrence."""

Step: TypeAlias = Callable[[Arrays, Arrays], tuple[Arrays, Array]]
"""One step of a `scan`: `(state, inputs of the step) -> (next state, output of the step)`."""


class ArrayNamespace(Protocol):
    """About fifty functions, spelled as in the array API standard where it has them.

    The dialect that is alike everywhere:

    - Floats are float32, integers and indices int32, flags bool; nothing is promoted, `astype` casts.
    - Operators (`+ - * / ** @`, comparisons, `& | ~` on flags) and basic slicing come from the arrays
      themselves. A Python number beside an array takes the array's dtype.
    - No writing in place, no indexing by a mask, no Python branching on values.
    - Randomness comes in as an array of noise; no function here draws any.
    - Which of several equal values `argmax` names, and how `max`, `minimum` and `maximum` share a gradient among them,
      is open.
    """

    name: str
    float32: Any
    int32: Any
    bool: Any

    # Making arrays

    def asarray(self, x: Any, dtype: Any = None) -> Array:
        """Make an array; without `dtype`, floats become float32 and integers (flags excepted) int32."""
        ...

    def astype(self, x: Array, dtype: Any) -> Array:
        """Cast; a float becomes an integer by dropping its fraction."""
        ...

    def zeros(self, shape: tuple[int, ...], dtype: Any = None) -> Array:
        """Zeros, float32 without `dtype`."""
        ...

    def ones(self, shape: tuple[int, ...], dtype: Any = None) -> Array:
        """Ones, float32 without `dtype`."""
        ...

    def zeros_like(self, x: Array) -> Array:
        """Zeros of the shape and dtype of `x`."""
        ...

    def ones_like(self, x: Array) -> Array:
        """Ones of the shape and dtype of `x`."""
        ...

    def one_hot(self, indices: Array, num: int) -> Array:
        """float32 `[..., num]`, 1 at the index; all 0 where the index lies outside [0, num)."""
        ...

    # Element by element

    def abs(self, x: Array) -> Array:
        """|x|."""
        ...

    def exp(self, x: Array) -> Array:
        """eˣ."""
        ...

    def log(self, x: Array) -> Array:
        """Natural logarithm."""
        ...

    def log1p(self, x: Array) -> Array:
        """log(1 + x), exact near 0."""
        ...

    def sqrt(self, x: Array) -> Array:
        """√x."""
        ...

    def square(self, x: Array) -> Array:
        """x²."""
        ...

    def sign(self, x: Array) -> Array:
        """-1, 0 or 1."""
        ...

    def tanh(self, x: Array) -> Array:
        """Hyperbolic tangent."""
        ...

    def sigmoid(self, x: Array) -> Array:
        """1 / (1 + e⁻ˣ), without overflow."""
        ...

    def softplus(self, x: Array) -> Array:
        """log(1 + eˣ), without overflow."""
        ...

    def relu(self, x: Array) -> Array:
        """max(x, 0), with gradient 0 at 0."""
        ...

    def isfinite(self, x: Array) -> Array:
        """True where x is neither infinite nor NaN."""
        ...

    def where(self, condition: Array, x: Array | float, y: Array | float) -> Array:
        """`x` where the condition holds, else `y`; one of the two may be a number."""
        ...

    def minimum(self, x: Array, y: Array) -> Array:
        """The smaller of two arrays; for a number, use `clip`."""
        ...

    def maximum(self, x: Array, y: Array) -> Array:
        """The larger of two arrays; for a number, use `clip`."""
        ...

    def clip(self, x: Array, min: float | None = None, max: float | None = None) -> Array:
        """Limit to [min, max], which are numbers; None leaves a side open."""
        ...

    def stop_gradient(self, x: Array) -> Array:
        """The same values, constant to the gradient."""
        ...

    # Over axes

    def sum(self, x: Array, *, axis: int | tuple[int, ...] | None = None, keepdims: builtins.bool = False) -> Array:
        """Sum, in the dtype of `x`; flags must be cast first."""
        ...

    def mean(self, x: Array, *, axis: int | tuple[int, ...] | None = None, keepdims: builtins.bool = False) -> Array:
        """Mean; floats only."""
        ...

    def std(self, x: Array, *, axis: int | tuple[int, ...] | None = None, keepdims: builtins.bool = False) -> Array:
        """Standard deviation of the population (divided by n, so one element gives 0); floats only."""
        ...

    def min(self, x: Array, *, axis: int | tuple[int, ...] | None = None, keepdims: builtins.bool = False) -> Array:
        """Smallest value."""
        ...

    def max(self, x: Array, *, axis: int | tuple[int, ...] | None = None, keepdims: builtins.bool = False) -> Array:
        """Largest value."""
        ...

    def argmax(self, x: Array, *, axis: int = -1) -> Array:
        """Index of the largest value, int32."""
        ...

    def all(self, x: Array, *, axis: int | None = None) -> Array:
        """True where all flags are."""
        ...

    def any(self, x: Array, *, axis: int | None = None) -> Array:
        """True where any flag is."""
        ...

    def cumulative_sum(self, x: Array, *, axis: int = 0) -> Array:
        """Sum of everything up to and including each element; flags must be cast first."""
        ...

    def logsumexp(self, x: Array, *, axis: int = -1) -> Array:
        """Logarithm of Σ eˣ, without overflow."""
        ...

    def softmax(self, x: Array, *, axis: int = -1) -> Array:
        """eˣ / Σ eˣ, without overflow."""
        ...

    def log_softmax(self, x: Array, *, axis: int = -1) -> Array:
        """Logarithm of the softmax: x - log Σ eˣ, without overflow."""
        ...

    def linear_recurrence(self, a: Array, b: Array, *, reverse: builtins.bool = False, axis: int = 0) -> Array:
        """yₜ = aₜ yₜ₋₁ + bₜ from y₋₁ = 0 (`reverse`: yₜ = aₜ yₜ₊₁ + bₜ from y_T = 0), in log₂(T) steps.

        Raises:
            ShapeError: if `a` and `b` differ in shape.
        """
        ...

    def scan(self, step: Step, state: Arrays, inputs: Arrays) -> tuple[Arrays, Array]:
        """Take a step for each element along the leading axis of `inputs`, each from the state that the last one left.

        Args:
            step: gives a state of the shapes and dtypes that it took.
            state: before the first step.
            inputs: each `[T, ...]`, with T at least 1; step t takes `[...]` of each.

        Returns:
            The state after the last step, and the outputs of all steps, `[T, ...]`.
        """
        ...

    # Shape and place

    def matmul(self, x: Array, y: Array) -> Array:
        """Matrix product, batched over leading axes."""
        ...

    def concat(self, arrays: Sequence[Array], *, axis: int = 0) -> Array:
        """Join along an axis that is there."""
        ...

    def stack(self, arrays: Sequence[Array], *, axis: int = 0) -> Array:
        """Join along a new axis."""
        ...

    def reshape(self, x: Array, shape: tuple[int, ...]) -> Array:
        """Another shape in row-major order; one entry may be -1."""
        ...

    def expand_dims(self, x: Array, *, axis: int = 0) -> Array:
        """Insert an axis of length 1."""
        ...

    def squeeze(self, x: Array, *, axis: int) -> Array:
        """Drop an axis of length 1."""
        ...

    def permute_dims(self, x: Array, axes: tuple[int, ...]) -> Array:
        """Reorder the axes."""
        ...

    def broadcast_to(self, x: Array, shape: tuple[int, ...]) -> Array:
        """Repeat along axes of length 1 and new leading axes; the result is only to be read."""
        ...

    def flip(self, x: Array, *, axis: int) -> Array:
        """Reverse the order along an axis."""
        ...

    def take(self, x: Array, indices: Array, *, axis: int = 0) -> Array:
        """Rows of `x` by one-dimensional `indices` in [0, n)."""
        ...

    def take_along_axis(self, x: Array, indices: Array, *, axis: int = -1) -> Array:
        """An element per entry of `indices`, which has the rank of `x`."""
        ...

    def pick(self, x: Array, indices: Array) -> Array:
        """One element per row: `x[..., indices]` along the last axis, `[..., n]` and `[...]` -> `[...]`."""
        ...
