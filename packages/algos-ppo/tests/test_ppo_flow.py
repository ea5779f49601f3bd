"""The meaning of PPO's dataflow: on fakes that stamp every batch with the weights that made it."""

from __future__ import annotations

from itertools import islice

from rheos import run
from rheos.testing.fakes import counting_learner, spied, stamping_workers
from rheos_ppo.config import PPOConfig
from rheos_ppo.flow import ppo
from rheos_ppo.roles import PPORoles


def test_ppo_trains_only_on_rollouts_of_the_current_weights():
    workers, learner = stamping_workers(4), counting_learner()

    with run(ppo(PPORoles(workers, learner), PPOConfig(rollout_steps=8))) as flow:
        list(islice(flow, 5))

    assert [[0], [1], [2], [3], [4]] == [sorted(set(batch["version"].ravel())) for batch in spied(learner).seen]
