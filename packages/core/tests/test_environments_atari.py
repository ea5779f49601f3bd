"""Atari games are prepared as DeepMind did; clipped rewards and lives are learned from, games and points reported."""

from __future__ import annotations

import sys
from dataclasses import replace

import gymnasium
import numpy as np
import pytest

from rheos.configuration.run_config import RunConfig
from rheos.environments.atari import make_environment
from rheos.environments.atari_config import AtariConfig
from rheos.errors import ConfigError, PluginError, UnknownName
from rheos.plugins import load_registry
from rheos.runs.evaluation import evaluate, frames_per_second
from rheos.runs.training import train
from rheos.testing.toy import toy_registry

ale_py = pytest.importorskip("ale_py")
roms = pytest.importorskip("ale_py.roms")


def games(game="breakout", num_envs=2, *, seed=0, **settings):
    return make_environment(AtariConfig(game=game, num_envs=num_envs, **settings)).make(seed, "rollout-0")


def steps(environments, count, *, count_of_resets=0):
    """Play at random, the same actions each time; give copies of the observations before and the step."""
    observations = environments.reset(count_of_resets)
    generator = np.random.default_rng(0)
    for _ in range(count):
        actions = generator.integers(environments.spaces.action.n, size=environments.num_envs)
        step = environments.step(actions)
        yield observations, actions, step
        observations = step.observations


# what is observed


@pytest.mark.parametrize("frames", [1, 4])
def test_an_observation_is_the_newest_frames_the_oldest_first(frames):
    environments = games(frame_stack=frames, episodic_life=False)

    assert gymnasium.spaces.Box(0, 255, (frames, 84, 84), np.uint8) == environments.spaces.observation
    for before, _, step in steps(environments, 30):
        assert ((2, frames, 84, 84), np.uint8) == (step.observations.shape, step.observations.dtype)
        goes_on = ~step.score.ended
        np.testing.assert_array_equal(before[goes_on, 1:], step.observations[goes_on, :-1])


def scaled(screen):
    """Scale a gray screen to 84 by 84: each pixel is the mean over the area that it covers."""
    rows, columns = (overlaps(size) for size in screen.shape)
    return rows @ screen @ columns.T


def overlaps(size):
    edges = np.arange(85) * size / 84
    starts, ends = np.maximum(edges[:-1, None], np.arange(size)), np.minimum(edges[1:, None], np.arange(size) + 1)
    return np.maximum(ends - starts, 0) * 84 / size


def test_a_frame_is_the_largest_of_the_last_two_of_four_in_gray_and_scaled():
    """Within one gray: here the means are rounded from float64."""
    emulator = ale_py.ALEInterface()
    emulator.setFloat("repeat_action_probability", 0.0)
    emulator.loadROM(roms.get_rom_path("breakout"))
    emulator.reset_game()
    emulator.act(ale_py.Action.FIRE)
    legal = emulator.getMinimalActionSet()
    environments = games(num_envs=1, sticky_actions=0.0, noop_max=0, episodic_life=False)

    for _, actions, step in steps(environments, 60):
        screens = []
        for _ in range(4):
            emulator.act(legal[actions[0]])
            screens.append(emulator.getScreenGrayscale().astype(np.float64))
        expected = scaled(np.maximum(screens[-1], screens[-2]))
        np.testing.assert_allclose(expected, step.observations[0, -1], atol=1.0)


def outcome(environments, count=150):
    return [
        (step.score.rewards.tolist(), step.observations[:, -1].sum(axis=(1, 2)))
        for *_, step in steps(environments, count)
    ]


def same(one, other):
    return all(r == s and (o == p).all() for (r, o), (s, p) in zip(one, other, strict=True))


def test_sticky_actions_make_the_same_actions_end_otherwise_with_another_seed():
    settings = {"noop_max": 0, "num_envs": 1}

    assert same(
        outcome(games(seed=1, sticky_actions=0.0, **settings)), outcome(games(seed=2, sticky_actions=0.0, **settings))
    )
    assert not same(outcome(games(seed=1, **settings)), outcome(games(seed=2, **settings)))
    assert not same(outcome(games(seed=1, **settings)), outcome(games(seed=1, sticky_actions=0.0, **settings)))


def test_games_begin_after_different_numbers_of_frames():
    first = games(num_envs=8, sticky_actions=0.0).reset()[:, -1]

    assert len({frame.tobytes() for frame in first}) > 1
    assert 1 == len({frame.tobytes() for frame in games(num_envs=8, noop_max=0, sticky_actions=0.0).reset()[:, -1]})


def test_an_action_is_held_for_the_frames_of_frame_skip():
    environments = games("pong", num_envs=1, frame_skip=2, noop_max=0, sticky_actions=0.0, kwargs={"maxpool": False})
    twice = games("pong", num_envs=1, frame_skip=4, noop_max=0, sticky_actions=0.0, kwargs={"maxpool": False})
    environments.reset(), twice.reset()

    for _ in range(20):
        environments.step(np.array([2]))
        np.testing.assert_array_equal(
            twice.step(np.array([2])).observations[:, -1], environments.step(np.array([2])).observations[:, -1]
        )


def test_a_game_is_the_same_whichever_others_are_beside_it_and_another_one_after_every_reset():
    def first_game(**settings):
        return [step.observations[0].copy() for *_, step in steps(games(sticky_actions=0.0), 40, **settings)]

    alone = games(num_envs=1, sticky_actions=0.0)
    alone.reset()
    generator = np.random.default_rng(0)
    beside = [alone.step(generator.integers(4, size=2)[:1]).observations[0].copy() for _ in range(40)]

    np.testing.assert_array_equal(first_game(), beside)
    assert not np.array_equal(first_game(), first_game(count_of_resets=1))


# what is learned from, and what is reported


def test_the_sign_of_a_reward_is_learned_from_and_its_points_are_reported():
    points = []
    for *_, step in steps(games("ms_pacman"), 150):
        np.testing.assert_array_equal(np.sign(step.score.rewards), step.rewards)
        assert np.float32 == step.rewards.dtype
        points.extend(step.score.rewards)

    assert {0.0, 10.0} <= set(points)


def test_without_clipping_the_points_are_learned_from():
    for *_, step in steps(games("ms_pacman", reward_clipping=False), 60):
        np.testing.assert_array_equal(step.score.rewards, step.rewards)


def told(environments, count=500):
    """Return in which steps the first environment ended, for the learner and for the report, and what was seen last."""
    ends, whole = [], []
    for number, (_, _, step) in enumerate(steps(environments, count)):
        ended = step.terminated | step.truncated
        if ended.any():
            assert ended.sum() == len(step.final_observations)
            lost = ended & ~step.score.ended
            np.testing.assert_array_equal(step.observations[lost], step.final_observations[lost[ended]])
        else:
            assert step.final_observations is None
        ends += [number] if ended[0] else []
        whole += [number] if step.score.ended[0] else []
    return ends, whole


def test_a_lost_life_ends_an_episode_for_the_learner_and_the_last_one_ends_the_game():
    ends, whole = told(games())
    unchanged = told(games(episodic_life=False))

    assert (whole, whole) == unchanged  # the same games are played
    assert 2 <= len(whole)
    assert 5 * len(whole) <= len(ends) <= 5 * len(whole) + 4  # Breakout has five lives
    assert set(whole) < set(ends)
    assert ends[4] == whole[0]


def test_a_game_without_lives_ends_as_a_whole_only():
    ends, whole = told(games("pong", num_envs=1), 1500)

    assert 1 <= len(whole)
    assert whole == ends


def test_a_game_that_takes_too_long_is_truncated():
    environments = games(num_envs=1, kwargs={"max_num_frames_per_episode": 40})

    cut = [step.truncated[0] for *_, step in steps(environments, 20)]

    assert [9, 19] == np.flatnonzero(cut).tolist()


def test_an_evaluation_plays_whole_games_for_points_and_its_film_is_in_colour(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env = {"name": "atari", "game": "ms_pacman", "num_envs": 1}
    result = train("toy", env=env, backend="toy", stop={"env_steps": 100}, seed=1, registry=toy_registry())
    run_dir, frames = result.run_dir, []

    played = evaluate(run_dir, episodes=2, registry=toy_registry())
    filmed = evaluate(run_dir, episodes=2, film=frames.append, film_episodes=1, registry=toy_registry())

    assert "toy-ale-mspacman" == run_dir.parent.name
    assert played == filmed
    assert played.episode_lengths[0] + 1 == len(frames)
    assert {((210, 160, 3), np.dtype(np.uint8))} == {(frame.shape, frame.dtype) for frame in frames}
    assert any((frame[..., 0] != frame[..., 2]).any() for frame in frames)
    assert 15.0 == frames_per_second(run_dir, registry=toy_registry())
    assert all(points % 10 == 0 and points >= 60 for points in played.episode_returns)


# settings


def test_both_names_of_a_game_are_taken():
    for game in ("ms_pacman", "MsPacman"):
        config = AtariConfig(game=game)
        assert "ALE/MsPacman-v5" == config.id
        assert 9 == make_environment(config).spaces().action.n


def test_settings_come_back_as_they_were_saved():
    registry = load_registry(warn=False)
    settings = RunConfig.from_mapping({"algo": {"name": "ppo"}, "env": {"name": "atari", "game": "seaquest"}}, registry)

    again = RunConfig.from_mapping(settings.to_mapping(), registry)

    assert settings == again
    assert 3 == replace(again.env, num_envs=3).num_envs


@pytest.mark.parametrize(
    ("game", "hint"),
    [
        ("pnog", "Did you mean 'pong'\\? "),
        ("Ms Pacman", "Did you mean 'ms_pacman'\\? "),
        ("chess99", ""),
        ("warlords", ""),
    ],
)
def test_a_game_that_there_is_not_is_refused_with_what_is_near(game, hint):
    with pytest.raises(UnknownName, match=rf"^env\.game: ale-py has no game {game!r}\. {hint}It has \d+, such as \w+,"):
        make_environment(AtariConfig(game=game))


def test_what_to_install_is_said_where_ale_py_is_missing(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "ale_py"]:
        monkeypatch.setitem(sys.modules, name, None)

    with pytest.raises(PluginError, match=r'^env=atari needs ale-py, .*: pip install "rheos-core\[atari\]"$'):
        make_environment(AtariConfig())


def test_another_id_than_that_of_the_game_is_refused():
    with pytest.raises(ConfigError, match=r"^env\.id: got 'CartPole-v1', but env\.game=pong is 'ALE/Pong-v5'"):
        AtariConfig(id="CartPole-v1")


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        (
            {"frameskip": 2, "episodic_life": True},
            "got episodic_life, frameskip, which other settings of env=atari decide",
        ),
        ({"colour": True}, "do not fit ale-py's AtariVectorEnv: .*unexpected keyword argument 'colour'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(kwargs, text):
    with pytest.raises(ConfigError, match=rf"^env\.kwargs: .*{text}"):
        make_environment(AtariConfig(kwargs=kwargs)).spaces()


def test_more_arguments_of_ale_py_are_taken():
    assert 18 == make_environment(AtariConfig(kwargs={"full_action_space": True})).spaces().action.n
