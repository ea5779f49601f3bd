"""`rheos graph`: show the dataflow of an algorithm as text or Mermaid; no actor is started."""

from __future__ import annotations

import argparse

from rheos.plugins import load_registry

__all__ = ["TAKES_OVERRIDES", "add_arguments", "run"]

TAKES_OVERRIDES = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the format; everything else is an override, as for `rheos train`."""
    parser.usage = "rheos graph algo=<name> [key=value ...] [--format text|mermaid]"
    parser.add_argument("--format", choices=("text", "mermaid"), help="only this one; both by default")


def run(arguments: argparse.Namespace) -> int:
    """Describe the flow, which makes one environment for its spaces, and print it."""
    from rheos.configuration.run_config import RunConfig
    from rheos.runs.program import describe
    from rheos_cli.composition import compose

    registry = load_registry(warn=False)
    config = RunConfig.from_mapping(compose(arguments.overrides), registry)
    stream = describe(config, registry).stream
    if arguments.format != "mermaid":
        print(stream.explain())
    if arguments.format is None:
        print()
    if arguments.format != "text":
        print(stream.to_mermaid())
    return 0
