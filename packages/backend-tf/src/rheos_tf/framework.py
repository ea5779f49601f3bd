"""TensorFlow, imported without what its libraries write to the terminal, and set to one thread."""

from __future__ import annotations

import importlib
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

__all__ = ["Tensor", "Variable", "tf"]

Tensor: TypeAlias = Any
"""A tf.Tensor, eager or of a graph. TensorFlow has no annotations."""

Variable: TypeAlias = Any
"""A tf.Variable."""

_LOG_LEVEL, _FATAL = "TF_CPP_MIN_LOG_LEVEL", "3"
_LOG_LINE = re.compile(rb"[IWE]\d{4} |WARNING: All log messages before absl::InitializeLog")


def _imported() -> Any:
    if os.environ.setdefault(_LOG_LEVEL, _FATAL) != _FATAL:  # the user has said what to show
        return importlib.import_module("tensorflow")
    with _without_log_lines(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of TensorFlow's own parts, about one another
        return importlib.import_module("tensorflow")


@contextmanager
def _without_log_lines() -> Iterator[None]:
    """Hold back what is written to the terminal meanwhile, and write it at the end without TensorFlow's log.

    Its libraries log to file descriptor 2 as they are loaded, before they read how much they are to say.
    """
    try:
        terminal = os.dup(2)
    except OSError:  # there is none
        yield
        return
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
            held.seek(0)
            for line in held:
                if not _LOG_LINE.match(line):
                    os.write(2, line)


def _keep_streams_open() -> None:
    """Have TensorFlow's logger, absl, write to the process's own stderr.

    It keeps what `sys.stderr` is when it is imported, and closes that when logging is configured, if `sys.stderr` is
    another stream by then: that of a notebook or a test, which others still write to.
    """
    if sys.__stderr__ is not None:
        importlib.import_module("absl.logging").get_absl_handler().python_handler.setStream(sys.__stderr__)


tf: Any = _imported()
"""The module `tensorflow`."""

_keep_streams_open()

if tf.config.threading.get_intra_op_parallelism_threads() == 0:  # the backend may still say otherwise
    with suppress(RuntimeError):  # of one that has started: the backend tells
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
