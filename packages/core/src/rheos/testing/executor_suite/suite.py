"""ExecutorSuite: all tests of the contract together."""

from __future__ import annotations

from rheos.testing.executor_suite.bounds import BoundsContract
from rheos.testing.executor_suite.ends import EndsContract
from rheos.testing.executor_suite.failures import FailuresContract
from rheos.testing.executor_suite.order import OrderContract
from rheos.testing.executor_suite.places import PlacesContract
from rheos.testing.executor_suite.protocol import ProtocolContract
from rheos.testing.executor_suite.state import StateContract
from rheos.testing.executor_suite.values import ValuesContract

__all__ = ["ExecutorSuite"]


class ExecutorSuite(
    ProtocolContract,
    OrderContract,
    BoundsContract,
    ValuesContract,
    FailuresContract,
    StateContract,
    PlacesContract,
    EndsContract,
):
    """What every executor keeps, whatever it runs actors on.

    A subclass whose name begins with `Test` says how its executor is made, and nothing else. Where something is
    different by nature, a class attribute says so: `is_parallel`, `many`, `patience_s`, `idle_share`.

    Example:
        >>> from rheos.executors.inline import InlineExecutor
        >>> class TestInline(ExecutorSuite):
        ...     is_parallel = False
        ...
        ...     def make_executor(self):
        ...         return InlineExecutor()
    """
