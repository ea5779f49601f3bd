"""A quick start: what Python's garbage collector would cost while modules are imported and settings are composed."""

from __future__ import annotations

import gc
import os
from types import TracebackType

from rheos.plugins.hooks import hookimpl

__all__ = ["QuickStart", "one_thread_an_actor"]

_BLAS_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def one_thread_an_actor() -> None:
    """Have NumPy compute with one thread, unless the environment says otherwise: workers are what runs side by side.

    It reads these variables once, when it is imported, so they are set before.
    """
    for name in _BLAS_THREADS:
        os.environ.setdefault(name, "1")


class QuickStart:
    """Keeps the garbage collector still until a run has started; around a command, and an observer of its runs.

    A framework's import makes a million objects and hardly any garbage, and each pass of the collector looks at all of
    them. What is there when the first run starts stays for good, so that later passes do not look at it either.
    """

    def __init__(self) -> None:
        self._was_enabled = gc.isenabled()
        self._has_started = False

    def __enter__(self) -> QuickStart:
        gc.disable()
        return self

    @hookimpl
    def rheos_run_started(self) -> None:
        """Let the garbage collector work from now on, on what comes from now on."""
        if not self._has_started:
            self._has_started = True
            gc.freeze()
            self._let_collect()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._let_collect()

    def _let_collect(self) -> None:
        if self._was_enabled:
            gc.enable()
