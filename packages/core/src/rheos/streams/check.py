"""Mistakes in the text of a flow that can be seen before anything starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from rheos.streams import nodes

__all__ = ["Mistake", "mistakes"]


@dataclass(frozen=True)
class Mistake:
    """What is wrong, where, and what to do."""

    stage: nodes.Node
    text: str

    def __str__(self) -> str:
        """Return the line that users read."""
        return f"{self.stage.label} [{self.stage.origin}]: {self.text}"


def mistakes(root: nodes.Node) -> tuple[Mistake, ...]:
    """Return what is wrong with the flow that ends in `root`, in the order of its stages."""
    order = nodes.stages(root)
    found = (
        *_used_twice(order),
        *_branches_unread(order),
        *_branches_in_step(order),
        *_barriers_undone(order),
        *_names_taken_twice(order),
    )
    position = {id(node): index for index, node in enumerate(order)}
    return tuple(sorted(found, key=lambda mistake: position[id(mistake.stage)]))


def _used_twice(order: tuple[nodes.Node, ...]) -> Iterator[Mistake]:
    readers = Counter(id(source) for node in order if not isinstance(node, nodes.TeeBranch) for source in node.inputs)
    for node in order:
        if readers[id(node)] > 1:
            yield Mistake(node, f"{readers[id(node)]} stages read it: read it through tee({readers[id(node)]}).")


def _branches_unread(order: tuple[nodes.Node, ...]) -> Iterator[Mistake]:
    for tee in (node for node in order if isinstance(node, nodes.Tee)):
        read = {node.index for node in order if isinstance(node, nodes.TeeBranch) and tee in node.inputs}
        for index in sorted(set(range(tee.count)) - read):
            yield Mistake(tee, f"nobody reads branch {index}: end it in drain() and merge it by concurrently().")


def _branches_in_step(order: tuple[nodes.Node, ...]) -> Iterator[Mistake]:
    for merge in (node for node in order if isinstance(node, nodes.RoundRobin)):
        reached: Counter[nodes.Node] = Counter()
        for child in merge.inputs:
            reached.update({node for node in nodes.stages(child) if isinstance(node, nodes.Tee)})
        for tee, children in reached.items():
            if children > 1:
                yield Mistake(
                    merge,
                    f"{children} of its children are branches of the tee at {tee.origin}, each of which waits for the"
                    " other: merge them by concurrently().",
                )


def _barriers_undone(order: tuple[nodes.Node, ...]) -> Iterator[Mistake]:
    for tell in (node for node in order if isinstance(node, nodes.Tell)):
        told = {actor.name for actor in tell.group}
        ahead: nodes.Ask | None = None
        node: nodes.Node | None = tell
        while node is not None and len(node.inputs) == 1:
            node = node.inputs[0]
            if isinstance(node, nodes.Ask) and node.in_flight * len(node.group) > 1:
                ahead = node
            if isinstance(node, nodes.GatherSync) and ahead is not None and told & _shards(node):
                yield Mistake(
                    ahead,
                    f"it takes the next round of the barrier at {node.origin} before {tell.label} [{tell.origin}] sent"
                    " its messages: use in_flight=1 and one actor, or gather_async.",
                )


def _shards(gather: nodes.Node) -> set[str]:
    return {actor.name for node in nodes.stages(gather) for actor in node.actors()}


def _names_taken_twice(order: tuple[nodes.Node, ...]) -> Iterator[Mistake]:
    known: dict[str, object] = {}
    for node in order:
        for actor in node.actors():
            if known.setdefault(actor.name, actor) is not actor:
                yield Mistake(node, f"two actors are named {actor.name!r}: give their groups different roles.")
                return
