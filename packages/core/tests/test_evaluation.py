"""Evaluations are fair to long episodes, repeat, and say what they measured."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from rheos.errors import ConfigError, EnvironmentFailed, RunFolderError
from rheos.runs.evaluation import evaluate
from rheos.runs.evaluation_result import EvaluationResult
from rheos.runs.training import train
from rheos.testing.toy import toy_registry


class Varied(gymnasium.Env):
    """Episodes of 1 to 9 steps by seed, each with a return of 2 a step."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._left = int(self.np_random.integers(1, 10))
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._left -= 1
        return np.zeros(1, np.float32), 2.0, self._left == 0, False, {}


class Endless(Varied):
    """Episodes that never end."""

    def step(self, action):
        return np.zeros(1, np.float32), 1.0, False, False, {}


@pytest.fixture
def run_dir(tmp_path, request):
    """A trained toy in Varied, or in the environment that is asked for."""
    env = getattr(request, "param", Varied)
    gymnasium.register("Varied-v0", env)
    yield train(
        "toy",
        env="Varied-v0",
        backend="toy",
        run_dir=tmp_path / "run",
        stop={"env_steps": 100},
        registry=toy_registry(),
    ).run_dir
    del gymnasium.registry["Varied-v0"]


def play(run_dir, **arguments):
    return evaluate(run_dir, registry=toy_registry(), **arguments)


def test_means_are_over_the_episodes_that_were_asked_for():
    result = EvaluationResult(
        run_dir="run", env_steps=100, seed=0, episode_returns=(1.0, 3.0, 8.0), episode_lengths=(1, 2, 6)
    )

    assert (4.0, 1.0, 8.0, 3.0) == (
        result.episode_return_mean,
        result.episode_return_min,
        result.episode_return_max,
        result.episode_length_mean,
    )
    assert pytest.approx((26 / 3) ** 0.5) == result.episode_return_std


def test_returns_and_lengths_are_those_of_the_environment(run_dir):
    result = play(run_dir, episodes=40)

    assert 40 == len(result.episode_returns) == result.episodes
    assert [2.0 * length for length in result.episode_lengths] == list(result.episode_returns)


def test_long_episodes_count_as_much_as_short_ones(run_dir):
    result = play(run_dir, episodes=900)

    # lengths are uniform on 1..9, of mean 5 and standard deviation 2.58: four of its errors at 900 episodes
    assert abs(result.episode_length_mean - 5.0) < 4 * 2.58 / 30


def test_an_evaluation_repeats_and_another_seed_plays_other_episodes(run_dir):
    first, again, other = (play(run_dir, episodes=30, seed=seed) for seed in (1, 1, 2))

    assert first == again
    assert first.episode_lengths != other.episode_lengths


@pytest.mark.parametrize("few", [1, 5, 16, 17])
def test_the_first_episodes_of_many_are_those_of_few(run_dir, few):
    many = play(run_dir, episodes=40)

    assert many.episode_lengths[:few] == play(run_dir, episodes=few).episode_lengths


def test_environments_with_a_vector_entry_point_are_evaluated_one_by_one(tmp_path):
    run = train(
        "toy", env="CartPole-v1", backend="toy", run_dir=tmp_path, stop={"env_steps": 100}, registry=toy_registry()
    )

    many, few = play(run.run_dir, episodes=10), play(run.run_dir, episodes=3)

    assert many.episode_returns[:3] == few.episode_returns
    assert len(set(many.episode_returns)) > 1


@pytest.mark.parametrize("run_dir", [Endless], indirect=True)
def test_an_episode_that_does_not_end_is_cut_off_and_counted(run_dir):
    result = play(run_dir, episodes=2, max_episode_steps=50)

    assert ((50.0, 50.0), (50, 50), 2) == (result.episode_returns, result.episode_lengths, result.cut)


class Spoilt(Varied):
    """Gives a number that is none, in its second step."""

    observation_space = gymnasium.spaces.Dict(
        speed=gymnasium.spaces.Box(-1, 1, (2,)), gear=gymnasium.spaces.Discrete(3)
    )
    bad: Any = None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return {"speed": np.zeros(2, np.float32), "gear": 0}, {}

    def step(self, action):
        self._steps += 1
        good = {"speed": np.zeros(2, np.float32), "gear": 0}
        return Spoilt.bad if self._steps == 2 else good, 1.0, False, False, {}


@pytest.mark.parametrize("run_dir", [Spoilt], indirect=True)
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            {"speed": np.array([0.0, np.nan], np.float32), "gear": 0},
            r"^evaluation-0, environment 0, step 2: observation\['speed'\] is nan at \[1\], expected a finite number",
        ),
        (
            {"speed": np.array([5.0, 0.0], np.float32), "gear": 0},
            r"^evaluation-0, environment 0, step 2: observation\['speed'\] is 5.0 at \[0\], expected a number from -1",
        ),
        (
            {"speed": np.zeros(2, np.float32), "gear": 7},
            r"^evaluation-0, environment 0, step 2: observation\['gear'\] is 7",
        ),
    ],
)
def test_an_observation_that_should_not_be_is_named_by_environment_step_and_field(run_dir, monkeypatch, bad, message):
    monkeypatch.setattr(Spoilt, "bad", bad)

    with pytest.raises(EnvironmentFailed, match=message) as caught:
        play(run_dir)

    assert "\n" not in str(caught.value)


def test_a_result_is_json(run_dir):
    data = play(run_dir, episodes=3).to_json()

    assert (3, 100, 0) == (data["episodes"], data["env_steps"], data["seed"])
    assert 3 == len(data["episode_returns"])
    assert np.mean(data["episode_returns"]) == data["episode_return_mean"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"episodes": 0}, "episodes: got 0, expected an integer >= 1"),
        ({"episodes": "many"}, "episodes: got 'many'"),
        ({"seed": -1}, "seed: got -1, expected an integer >= 0"),
        ({"max_episode_steps": None}, "max_episode_steps: got None"),
    ],
)
def test_impossible_numbers_are_refused(tmp_path, arguments, message):
    with pytest.raises(ConfigError, match=message):
        evaluate(tmp_path, **arguments)


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(RunFolderError, match=r"is no run"):
        play(tmp_path)
