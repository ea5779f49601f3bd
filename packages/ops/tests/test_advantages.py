"""Advantages: golden and limit cases, and what must not leak from one episode into another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.arrays.numpy_namespace import numpy_xp as xp
from rheos.errors import ShapeError
from rheos_ops.advantages import generalized_advantages, standardize


def column(*values: float) -> np.ndarray:
    return xp.asarray(values)[:, None]


def advantages(*columns: np.ndarray, discount: float = 0.9, lambda_: float = 0.8) -> np.ndarray:
    return generalized_advantages(xp, *columns, discount=discount, lambda_=lambda_)


def fragment(steps: int, envs: int, seed: int) -> list[np.ndarray]:
    """Random rewards, values and next values, and episodes that end now and then."""
    generator = np.random.default_rng(seed)
    floats = generator.normal(size=(3, steps, envs)).astype(np.float32)
    terminated, truncated = generator.random((2, steps, envs)) < 0.2
    return [*floats, terminated, truncated]


def by_definition(rewards, values, next_values, terminated, truncated, discount, lambda_) -> np.ndarray:
    """Schulman et al. 2016, equation 16, as a sum over the rest of each episode, in float64."""
    rewards, values, next_values = (x.astype(np.float64) for x in (rewards, values, next_values))
    errors = rewards + discount * np.where(terminated, 0.0, next_values) - values
    result = np.zeros_like(errors)
    for t, b in np.ndindex(errors.shape):
        weight = 1.0
        for k in range(t, len(errors)):
            result[t, b] += weight * errors[k, b]
            if terminated[k, b] or truncated[k, b]:
                break
            weight *= discount * lambda_
    return result


shapes_and_seeds = st.tuples(st.integers(1, 33), st.integers(1, 4), st.integers(0, 2**32 - 1))
fractions = st.floats(0.0, 1.0, width=32)
# Up to 33 terms of size 3, each rounded at 6e-8 a few times.
ROUNDING = {"rtol": 1e-4, "atol": 1e-4}


@given(shapes_and_seeds, fractions, fractions)
def test_advantages_are_the_discounted_sum_of_td_errors_of_the_rest_of_the_episode(shape, discount, lambda_):
    columns = fragment(*shape)

    result = advantages(*columns, discount=discount, lambda_=lambda_)

    np.testing.assert_allclose(result, by_definition(*columns, discount, lambda_), **ROUNDING)
    assert result.dtype == np.float32


def test_three_steps_by_hand():
    # δ = 1 + 0.5·3 - 2 = 0.5;  2 + 0.5·1 - 3 = -0.5;  3 + 0.5·4 - 1 = 4;  γλ = 0.25
    result = advantages(
        column(1, 2, 3).astype(np.float32),
        column(2.0, 3.0, 1.0),
        column(3.0, 1.0, 4.0),
        column(False, False, False),
        column(False, False, False),
        discount=0.5,
        lambda_=0.5,
    )

    np.testing.assert_allclose(result, column(0.5 + 0.25 * 0.5, -0.5 + 0.25 * 4.0, 4.0), rtol=1e-6)


@given(shapes_and_seeds)
def test_lambda_zero_gives_the_td_errors(shape):
    rewards, values, next_values, terminated, truncated = fragment(*shape)

    result = advantages(rewards, values, next_values, terminated, truncated, lambda_=0.0)

    np.testing.assert_allclose(result, rewards + 0.9 * np.where(terminated, 0, next_values) - values, **ROUNDING)


def test_lambda_one_gives_the_discounted_return_minus_the_baseline():
    rewards, values = column(1.0, 1.0, 1.0), column(5.0, 6.0, 7.0)
    ends = column(False, False, True)

    result = advantages(rewards, values, column(6.0, 7.0, 8.0), ends, ~ends & ends, discount=0.5, lambda_=1.0)

    np.testing.assert_allclose(result, column(1.75 - 5.0, 1.5 - 6.0, 1.0 - 7.0), rtol=1e-6)


def test_where_an_episode_terminated_the_next_value_is_not_read_at_all():
    ends = column(True)

    result = advantages(column(1.0), column(0.25), column(np.nan), ends, ~ends)

    np.testing.assert_array_equal(column(0.75), result)


def value_of_reward_one_for_ever(end: str, *, steps: int, discount: float) -> float:
    """The one value that its own advantages leave as it is, in episodes of so many steps with reward 1."""
    rewards = np.ones((steps, 1), np.float32)
    is_last = column(*(t == steps - 1 for t in range(steps)))
    never = np.zeros_like(is_last)
    terminated, truncated = (is_last, never) if end == "terminated" else (never, is_last)
    value = np.float32(0.0)
    for _ in range(500):
        values = np.full((steps, 1), value)
        value += advantages(rewards, values, values, terminated, truncated, discount=discount, lambda_=1.0).mean()
    return float(value)


def test_reward_one_for_ever_is_worth_one_over_one_minus_discount_whatever_the_time_limit():
    """CASES.md 1 (cleanrl 198, SB3 651): truncation bootstraps, so v = 1 + 0.99 v."""
    assert value_of_reward_one_for_ever("truncated", steps=10, discount=0.99) == pytest.approx(100.0, rel=1e-4)


def test_reward_one_until_a_real_end_is_worth_what_is_left_of_the_episode():
    expected = np.mean([(1 - 0.99**left) / (1 - 0.99) for left in range(1, 11)])

    assert value_of_reward_one_for_ever("terminated", steps=10, discount=0.99) == pytest.approx(expected, rel=1e-4)


def test_two_truncated_episodes_in_one_fragment_bootstrap_each_for_itself():
    """CASES.md 3 (skrl 224): the first does not see the second, yet bootstraps from its own final value."""
    steps = 10
    columns = [part[: 2 * steps, :1] for part in fragment(2 * steps, 1, seed=0)]
    rewards, values, next_values, never = *columns[:3], np.zeros((2 * steps, 1), bool)
    truncated = column(*(t % steps == steps - 1 for t in range(2 * steps)))

    result = advantages(rewards, values, next_values, never, truncated)

    other_rewards = np.concatenate([rewards[:steps], rewards[steps:] + 1_000.0])
    with_another_second = advantages(other_rewards, values, next_values, never, truncated)
    np.testing.assert_array_equal(result[:steps], with_another_second[:steps])
    last = steps - 1
    np.testing.assert_allclose(result[last], rewards[last] + 0.9 * next_values[last] - values[last], rtol=1e-6)


@given(st.integers(1, 20), st.integers(1, 20), st.booleans(), st.integers(0, 2**32 - 1))
def test_two_episodes_in_one_trace_equal_the_two_apart(first, second, is_truncated, seed):
    rewards, values, next_values, terminated, truncated = fragment(first + second, 2, seed)
    (truncated if is_truncated else terminated)[first - 1] = True
    columns = (rewards, values, next_values, terminated, truncated)

    together = advantages(*columns)

    apart = [advantages(*(c[:first] for c in columns)), advantages(*(c[first:] for c in columns))]
    # The doubling joins the sums of a longer trace at other places.
    np.testing.assert_allclose(together, np.concatenate(apart), **ROUNDING)


def test_nothing_leaks_between_episodes_of_very_different_values():
    """The kind of CASES.md 4 (pytorch/rl 4209): V is 1 in the first episode, 100 in the second, no rewards, γ = 1."""
    values = column(1.0, 1.0, 1.0, 100.0, 100.0, 100.0)
    truncated = column(False, False, True, False, False, False)

    result = advantages(np.zeros_like(values), values, values, ~truncated & truncated, truncated, discount=1.0)

    np.testing.assert_array_equal(np.zeros_like(values), result)


def test_a_reward_on_the_last_step_of_a_fragment_is_kept_beside_the_bootstrap():
    """CASES.md 5 (ray PR 36013)."""
    never = column(False, False, False)

    result = advantages(column(0.0, 0.0, 1.0), column(0.0, 0.0, 0.0), column(0.0, 0.0, 2.0), never, never, lambda_=1.0)

    np.testing.assert_allclose(result, column(0.9**2 * 2.8, 0.9 * 2.8, 1.0 + 0.9 * 2.0), rtol=1e-6)


@given(shapes_and_seeds)
def test_environments_side_by_side_do_not_see_each_other(shape):
    columns = fragment(*shape)

    result = advantages(*columns)

    apart = [advantages(*(c[:, b : b + 1] for c in columns)) for b in range(shape[1])]
    np.testing.assert_array_equal(np.concatenate(apart, axis=1), result)


def test_arrays_of_another_shape_are_refused_by_name():
    ends = np.zeros((7, 3), bool)

    with pytest.raises(
        ShapeError,
        match=r"^`values` has shape \(3, 7\), `rewards` has \(7, 3\): "
        r"generalized_advantages takes time-major arrays \[T, B\] of one shape.$",
    ):
        advantages(xp.zeros((7, 3)), xp.zeros((3, 7)), xp.zeros((7, 3)), ends, ends)


@pytest.mark.parametrize("name", ["discount", "lambda_"])
@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_fractions_outside_zero_to_one_are_refused_by_name(name, value):
    with pytest.raises(ValueError, match=rf"^{name}: got {value}, expected a number in \[0, 1\].$"):
        advantages(*fragment(2, 1, seed=0), **{name: value})


@given(st.integers(2, 100), st.floats(-100, 100), st.floats(0.1, 100))
def test_standardized_numbers_have_mean_zero_and_deviation_one(count, shift, scale):
    x = (np.random.default_rng(0).normal(size=count) * scale + shift).astype(np.float32)

    result = standardize(xp, x)

    # A shift of 1,000 deviations costs three of float32's seven digits.
    assert result.mean() == pytest.approx(0.0, abs=1e-2)
    assert result.std() == pytest.approx(1.0, abs=1e-2)


@pytest.mark.parametrize("values", [[7.0], [7.0, 7.0, 7.0]])
def test_one_element_and_equal_ones_standardize_to_zero(values):
    np.testing.assert_array_equal(np.zeros(len(values)), standardize(xp, xp.asarray(values)))
