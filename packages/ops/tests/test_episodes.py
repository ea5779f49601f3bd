"""Episodes are counted once, with the rewards of all fragments that they run through."""

from __future__ import annotations

import numpy as np

from rheos.batches import Episode
from rheos_ops.episodes import EpisodeCounter


def counted(counter, rewards, ended):
    """Count a fragment in which every step is a transition."""
    rewards, ended = np.array(rewards), np.array(ended, np.bool_)
    return counter.count(rewards, ended, np.ones_like(ended))


def test_an_episode_that_runs_through_three_fragments_is_told_when_it_ends():
    counter = EpisodeCounter(1)

    told = [counted(counter, [[1.0], [2.0]], ended) for ended in ([[0], [0]], [[0], [0]], [[1], [0]], [[1], [0]])]

    assert [(), (), (Episode(7.0, 5),), (Episode(3.0, 2),)] == told


def test_episodes_come_in_order_of_step_then_environment():
    rewards = [[1, 10, 100], [1, 10, 100], [1, 10, 100], [1, 10, 100]]
    ended = [[0, 0, 1], [1, 0, 0], [0, 0, 0], [1, 1, 1]]

    told = counted(EpisodeCounter(3), rewards, ended)

    assert (Episode(100, 1), Episode(2, 2), Episode(2, 2), Episode(40, 4), Episode(300, 3)) == told


def test_an_episode_of_a_single_step_at_each_step_is_an_episode():
    assert (Episode(1.0, 1),) * 6 == counted(EpisodeCounter(2), np.ones((3, 2)), np.ones((3, 2)))


def test_the_step_of_a_reset_belongs_to_no_episode():
    counter = EpisodeCounter(1)
    rewards, ended, is_transition = (np.array(x)[:, None] for x in ([1, 1, 0, 1], [0, 1, 0, 1], [1, 1, 0, 1]))

    told = counter.count(rewards, ended.astype(bool), is_transition.astype(bool))

    assert (Episode(2.0, 2), Episode(1.0, 1)) == told


def test_returns_do_not_lose_digits_to_the_episodes_before():
    rewards = np.full((4, 1), 1e17)
    rewards[2:] = 0.25

    assert (Episode(2e17, 2), Episode(0.5, 2)) == counted(EpisodeCounter(1), rewards, [[0], [1], [0], [1]])


def test_any_cut_into_fragments_gives_the_same_episodes():
    generator = np.random.default_rng(0)
    rewards, ended = generator.normal(size=(60, 5)), generator.random((60, 5)) < 0.15
    whole = counted(EpisodeCounter(5), rewards, ended)

    for size in (1, 2, 7, 59):
        counter = EpisodeCounter(5)
        cut = [counted(counter, rewards[t : t + size], ended[t : t + size]) for t in range(0, 60, size)]

        assert [episode.length for episode in whole] == [e.length for part in cut for e in part]
        np.testing.assert_allclose(  # the order of additions differs
            [episode.episode_return for episode in whole], [e.episode_return for part in cut for e in part], atol=1e-12
        )
