"""The contract of executors, as a class of tests: an executor's own tests run it as an empty subclass.

    class TestMyExecutor(ExecutorSuite):
        def make_executor(self):
            return MyExecutor()

It needs pytest. Actors and what they are made of are importable from here, so that they can be made in another process;
what they did is seen in their replies, and in files, so an executor on several machines is tested on one.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    *(
        f"{__name__}.{topic}"
        for topic in ("bounds", "ends", "failures", "order", "places", "protocol", "state", "values")
    )
)

from rheos.testing.executor_suite.bounds import BoundsContract  # noqa: E402 - pytest has to hear of them before
from rheos.testing.executor_suite.ends import EndsContract  # noqa: E402
from rheos.testing.executor_suite.failures import FailuresContract  # noqa: E402
from rheos.testing.executor_suite.order import OrderContract  # noqa: E402
from rheos.testing.executor_suite.places import PlacesContract  # noqa: E402
from rheos.testing.executor_suite.protocol import ProtocolContract  # noqa: E402
from rheos.testing.executor_suite.state import StateContract  # noqa: E402
from rheos.testing.executor_suite.values import ValuesContract  # noqa: E402

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
