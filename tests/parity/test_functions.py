"""Every function over `xp`: the values of NumPy and the same gradients, on every backend and in every mode."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from parity import distribution_cases, estimate_cases, namespace_cases
from parity.cases import draw_group
from parity.probes import Probes, check_group
from rheos.testing.components import installed_places

GROUPS = {**namespace_cases.GROUPS, **distribution_cases.GROUPS, **estimate_cases.GROUPS}
EAGER, ALL = installed_places(modes=("eager",)), installed_places()
COMPILED = {
    name: {case: group[case] for case in group if "," not in case}
    for name, group in {**namespace_cases.GROUPS, **estimate_cases.GROUPS}.items()
}
"""What every run of the tests compiles, each function in one way (a comma stands before another one): torch takes five
seconds for a group. Distributions are compiled there as parts of losses, and all by themselves in the slow tests."""


def check_drawn(group, sizes, places, *, examples):
    probes = Probes(group)

    # A message names the function that is off; to shrink the arrays of all others beside it would take minutes.
    @settings(max_examples=examples, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(sizes.flatmap(lambda size: draw_group(group, *size)))
    def holds(arrays):
        check_group(probes, arrays, places)

    holds()


@pytest.mark.parametrize("examples", [3, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", GROUPS)
def test_values_and_gradients_agree_for_arrays_of_any_size(name, examples):
    sizes = st.tuples(st.integers(1, 5), st.integers(1, 4))

    check_drawn(GROUPS[name], sizes, EAGER, examples=examples)


@pytest.mark.parametrize("name", COMPILED)
def test_values_and_gradients_agree_between_all_modes(name):
    check_drawn(COMPILED[name], st.just((5, 3)), ALL, examples=6)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(1, 1), (5, 3), (9, 2)])
@pytest.mark.parametrize("name", GROUPS)
def test_values_and_gradients_agree_between_all_modes_for_many_more_arrays(name, size):
    check_drawn(GROUPS[name], st.just(size), ALL, examples=200)
