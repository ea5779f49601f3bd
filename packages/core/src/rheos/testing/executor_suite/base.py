"""What the tests of the contract share: the executor, a gate and a diary, and ways to take items that never hang."""

from __future__ import annotations

import os
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import pytest

from rheos.errors import FlowTimeout
from rheos.testing.executor_suite.gates import Diary, Gate

if TYPE_CHECKING:
    from rheos.executors.protocol import Executor
    from rheos.scheduler.flow import Flow

__all__ = ["ContractBase", "failure_of"]

T = TypeVar("T")


class ContractBase:
    """The fixtures of the contract, and what a subclass may set."""

    many: ClassVar[int] = 100
    """How many actors there are in the test of many; fewer where one costs much."""
    is_parallel: ClassVar[bool] = True
    """Whether actors work while the driver waits; False where everything runs in the driver's thread."""
    patience_s: ClassVar[float] = 30.0
    """After so many seconds without an item a test fails, and names the actor that is waited for."""
    idle_share: ClassVar[float] = 0.01
    """The share of a core that this process may use while it waits."""

    @abstractmethod
    def make_executor(self) -> Executor:
        """Make the executor; each test makes one, and closes it."""

    def left_behind(self) -> set[str]:
        """Return the threads of this process and, where psutil is installed, its child processes.

        Override it where an engine keeps some for itself that outlive an executor.
        """
        names = {f"thread {thread.name} {thread.ident}" for thread in threading.enumerate()}
        if find_spec("psutil") is not None:
            psutil: Any = import_module("psutil")
            names |= {f"process {child.pid}" for child in psutil.Process().children(recursive=True)}
        return names

    @pytest.fixture
    def executor(self) -> Iterator[Executor]:
        """Give an executor, and close it."""
        executor = self.make_executor()
        yield executor
        executor.close()

    @pytest.fixture
    def diary(self, tmp_path: Path) -> Diary:
        """Give a file into which actors write."""
        return Diary(str(tmp_path / "diary"))

    @pytest.fixture
    def gate(self, tmp_path: Path) -> Iterator[Gate]:
        """Give a gate at which actors wait; only where they can wait without the driver."""
        if not self.is_parallel:
            pytest.skip("the driver would wait for itself")
        if not hasattr(os, "mkfifo"):
            pytest.skip("this system has no named pipes")
        gate = Gate(tmp_path / "gate")
        yield gate
        gate.open()

    def take(self, flow: Flow[T], count: int) -> list[T]:
        """Return the next items of a flow."""
        return [flow.next(timeout_s=self.patience_s) for _ in range(count)]

    def rest(self, flow: Flow[T]) -> list[T]:
        """Return all items until the end."""
        items = []
        while True:
            try:
                items.append(flow.next(timeout_s=self.patience_s))
            except StopIteration:
                return items

    def take_until(self, flow: Flow[T], is_wanted: Callable[[T], bool], count: int = 1) -> list[T]:
        """Return the next items of a flow, up to the one that makes so many wanted ones."""
        items: list[T] = []
        give_up_at = perf_counter() + self.patience_s
        while count:
            if perf_counter() > give_up_at:
                raise AssertionError(f"{count} more were to come in {self.patience_s:g} s, after {len(items):,} items")
            items += self.take(flow, 1)
            count -= is_wanted(items[-1])
        return items

    def waits(self, flow: Flow[Any], timeout_s: float = 0.02) -> None:
        """Show that no item comes within the time."""
        with pytest.raises(FlowTimeout):
            flow.next(timeout_s=timeout_s)


def failure_of(flow: Flow[Any]) -> BaseException:
    """Return the error that a flow ends with; one that ends without, or that still gives items, is a failed test."""
    for _ in range(1000):
        try:
            flow.next(timeout_s=30.0)
        except StopIteration:
            raise AssertionError("the flow ended without an error") from None
        except BaseException as error:
            return error
    raise AssertionError("the flow went on for 1,000 items")
