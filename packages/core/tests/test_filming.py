"""Films of episodes: every frame of them and no other, of the episodes that are evaluated anyway."""

from __future__ import annotations

from typing import ClassVar

import gymnasium
import numpy as np
import pytest

from rheos.environments.native import AutoresetMode
from rheos.errors import ConfigError, EnvironmentFailed, UsageError
from rheos.runs.evaluation import evaluate, frames_per_second
from rheos.runs.training import train
from rheos.testing.environments import CountingVectorEnv
from rheos.testing.toy import toy_registry


class Drawn(gymnasium.Env):
    """Episodes of 1 to 9 steps by seed; a frame has the number of the step as its first pixel, and the seed's dice."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 50}
    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode
        self._canvas = np.zeros((2, 4, 3), np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._canvas[0, 0, 0] = 0
        self._canvas[0, 0, 1] = self._length = int(self.np_random.integers(1, 10))
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._canvas[0, 0, 0] += 1
        return np.zeros(1, np.float32), 2.0, bool(self._canvas[0, 0, 0] == self._length), False, {}

    def render(self):
        return self._canvas  # the same array each time


class Unseen(Drawn):
    """Cannot be drawn, and does not know of it."""

    metadata: ClassVar = {}

    def __init__(self):
        super().__init__()


class Human(Drawn):
    """Knows another way to be drawn."""

    metadata: ClassVar = {"render_modes": ["ansi"]}

    def __init__(self, render_mode=None):
        super().__init__("ansi")


class Blind(Drawn):
    """Fails to be drawn."""

    def render(self):
        raise gymnasium.error.DependencyNotInstalled("pygame is not installed")


class Grey(Drawn):
    """Is drawn in one colour."""

    def render(self):
        return self._canvas[..., 0]


class Nothing(Drawn):
    """Is drawn as nothing; says no speed."""

    metadata: ClassVar = {"render_modes": ["rgb_array"]}

    def render(self):
        return None


@pytest.fixture
def run_dir(tmp_path, request):
    """A trained toy in Drawn, or in the environment that is asked for."""
    gymnasium.register("Drawn-v0", getattr(request, "param", Drawn))
    yield train(
        "toy",
        env="Drawn-v0",
        backend="toy",
        run_dir=tmp_path / "run",
        stop={"env_steps": 100},
        registry=toy_registry(),
    ).run_dir
    del gymnasium.registry["Drawn-v0"]


def play(run_dir, **arguments):
    return evaluate(run_dir, registry=toy_registry(), **arguments)


@pytest.mark.parametrize("filmed", [1, 3, 18])
def test_a_film_has_a_frame_after_the_reset_and_one_after_each_step_of_the_first_episodes(run_dir, filmed):
    frames = []

    result = play(run_dir, episodes=20, film=frames.append, film_episodes=filmed)

    lengths = result.episode_lengths[:filmed]
    assert [(step, length) for length in lengths for step in range(length + 1)] == [
        (frame[0, 0, 0], frame[0, 0, 1]) for frame in frames
    ]
    assert {((2, 4, 3), np.dtype(np.uint8))} == {(frame.shape, frame.dtype) for frame in frames}


@pytest.mark.parametrize("filmed", [1, 5, 17, 99])
def test_filmed_episodes_are_those_that_are_played_without_a_film(run_dir, filmed):
    filmed_result = play(run_dir, episodes=20, film=lambda frame: None, film_episodes=filmed)

    assert play(run_dir, episodes=20) == filmed_result


def test_a_filmed_episode_that_does_not_end_is_cut_off(run_dir, monkeypatch):
    monkeypatch.setattr(Drawn, "step", lambda env, action: (np.zeros(1, np.float32), 1.0, False, False, {}))
    frames = []

    result = play(run_dir, episodes=1, film=frames.append, max_episode_steps=5)

    assert (6, 1) == (len(frames), result.cut)


def test_the_speed_of_a_film_is_the_environments_and_30_where_it_does_not_say(run_dir, monkeypatch):
    assert 50.0 == frames_per_second(run_dir, registry=toy_registry())

    monkeypatch.setattr(Drawn, "metadata", {"render_modes": ["rgb_array"]})

    assert 30.0 == frames_per_second(run_dir, registry=toy_registry())


@pytest.mark.parametrize(
    ("run_dir", "message"),
    [
        (Unseen, r"^'Drawn-v0' cannot be filmed: env\.kwargs: .*render_mode"),
        (Human, r"^'Drawn-v0' cannot be filmed: it has no render_mode 'rgb_array'; its modes: ansi\.$"),
        (Blind, r"^'Drawn-v0' cannot be filmed: DependencyNotInstalled: pygame is not installed"),
        (Grey, r"^'Drawn-v0' cannot be filmed: render\(\) gave uint8 \(2, 4\), expected uint8 \(H, W, 3\)\.$"),
        (Nothing, r"^'Drawn-v0' cannot be filmed: render\(\) gave NoneType, expected uint8 \(H, W, 3\)\.$"),
    ],
    indirect=["run_dir"],
)
def test_an_environment_that_cannot_be_drawn_is_refused_in_one_line(run_dir, message):
    with pytest.raises(UsageError, match=message) as caught:
        play(run_dir, film=lambda frame: None)

    assert "\n" not in str(caught.value)
    assert 20 == play(run_dir).episodes


def test_environments_that_are_there_only_as_many_at_once_are_refused(tmp_path):
    def many(num_envs, render_mode=None):
        return CountingVectorEnv([3] * num_envs, AutoresetMode.SAME_STEP)

    gymnasium.register("Many-v0", vector_entry_point=many)
    try:
        run = train(
            "toy", env="Many-v0", backend="toy", run_dir=tmp_path, stop={"env_steps": 1}, registry=toy_registry()
        )

        with pytest.raises(UsageError, match=r"^'Many-v0' cannot be filmed: its environments are there only as many"):
            play(run.run_dir, film=lambda frame: None)
        assert (3.0,) * 20 == play(run.run_dir).episode_returns
    finally:
        del gymnasium.registry["Many-v0"]


def test_what_the_film_raises_is_raised_and_is_no_failure_of_the_environment(run_dir):
    def film(frame):
        raise OSError("disk full")

    with pytest.raises(OSError, match=r"^disk full$"):
        play(run_dir, film=film)


def test_an_environment_that_fails_while_it_is_filmed_has_failed(run_dir, monkeypatch):
    monkeypatch.setattr(Drawn, "step", lambda env, action: 1 / 0)

    with pytest.raises(EnvironmentFailed, match=r"^evaluation-0, environment 0, step 1: ZeroDivisionError"):
        play(run_dir, film=lambda frame: None)


def test_no_episodes_cannot_be_filmed(run_dir):
    with pytest.raises(ConfigError, match=r"^film_episodes: got 0, expected an integer >= 1$"):
        play(run_dir, film=lambda frame: None, film_episodes=0)
