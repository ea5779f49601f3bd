"""The contract of executors, as a class of tests: an executor's own tests run it as an empty subclass.

    class TestMyExecutor(ExecutorSuite):
        def make_executor(self):
            return MyExecutor()

It needs pytest. Actors and what they are made of are importable from here, so that they can be made in another process;
what they did is seen in their replies, and in files, so an executor on several machines is tested on one.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rheos.testing.executor_suite.suite import ExecutorSuite

__all__ = ["ExecutorSuite"]

_TOPICS = ("bounds", "ends", "failures", "order", "places", "protocol", "state", "values")

if "pytest" in sys.modules:  # else this is the process of an actor, which pytest would cost half a second
    sys.modules["pytest"].register_assert_rewrite(*(f"{__name__}.{topic}" for topic in _TOPICS))


def __getattr__(name: str) -> Any:
    """Import the suite, and pytest, where it is asked for."""
    if name != "ExecutorSuite":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rheos.testing.executor_suite.suite import ExecutorSuite

    return ExecutorSuite
