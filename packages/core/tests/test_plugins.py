"""Plugins: each is loaded in isolation, and what cannot be used is explained when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from rheos.errors import PluginError, UnknownName
from rheos.plugins import Kind, Registry, hookimpl, load_registry, resolve
from rheos.plugins.loading import load_plugins
from rheos.plugins.registry import PluginWarning
from rheos.plugins.sources import Origin
from rheos.plugins.specs import CONTRACT_VERSION, AlgorithmSpec, LoggerSpec


@dataclass
class Package:
    """A plugin as if it were installed; `make` is its import."""

    origin: Origin
    make: Callable[[], object]

    def load(self) -> object:
        return self.make()


def package(name: str, make: Callable[[], object], version: str = "1.2") -> Package:
    return Package(Origin(name, f"{name}-pkg", version), make)


def algorithm(name: str, **changes: Any) -> AlgorithmSpec:
    references = dict.fromkeys(("config", "roles", "flow", "policy"), "nowhere:nothing")
    return AlgorithmSpec(name=name, summary=f"the algorithm {name}", **{**references, **changes})


def offering(*names: str, **changes: Any) -> Callable[[], object]:
    @hookimpl
    def rheos_algorithms() -> list[AlgorithmSpec]:
        return [algorithm(name, **changes) for name in names]

    return lambda: SimpleNamespace(rheos_algorithms=rheos_algorithms)


def failing(error: BaseException) -> Callable[[], object]:
    def load() -> object:
        raise error

    return load


def plugin_with(**hooks: Any) -> Callable[[], object]:
    return lambda: SimpleNamespace(**hooks)


def refusal(registry: Registry, name: str) -> str:
    with pytest.raises((PluginError, UnknownName)) as caught:
        registry.algorithm(name)
    return str(caught.value)


def test_an_offer_is_found_by_kind_and_name_and_remembers_its_package():
    registry = load_plugins([package("zen", offering("zen", "art"))])

    assert algorithm("zen") == registry.algorithm("zen")
    assert ("art", "zen") == registry.names(Kind.ALGORITHM)
    assert [Origin("zen", "zen-pkg", "1.2")] * 2 == [offer.origin for offer in registry.offers(Kind.ALGORITHM)]
    assert () == registry.names(Kind.BACKEND)
    assert () == registry.warnings


@pytest.mark.parametrize("error", [ImportError("no module\nnamed 'jax'"), SystemExit("leaving"), RuntimeError()])
def test_a_plugin_that_fails_to_import_is_a_warning_and_the_others_go_on(error):
    registry = load_plugins([package("bad", failing(error)), package("good", offering("good"))])

    assert "good" == registry.algorithm("good").name
    (warning,) = registry.warnings
    assert warning.startswith(f"the plugin 'bad' of package bad-pkg 1.2 could not be loaded: {type(error).__name__}")
    assert "\n" not in warning


def test_a_plugin_that_fails_to_import_is_an_error_when_its_name_is_asked_for():
    registry = load_plugins([package("bad", failing(ImportError("no jax")))])

    assert (
        "No algorithm 'bad': the plugin 'bad' of package bad-pkg 1.2 could not be loaded: ImportError: no jax."
    ) == refusal(registry, "bad")


def test_an_unknown_name_mentions_the_plugins_that_might_have_offered_it():
    registry = load_plugins([package("bad", failing(ImportError("no jax"))), package("good", offering("good"))])

    assert (
        "No algorithm 'other'. Installed: good. "
        "Not usable: the plugin 'bad' of package bad-pkg 1.2 could not be loaded: ImportError: no jax."
    ) == refusal(registry, "other")


def test_an_unknown_name_gives_near_misses():
    registry = load_plugins([package("ppo", offering("ppo", "apex"))])

    assert "No algorithm 'pppo'. Did you mean 'ppo'? Installed: apex, ppo." == refusal(registry, "pppo")
    assert "No algorithm 'PPO'. Did you mean 'ppo'? Installed: apex, ppo." == refusal(registry, "PPO")


def test_a_name_of_a_package_that_is_not_installed_says_what_to_install():
    registry = load_plugins([])

    assert (
        "No algorithm 'impala' is installed. It is provided by rheos-algos-impala: pip install rheos-algos-impala"
    ) == refusal(registry, "impala")
    with pytest.raises(UnknownName, match=r"pip install rheos-executor-ray$"):
        registry.executor("ray")
    with pytest.raises(UnknownName, match=r"pip install rheos-backend-tf$"):
        registry.backend("tf")
    with pytest.raises(UnknownName, match=r"^No environment 'gym'\. Installed: none\.$"):
        registry.environment("gym")
    with pytest.raises(UnknownName, match=r"pip install rheos-cli$"):
        registry.logger("tensorboard")


def test_a_name_that_an_installed_package_does_not_offer_yet_says_to_upgrade():
    registry = load_plugins([Package(Origin("ppo", "rheos-algos-ppo", "0.1"), offering("ppo"))])

    assert refusal(registry, "a3c").endswith("rheos-algos-ppo: pip install --upgrade rheos-algos-ppo")


def test_a_mistyped_hook_is_found():
    def mistyped() -> list[AlgorithmSpec]:
        return []

    marked = hookimpl(specname="rheos_algoritms")(mistyped)

    (warning,) = load_plugins([package("typo", plugin_with(anything=marked))]).warnings

    assert "TypeError: 'rheos_algoritms' is no hook. Did you mean 'rheos_algorithms'? Hooks: " in warning


def test_a_hook_that_lacks_its_mark_is_found():
    (warning,) = load_plugins([package("bare", plugin_with(rheos_algorithms=list))]).warnings

    assert warning.endswith("TypeError: 'rheos_algorithms' is not marked as a hook; write @rheos.hookimpl above it")


def test_a_hook_with_other_arguments_is_found():
    def rheos_report(run: Any, rows: Any) -> None: ...

    (warning,) = load_plugins([package("args", plugin_with(rheos_report=hookimpl(rheos_report)))]).warnings

    assert "could not be loaded: PluginValidationError" in warning
    assert "'rows'" in warning


def test_a_hook_that_raises_or_returns_something_else_leaves_only_its_plugin_out():
    def raising() -> list[AlgorithmSpec]:
        raise ZeroDivisionError("division by zero")

    def confused() -> list[Any]:
        return [LoggerSpec(name="x", summary="", factory="a:b")]

    registry = load_plugins(
        [
            package("raising", plugin_with(rheos_algorithms=hookimpl(specname="rheos_algorithms")(raising))),
            package("confused", plugin_with(rheos_algorithms=hookimpl(specname="rheos_algorithms")(confused))),
            package("good", offering("good")),
        ]
    )

    assert ("good",) == registry.names(Kind.ALGORITHM)
    raised, confused_warning = registry.warnings
    assert raised.endswith("ZeroDivisionError: division by zero")
    assert confused_warning.endswith("expected AlgorithmSpec")


def test_two_packages_that_offer_one_name_are_both_named_but_only_when_it_is_used():
    registry = load_plugins([package("one", offering("same", "a")), package("two", offering("same", "b"), "3.0")])

    assert ("a", "b") == registry.names(Kind.ALGORITHM)
    assert "b" == registry.algorithm("b").name
    message = refusal(registry, "same")
    assert (
        "Two packages offer the algorithm 'same': the plugin 'one' of package one-pkg 1.2 and the plugin 'two' of "
        "package two-pkg 3.0; uninstall one, or set RHEOS_DISABLED_PLUGINS=two-pkg."
    ) == message
    assert (message[:-1],) == registry.warnings


@pytest.mark.parametrize("word", ["one", "one-pkg", "One_Pkg"])
def test_a_disabled_plugin_is_not_imported_and_says_so_when_it_is_asked_for(word: str):
    registry = load_plugins([package("one", failing(AssertionError("imported")))], disabled=[word])

    assert () == registry.warnings
    assert (
        "No algorithm 'one': the plugin 'one' of package one-pkg 1.2 is disabled by RHEOS_DISABLED_PLUGINS."
    ) == refusal(registry, "one")


def test_disabling_one_of_two_packages_settles_whose_name_it_is():
    sources = [package("one", offering("same")), package("two", offering("same"))]

    assert "same" == load_plugins(sources, disabled=["two"]).algorithm("same").name


def test_a_plugin_for_another_contract_is_refused_with_the_command_that_mends_it():
    newer = load_plugins([package("new", offering("new", contract=CONTRACT_VERSION + 1))])
    older = load_plugins([package("old", offering("old", contract=CONTRACT_VERSION - 1))])

    assert (
        f"The algorithm 'new' of package new-pkg 1.2 is made for version {CONTRACT_VERSION + 1} of the plugin "
        f"contract, this rheos-core has version {CONTRACT_VERSION}: pip install --upgrade rheos-core."
    ) == refusal(newer, "new")
    assert refusal(older, "old").endswith("pip install --upgrade old-pkg.")
    assert () == newer.names(Kind.ALGORITHM)
    assert 1 == len(newer.warnings)


def test_life_cycle_hooks_reach_every_plugin():
    heard: list[str] = []

    def listener(name: str) -> Callable[[], object]:
        def rheos_run_started(run: Any) -> None:
            heard.append(f"{name} {run}")

        return plugin_with(rheos_run_started=hookimpl(rheos_run_started))

    registry = load_plugins([package("a", listener("a")), package("b", listener("b"))])

    registry.hook.rheos_run_started(run="run-1")

    assert sorted(heard) == ["a run-1", "b run-1"]


def test_core_registers_its_own_offers_through_the_hook():
    registry = load_registry(warn=False)

    assert "inline" in registry.names(Kind.EXECUTOR)
    assert {"rheos-core"} == {
        offer.origin.package for offer in registry.offers(Kind.EXECUTOR) if offer.spec.name == "inline"
    }
    assert "gym" in registry.names(Kind.ENVIRONMENT)
    assert registry is load_registry(warn=False)


def test_a_plugin_that_cannot_be_used_is_a_python_warning_unless_the_caller_shows_it(monkeypatch):
    broken = load_plugins([package("bad", failing(ImportError("no jax")))])
    monkeypatch.setattr("rheos.plugins.loading._installed", lambda: broken)

    load_registry(warn=False)
    with pytest.warns(PluginWarning, match="the plugin 'bad' of package bad-pkg 1.2"):
        load_registry()


def test_a_reference_that_leads_nowhere_says_what_was_wanted_and_why_it_fails():
    with pytest.raises(PluginError, match=r"^the backend 'x' \(no_such_module:make\) cannot be loaded: ModuleNotFound"):
        resolve("no_such_module:make", "the backend 'x'")
    with pytest.raises(PluginError, match=r"^'rheos\.batches:Nothing' cannot be loaded: .*batches\.py has no"):
        resolve("rheos.batches:Nothing")
    with pytest.raises(PluginError, match=r"expected 'module:object'"):
        resolve("rheos.batches")
