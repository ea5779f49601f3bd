"""`rheos graph`: show the dataflow of an algorithm as text, Mermaid or a picture; no actor is started."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rheos.plugins import load_registry

if TYPE_CHECKING:
    from rheos import Stream

__all__ = ["TAKES_OVERRIDES", "add_arguments", "run"]

TAKES_OVERRIDES = True
_TEXTS = (".mmd", ".txt")
_PICTURES = (".png", ".svg", ".pdf")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the format and where it goes; everything else is an override, as for `rheos train`."""
    parser.usage = "rheos graph algo=<name> [key=value ...] [--format text|mermaid | -o FILE]"
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--format", choices=("text", "mermaid"), help="print only this one; both by default")
    form.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="write it: a picture (.png, .svg, .pdf), Mermaid (.mmd) or text (.txt)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Describe the flow, which makes one environment for its spaces, and print it, or write it and say where."""
    from rheos.configuration.run_config import RunConfig
    from rheos.runs.program import describe
    from rheos_cli.composition import compose

    output: Path | None = arguments.output
    if output is not None:
        _refuse_what_cannot_be_written(output)
    registry = load_registry(warn=False)
    config = RunConfig.from_mapping(compose(arguments.overrides), registry)
    stream = describe(config, registry).stream
    if output is not None:
        _write(stream, output)
        print(output)
        return 0
    if arguments.format != "mermaid":
        print(stream.explain())
    if arguments.format is None:
        print()
    if arguments.format != "text":
        print(stream.to_mermaid())
    return 0


def _refuse_what_cannot_be_written(output: Path) -> None:
    from rheos.errors import UsageError

    if output.suffix.lower() not in (*_PICTURES, *_TEXTS):
        ending = repr(output.suffix) if output.suffix else "no ending"
        raise UsageError(f"-o {output}: got {ending}, expected one of {', '.join((*_PICTURES, *_TEXTS))}.")
    if not output.parent.is_dir():
        raise UsageError(f"-o {output}: there is no folder {output.parent}: make it first.")


def _write(stream: Stream[Any], output: Path) -> None:
    from rheos.errors import UsageError

    suffix = output.suffix.lower()
    try:
        if suffix in _TEXTS:
            output.write_text(stream.to_mermaid() if suffix == ".mmd" else f"{stream.explain()}\n", encoding="utf-8")
        else:
            from rheos_cli.flow_picture import draw_flow

            draw_flow(stream.node, output)
    except OSError as error:
        raise UsageError(f"-o {output}: it cannot be written: {error}") from error
