"""A flow as text, and as a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Mapping

from rheos.streams import nodes

__all__ = ["explain", "to_mermaid"]


def explain(root: nodes.Node, remarks: Mapping[nodes.Node, str] | None = None) -> str:
    """Return a line for each stage: number, label, what it reads where that is not the line above, origin, remark."""
    order = nodes.stages(root)
    number = {node: index for index, node in enumerate(order, 1)}
    rows = []
    for node in order:
        inputs = [number[source] for source in node.inputs]
        reads = f"  <- {', '.join(map(str, inputs))}" if inputs and inputs != [number[node] - 1] else ""
        rows.append((f"{number[node]:>3}  {node.label}{reads}", f"[{node.origin}]", (remarks or {}).get(node, "")))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return "\n".join(f"{text:<{widths[0]}}  {origin:<{widths[1]}}  {remark}".rstrip() for text, origin, remark in rows)


def to_mermaid(root: nodes.Node) -> str:
    """Return a flowchart: stages as boxes, actors as rounded boxes, data as arrows, messages as dotted arrows."""
    order = nodes.stages(root)
    number = {node: index for index, node in enumerate(order, 1)}
    lines = ["flowchart TD"]
    groups: dict[tuple[str, ...], str] = {}
    for node in order:
        lines.append(f'    s{number[node]}["{number[node]}: {_escape(node.label)}"]')
        lines.extend(f"    s{number[source]} --> s{number[node]}" for source in node.inputs)
        names = tuple(actor.name for actor in node.actors())
        if not names:
            continue
        if names not in groups:
            groups[names] = f"a{len(groups) + 1}"
            title = names[0] if len(names) == 1 else f"{names[0]} ... {names[-1]}"
            lines.append(f'    {groups[names]}(["{_escape(title)}"])')
        arrow = "-.->" if isinstance(node, nodes.Tell) else "<-.->"
        lines.append(
            f"    {groups[names]} -.-> s{number[node]}"
            if isinstance(node, nodes.FromActors)
            else f"    s{number[node]} {arrow} {groups[names]}"
        )
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
