"""The commands of `rheos`, one module each, imported only when its command is typed.

A command module has

- `add_arguments(parser: argparse.ArgumentParser) -> None`, which declares its options, and
- `run(arguments: argparse.Namespace) -> int`, which does the work and returns the exit code.

`rheos_cli.main` makes the parser (program name, summary from its table), parses, calls `run`, and turns what it
raises into words on stderr and an exit code: `UsageError` into one line and 2, `KeyboardInterrupt` into 130, all
else into 1. So a command prints its results on stdout, raises errors of `rheos.errors`, and never calls `sys.exit`.
What is slow to import (numpy, hydra, rich, matplotlib) is imported inside the functions that need it.

A command that takes Hydra overrides sets `TAKES_OVERRIDES = True` and finds everything that its parser does not
know, in order and untouched, in `arguments.overrides`.
"""
