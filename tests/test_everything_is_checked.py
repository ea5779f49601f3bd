"""Nothing is left out: what the registries and packages offer has a parity case, and a check that it is alive."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterable
from types import ModuleType
from typing import Any, get_args

import pytest
from parity import distribution_cases, estimate_cases, loss_cases, namespace_cases, network_cases, test_own_networks

import rheos_ops
from rheos.arrays.namespace import ArrayNamespace
from rheos.networks.specs import Heads, Native, NetworkSpec, Tree
from rheos.networks.weights import parts_of
from rheos.plugins import Kind, load_registry
from rheos.testing.components import installed_places
from rheos_ops import distributions
from rheos_ops.distributions import Categorical, Product

CASES = {
    name: case
    for groups in (namespace_cases.GROUPS, distribution_cases.GROUPS, estimate_cases.GROUPS)
    for group in groups.values()
    for name, case in group.items()
}
"""All parity cases."""


def functions_of(kind: type) -> set[str]:
    return {name for name, value in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


def without_case(names: Iterable[str], cases: Iterable[str]) -> set[str]:
    """Return the names that no case begins with."""
    return set(names) - {case.partition(",")[0] for case in cases}


def parameters_of(function: Any) -> list[str]:
    """Return the names of what is given when a function, or an object of a class, is called."""
    if inspect.isclass(function):
        return list(inspect.signature(function.__call__).parameters)[1:] if "__call__" in vars(function) else []
    return list(inspect.signature(function).parameters)


def takes_arrays(function: Any) -> bool:
    """Whether it is called with an array namespace first, as all mathematics is."""
    return parameters_of(function)[:1] == ["xp"]


def is_loss(function: Any) -> bool:
    """Whether it is called as `rheos.backend.Loss` says, or as what prepares a batch."""
    return parameters_of(function) in (["xp", "networks", "batch", "coefficients"], ["xp", "columns"])


def public_names_of(package: ModuleType) -> dict[str, Any]:
    """Return what the modules of a package offer that is a function or a class."""
    found = {}
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(info.name)
        found |= {name: getattr(module, name) for name in getattr(module, "__all__", ())}
    return {name: value for name, value in found.items() if inspect.isfunction(value) or inspect.isclass(value)}


def kinds_of(spec: NetworkSpec) -> set[type]:
    """Return the class of a spec and of all its parts."""
    parts = parts_of(spec).values() if isinstance(spec, Tree | Heads) else ()
    return {type(spec), *(kind for part in parts for kind in kinds_of(part))}


def test_every_function_of_the_array_namespace_has_a_case():
    offered = functions_of(ArrayNamespace)

    assert {"exp", "scan", "linear_recurrence", "pick"} <= offered
    assert set() == without_case(offered, CASES)


@pytest.mark.parametrize("place", installed_places(modes=("eager",)), ids=str)
def test_every_backend_has_every_function_of_the_array_namespace(place):
    xp = place.make_backend().xp

    assert set() == {name for name in functions_of(ArrayNamespace) if not callable(getattr(xp, name, None))}


def test_every_function_of_every_distribution_has_a_case_and_every_family_is_checked_alive():
    offered = {getattr(distributions, name) for name in distributions.__all__}
    families = {kind for kind in offered if dataclasses.is_dataclass(kind)}
    functions = {
        f"{family.__name__}.{name}"
        for family in families
        for name in functions_of(family)
        if parameters_of(getattr(family, name))[:2] == ["self", "xp"]
    }

    assert {Categorical, Product} < families
    assert len(functions) > 30
    assert set() == without_case(functions, CASES)
    assert families == {type(family) for family in distribution_cases.FAMILIES.values()}
    assert distribution_cases.FAMILIES.keys() == distribution_cases.SPACES.keys()


def test_every_function_over_arrays_of_rheos_ops_has_a_case():
    offered = public_names_of(rheos_ops)
    functions = {name for name, value in offered.items() if inspect.isfunction(value) and takes_arrays(value)}
    losses = {value for value in offered.values() if is_loss(value)}

    assert {"generalized_advantages", "vtrace", "double_q_targets"} <= functions
    assert set() == without_case(functions, CASES)
    assert set() == losses - {type(loss) for loss, *_ in loss_cases.LOSSES.values()}


def test_every_network_is_compared_and_checked_alive():
    covered = {kind for spec, _ in network_cases.NETWORKS.values() for kind in kinds_of(spec)}

    assert set(get_args(NetworkSpec)) == covered | {Native}
    assert {"torch_network", "keras_network"} <= vars(test_own_networks).keys()


def test_the_losses_of_every_algorithm_are_checked_alive():
    registry = load_registry()
    algorithms = {name: registry.algorithm(name).config.partition(".")[0] for name in registry.names(Kind.ALGORITHM)}

    assert "ppo" in algorithms
    assert set() == algorithms.keys() - loss_cases.LEARNERS.keys(), "give them learners in tests/parity/loss_cases.py"
    for package in set(algorithms.values()):
        offered = public_names_of(importlib.import_module(package)).values()
        losses = {value for value in offered if value.__module__.startswith(package) and is_loss(value)}
        names = [name for name, own in algorithms.items() if own == package]
        specs = [spec for name in names for spec, _ in loss_cases.LEARNERS[name].values()]
        parts = [part for spec in specs for part in (spec.loss, spec.prepare)]
        covered = {part if inspect.isfunction(part) else type(part) for part in parts}
        assert losses, f"{package} has no loss"
        assert set() == losses - covered, f"give {', '.join(names)} learners of it in tests/parity/loss_cases.py"


def test_what_has_no_case_is_found():
    class Wider(ArrayNamespace):
        def arctan(self, x): ...

        def _helper(self, x): ...

    class ArctanLoss:
        def __call__(self, xp, networks, batch, coefficients): ...

    def arctan(xp, x): ...

    assert {"arctan"} == without_case(functions_of(Wider), CASES)
    assert takes_arrays(arctan)
    assert not takes_arrays(without_case)
    assert is_loss(ArctanLoss)
    assert not is_loss(arctan)
    assert not is_loss(ArrayNamespace)
