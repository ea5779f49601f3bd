"""Every executor that is installed keeps the contract of executors: some test class runs `ExecutorSuite` on it."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rheos.executors.inline import InlineExecutor
from rheos.plugins.loading import load_plugins
from rheos.plugins.registry import Kind
from rheos.plugins.sources import plugin_sources
from rheos.streams.actors import Placement
from rheos.testing.executor_suite import ExecutorSuite

ROOT = Path(__file__).parents[1]
PATTERN = "packages/*/tests/test_*executor_contract.py"
CONTRACT = {name for name in dir(ExecutorSuite) if name.startswith("test_")}

SOURCE = """
from rheos.executors.inline import InlineExecutor
from rheos.testing.executor_suite import ExecutorSuite


class TestSound(ExecutorSuite):
    is_parallel = False

    def make_executor(self):
        return InlineExecutor()


class NotCollected(TestSound):
    pass


class TestLeavesOutATest(TestSound):
    test_many_actors_answer_and_are_told = None


class TestNothing:
    pass
"""


def contract_classes(root: Path) -> Iterator[type[ExecutorSuite]]:
    """Those that pytest collects: of test files, named `Test...`, and with every test of the contract as it is."""
    for path in sorted(root.glob(PATTERN)):
        spec = importlib.util.spec_from_file_location(f"{path.parents[1].name}_{path.stem}".replace("-", "_"), path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, value in vars(module).items():
            is_collected = name.startswith("Test") and isinstance(value, type) and issubclass(value, ExecutorSuite)
            if is_collected and all(getattr(value, test) is getattr(ExecutorSuite, test) for test in CONTRACT):
                yield value


def names_of_tested_executors(root: Path) -> set[str]:
    names = set()
    for contract_class in contract_classes(root):
        executor = contract_class().make_executor()
        names.add(executor.name)
        executor.close()
    return names


def test_every_installed_executor_of_ours_has_a_contract_test():
    packages = {f"rheos-{path.parent.name}" for path in ROOT.glob("packages/*/pyproject.toml")}
    offers = load_plugins(plugin_sources()).offers(Kind.EXECUTOR)

    installed = {offer.spec.name for offer in offers if offer.origin.package in packages}

    assert {"inline", "threads"} <= installed
    assert set() == installed - names_of_tested_executors(ROOT), f"give it a class in {PATTERN}"


def test_a_class_counts_only_if_pytest_collects_it_and_it_leaves_out_nothing(tmp_path: Path):
    (tests := tmp_path / "packages" / "mine" / "tests").mkdir(parents=True)
    (tests / "test_my_executor_contract.py").write_text(SOURCE, encoding="utf-8")

    found = list(contract_classes(tmp_path))

    assert ["TestSound"] == [contract_class.__name__ for contract_class in found]
    assert {InlineExecutor.name} == names_of_tested_executors(tmp_path)


def test_the_executor_of_the_documentation_keeps_the_contract(capsys: pytest.CaptureFixture[str]):
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8").partition("## Writing an executor")[2]
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, names)
    suite = names["TestAnnouncingExecutor"]()

    suite.test_two_flows_run_on_one_executor_at_a_time(suite.make_executor())
    suite.test_every_call_is_announced_once_in_the_order_of_the_mailbox(suite.make_executor(), Placement.REMOTE)

    assert "counter-0 starts: remote" in capsys.readouterr().out
