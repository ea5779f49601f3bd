"""Tree types: classes whose objects may be in what a run remembers, each by a name of its own.

A class of your own may be in a tree once it says how:

    @tree_type("mypackage.Attempt")
    @dataclass(frozen=True)
    class Attempt:
        score: float

        def to_tree(self):
            return {"score": self.score}

        @staticmethod
        def from_tree(tree):
            return Attempt(**tree)

A file names the type by that string. It is looked up among the types that are registered, never imported: whoever
reads the file has imported the package by then, or is told which name is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, TypeVar

from rheos.errors import TreeError
from rheos.streams.actors import Actor, EndOfShard, NotReady, Published

__all__ = ["TreeType", "names", "register_tree_type", "tree_type", "type_named", "type_of"]

T = TypeVar("T")
C = TypeVar("C", bound="type[_HasTree]")


class _HasTree(Protocol):
    def to_tree(self) -> Any: ...
    @staticmethod
    def from_tree(tree: Any, /) -> Any: ...


@dataclass(frozen=True)
class TreeType:
    """A class that is registered."""

    name: str
    cls: type
    to_tree: Callable[[Any], Any]
    from_tree: Callable[[Any], Any]


_BY_NAME: dict[str, TreeType] = {}
_BY_CLASS: dict[type, TreeType] = {}


def register_tree_type(name: str, cls: type[T], to_tree: Callable[[T], Any], from_tree: Callable[[Any], T]) -> None:
    """Let objects of a class be in a tree: for classes that are not one's own.

    Args:
        name: what a file calls it; begins with the name of the package, and never changes.
        cls: exactly this class, no subclass.
        to_tree: gives a tree from which the object can be made again.
        from_tree: makes it of that.

    Raises:
        TreeError: if the name is taken by another class.
    """
    known = _BY_NAME.get(name)
    if known is not None and (known.cls.__module__, known.cls.__qualname__) != (cls.__module__, cls.__qualname__):
        raise TreeError(f"tree type {name!r}: {known.cls.__qualname__} has this name already, choose another one.")
    _BY_NAME[name] = _BY_CLASS[cls] = TreeType(name, cls, to_tree, from_tree)


def tree_type(name: str) -> Callable[[C], C]:
    """Register a class that has `to_tree()` and a static `from_tree(tree)`; a decorator.

    Args:
        name: what a file calls it; begins with the name of the package, and never changes.

    Raises:
        TreeError: if the name is taken by another class.
    """

    def register(cls: C) -> C:
        register_tree_type(name, cls, cls.to_tree, cls.from_tree)
        return cls

    return register


def type_of(cls: type) -> TreeType | None:
    """Return what is registered for a class, or None."""
    return _BY_CLASS.get(cls)


def type_named(name: str) -> TreeType | None:
    """Return what is registered by a name, or None."""
    return _BY_NAME.get(name)


def names() -> list[str]:
    """Return all names that are registered."""
    return sorted(_BY_NAME)


def _named_method(name: str) -> Callable[..., Any]:
    """Return a reference to a method that was known by its name only; sent to an actor, it is what the name says."""

    def method(actor: Any) -> Any:
        return getattr(actor, name)()

    method.__name__ = method.__qualname__ = name
    return method


def _described_elsewhere() -> NoReturn:
    raise TreeError("This actor was named by a state, which says nothing of how it is made: the flow must mention it.")


register_tree_type("rheos.NotReady", NotReady, lambda reply: reply.reason, NotReady)
register_tree_type("rheos.EndOfShard", EndOfShard, lambda reply: None, lambda tree: EndOfShard())
register_tree_type(
    "rheos.Published",
    Published,
    lambda message: (message.actor.name, message.method.__name__),
    lambda tree: Published(Actor(tree[0], _described_elsewhere), _named_method(tree[1])),
)
