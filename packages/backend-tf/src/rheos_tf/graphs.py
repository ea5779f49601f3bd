"""GraphFunction: a function of arrays as a graph of TensorFlow, traced once for each kind of arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rheos.errors import ConfigError
from rheos_tf.framework import Tensor, tf
from rheos_tf.namespace import raw

__all__ = ["Graph", "GraphFunction"]

_Kind = tuple[Hashable, tuple[str, ...], tuple[tuple[Any, Any], ...]]


@dataclass(frozen=True)
class Graph:
    """A traced function, and what a call of it takes.

    It is called by the operation that runs graphs: what `tf.function` does in Python before that at each call takes
    several times as long as a small network.
    """

    concrete: Any
    """It is there as long as this is."""
    captured: tuple[Any, ...]
    """What it reads beside its arguments: the handles of variables."""
    outputs: tuple[str, ...]
    dtypes: list[Any]
    placed: Callable[[], AbstractContextManager[Any]]

    def __call__(self, arrays: Iterable[Any]) -> dict[str, Tensor]:
        """Call it with native or NumPy arrays; the latter are handed over as they are, which costs least."""
        with self.placed():
            outputs = raw.StatefulPartitionedCall(
                args=[*arrays, *self.captured], Tout=self.dtypes, f=self.concrete.name
            )
        return dict(zip(self.outputs, outputs, strict=True))


class GraphFunction:
    """A function `(arrays, setting) -> arrays` as a graph.

    It is traced when it is first called, and again only for arrays of another kind: other names, dtypes, or shapes
    after the leading axis, whose length stays open.

    Args:
        function: what to trace; it gets native arrays.
        placed: a new context in which everything is placed on the device.
        on_trace: called before each trace.
        subject: what the function is, for messages.
    """

    def __init__(
        self,
        function: Callable[[dict[str, Tensor], Any], Mapping[str, Tensor]],
        placed: Callable[[], AbstractContextManager[Any]],
        *,
        on_trace: Callable[[], None] = lambda: None,
        subject: str = "function",
    ) -> None:
        self._function, self._placed, self._on_trace, self._subject = function, placed, on_trace, subject
        self._graphs: dict[_Kind, Graph] = {}
        self._graph_for = lru_cache(maxsize=256)(self._graph_of_kind)  # lengths may be many

    def __call__(self, arrays: Mapping[str, Any], setting: Hashable = ()) -> dict[str, Tensor]:
        """Call the graph; `setting` is what else the function gets, a constant of the graph."""
        return self.graph_for(arrays, setting)(arrays.values())

    def graph_for(self, arrays: Mapping[str, Any], setting: Hashable = ()) -> Graph:
        """Return the graph for arrays of this kind, to be called with the like of them, in their order."""
        kinds = tuple([(array.dtype, array.shape) for array in arrays.values()])
        return self._graph_for((setting, tuple(arrays), kinds))

    def _graph_of_kind(self, kind: _Kind) -> Graph:
        setting, names, arrays = kind
        specs = tuple((tf.as_dtype(dtype), (None, *shape[1:]) if len(shape) else ()) for dtype, shape in arrays)
        if (setting, names, specs) not in self._graphs:
            self._graphs[setting, names, specs] = self._trace(setting, names, specs)
        return self._graphs[setting, names, specs]

    def _trace(self, setting: Hashable, names: tuple[str, ...], specs: tuple[tuple[Any, Any], ...]) -> Graph:
        self._on_trace()
        outputs: tuple[str, ...] = ()

        def function(*arrays: Tensor) -> list[Tensor]:
            nonlocal outputs
            with self._placed():
                results = self._function(dict(zip(names, arrays, strict=True)), setting)
                outputs = tuple(results)
                return [tf.convert_to_tensor(result) for result in results.values()]

        signature = [tf.TensorSpec(shape, dtype) for dtype, shape in specs]
        try:
            concrete = tf.function(function, autograph=False).get_concrete_function(*signature)
        except (tf.errors.OperatorNotAllowedInGraphError, NotImplementedError) as error:
            reason = str(error).strip().partition("\n")[0][:200]
            raise ConfigError(
                f"backend.mode: TensorFlow cannot trace the {self._subject} ({reason}): use backend.mode=eager."
            ) from error
        dtypes = [output.dtype for output in concrete.outputs]
        return Graph(concrete, tuple(concrete.captured_inputs), outputs, dtypes, self._placed)
