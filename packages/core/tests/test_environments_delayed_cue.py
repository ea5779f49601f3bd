"""The delayed cue: what is shown when, what is rewarded, and that nobody guesses it."""

from __future__ import annotations

import numpy as np
import pytest

from rheos.configuration.settings import from_mapping
from rheos.environments.delayed_cue import make_environment
from rheos.environments.delayed_cue_config import DelayedCueConfig
from rheos.errors import ConfigError
from rheos.plugins import load_registry
from rheos.plugins.resolving import make_environment as make_named
from rheos.plugins.resolving import settings_class


def environments(num_envs=3, *, seed=0, worker="rollout-0", **settings):
    return make_environment(DelayedCueConfig(num_envs=num_envs, **settings)).make(seed, worker)


def cues_of(envs, episodes, *, count=0):
    """Play episodes; return their cues, `[episodes, B]`."""
    observations, cues = envs.reset(count), []
    for _ in range(episodes):
        cues.append(observations.argmax(axis=-1))
        step = None
        while step is None or not step.terminated.any():
            step = envs.step(np.zeros(envs.num_envs, np.int64))
        observations = step.observations
    return np.array(cues)


def test_the_cue_is_shown_first_then_nothing_then_that_an_answer_is_due():
    envs = environments(2, num_cues=3, delay=4)

    seen = [envs.reset(), *(envs.step(np.zeros(2, np.int64)).observations for _ in range(4))]

    assert [1.0, 1.0] == seen[0].sum(axis=-1).tolist()
    assert [0.0, 0.0] == seen[0][:, -1].tolist()
    assert [0.0] * 3 == [observation.sum() for observation in seen[1:4]]
    assert [[0.0, 0.0, 0.0, 1.0]] * 2 == seen[4].tolist()
    assert all(envs.spaces.observation.contains(row) for observation in seen for row in observation)


@pytest.mark.parametrize("delay", [1, 2, 5])
def test_the_last_action_alone_is_rewarded_where_it_names_the_cue(delay):
    envs = environments(4, delay=delay)
    cues = envs.reset().argmax(axis=-1)

    steps = [envs.step(cues) for _ in range(delay)]
    last = envs.step(np.array([cues[0], (cues[1] + 1) % 4, cues[2], (cues[3] + 3) % 4]))

    assert not any(step.rewards.any() or step.terminated.any() for step in steps)
    assert all(step.final_observations is None for step in steps)
    assert [1.0, 0.0, 1.0, 0.0] == last.rewards.tolist()
    assert last.terminated.all()
    assert not last.truncated.any()
    assert [[0.0] * 5] * 4 == last.final_observations.tolist()
    assert [1.0] * 4 == last.observations[:, :-1].sum(axis=-1).tolist()


def test_cues_are_uniform_and_independent():
    cues = cues_of(environments(4, delay=1), 500)

    counts = np.bincount(cues.ravel(), minlength=4)
    assert abs(counts - 500).max() < 4 * (2000 * 0.25 * 0.75) ** 0.5  # four deviations of a binomial count
    assert abs((cues[1:] == cues[:-1]).mean() - 0.25) < 4 * (0.25 * 0.75 / 1996) ** 0.5


def test_the_same_names_repeat_and_others_do_not_whatever_is_beside_them():
    first, again, other_seed, other_worker = (
        cues_of(environments(3, **settings), 20) for settings in ({}, {}, {"seed": 1}, {"worker": "rollout-1"})
    )

    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first[:, :2], cues_of(environments(2), 20))
    assert not np.array_equal(first, cues_of(environments(3), 20, count=1))
    assert not np.array_equal(first, other_seed)
    assert not np.array_equal(first, other_worker)
    assert not np.array_equal(first[:, 0], first[:, 1])


def test_it_is_chosen_by_name_and_its_settings_are_checked():
    registry = load_registry(warn=False)

    def config(**settings):
        return from_mapping(settings_class(registry.environment("delayed-cue")), settings, "env")

    made = make_named(config(num_cues=3, num_envs=5), registry).make(0, "rollout-0")

    assert (5, 3) == (made.num_envs, made.spaces.action.n)
    with pytest.raises(ConfigError, match=r"env\.delay: got 0"):
        config(delay=0)
    with pytest.raises(ConfigError, match=r"env\.kwargs: got \{'size': 1\}, expected none: its settings are num_cues"):
        make_named(config(kwargs={"size": 1}), registry)
