"""Where environments have a score beside what is learned from, a worker reports that."""

from __future__ import annotations

import numpy as np
import pytest

from rheos.batches import Episode
from rheos.environments.environment import Score, VectorStep
from rheos.testing.environments import CountingEnv, FunctionEnvironment


class InLives(FunctionEnvironment):
    """One environment; for the learner rewards are a tenth, and an episode ends with every second step, too."""

    def make(self, seed, worker):
        return Lives(super().make(seed, worker))


class Lives:
    def __init__(self, environments):
        self._environments = environments
        self.num_envs, self.spaces = environments.num_envs, environments.spaces
        self._steps = 0

    def reset(self, count=0):
        self._steps = 0
        return self._environments.reset(count)

    def step(self, actions):
        step = self._environments.step(actions)
        self._steps += 1
        over = step.terminated | step.truncated
        lost = ~over & (self._steps % 2 == 0)
        final = step.observations.copy() if lost.any() else step.final_observations
        return VectorStep(
            step.observations,
            step.rewards / 10,
            step.terminated | lost,
            step.truncated,
            step.is_transition,
            final,
            Score(step.rewards, over),
        )

    def close(self):
        self._environments.close()


@pytest.fixture
def worker(worker_in):
    return worker_in(InLives(lambda: CountingEnv(7), 1), steps=5)


def test_returns_and_lengths_are_of_the_score_across_fragments(worker):
    batches = [worker.rollout() for _ in range(6)]

    assert [Episode(7.0, 7)] * 4 == [episode for batch in batches for episode in batch.info.episodes]
    assert [5] * 6 == [batch.info.env_steps for batch in batches]


def test_what_is_learned_from_has_other_rewards_and_more_ends(worker):
    batch = worker.rollout()

    np.testing.assert_allclose(batch["rewards"][:, 0], 0.1, rtol=1e-6)
    assert [False, True, False, True, False] == batch["terminated"][:, 0].tolist()
    assert [1, 0, 3, 0, 5] == batch["next_values"][:, 0].tolist()


def test_a_score_of_an_episode_that_is_cut_is_told_nowhere(worker):
    worker.rollout()
    worker.begin_anew()

    batches = [worker.rollout() for _ in range(2)]

    assert [Episode(7.0, 7)] == [episode for batch in batches for episode in batch.info.episodes]
