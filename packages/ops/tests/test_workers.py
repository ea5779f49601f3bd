"""RolloutWorker: what a fragment says about what happened, in scripted environments with known answers.

In most of them the observation is the number of steps of the episode, and the policy values it as that number: so the
value of what an action led to is always one more, whatever ended, and however the environments reset themselves.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from gymnasium import spaces

from rheos.arrays.numpy_namespace import numpy_xp
from rheos.batches import Episode
from rheos.configuration.run_config import BackendConfig, EnvironmentConfig
from rheos.environments.gym import make_environment
from rheos.environments.native import AutoresetMode
from rheos.errors import EnvironmentFailed, RheosError, ShapeError
from rheos.networks.specs import MLP, Parameter
from rheos.policies import PolicySpec
from rheos.reports import Weights
from rheos.runs.context import RunContext
from rheos.testing.environments import CountingEnv, CountingVectorEnv, FailingEnv, FunctionEnvironment
from rheos_ops.advantages import generalized_advantages
from rheos_ops.workers import RolloutWorker

LIMITS = (2, 3, 7)


def value_count(xp, networks, inputs):
    """Act at random; the value of an observation is the observation plus the learned `bias`."""
    observations = inputs["observations"]
    return {
        "actions": xp.astype(inputs["noise"] < 0.5, xp.int32),
        "values": observations[:, 0] + networks["bias"](observations),
    }


def value_bias(xp, networks, inputs):
    """Act at random; the value of every observation is the learned `bias`."""
    outputs = value_count(xp, networks, inputs)
    return {**outputs, "values": outputs["values"] - inputs["observations"][:, 0]}


def uniform_noise(generator, num):
    return generator.random(num, np.float32)


def weights(bias=0.0, version=0):
    return Weights(version, {"bias/value": np.float32(bias).reshape(())})


def valuing(explore=value_count, networks=None, draw_noise=uniform_noise):
    return PolicySpec({"bias": Parameter(())} if networks is None else networks, explore, explore, draw_noise)


def worker_in(environment, *, steps=5, seed=0, index=0, policy=None, loaded=True):
    context = RunContext(None, environment, BackendConfig(), num_workers=1, seed=seed)
    worker = RolloutWorker(context, policy or valuing(), index=index, rollout_steps=steps)
    if loaded:
        worker.load(weights())
    return worker


def worker_of(make_env, num_envs=1, **settings):
    return worker_in(FunctionEnvironment(make_env, num_envs), **settings)


def in_turn(*envs):
    """Give the environments one after the other, for an Environment that makes as many."""
    return iter(envs).__next__


EVERY_KIND = {
    "next step": partial(CountingVectorEnv, LIMITS, AutoresetMode.NEXT_STEP),
    "same step": partial(CountingVectorEnv, LIMITS, AutoresetMode.SAME_STEP),
    "disabled": partial(CountingVectorEnv, LIMITS, AutoresetMode.DISABLED),
    "one by one": None,
}


@pytest.fixture(params=EVERY_KIND)
def worker_of_kind(request):
    """Make a worker with environments of the LIMITS, for each way to reset themselves."""

    def make(terminates=False, **settings):
        if EVERY_KIND[request.param] is not None:
            return worker_of(partial(EVERY_KIND[request.param], terminates=terminates), **settings)
        envs = [CountingEnv(99, terminal_step=n) if terminates else CountingEnv(n) for n in LIMITS]
        return worker_of(in_turn(*envs), 3, **settings)

    return make


def column(batch, name):
    """A column of a worker with a single environment, as a list."""
    return batch[name][:, 0].tolist()


def test_the_step_in_which_an_environment_resets_itself_is_no_transition():
    worker = worker_of(partial(CountingVectorEnv, [2], AutoresetMode.NEXT_STEP), steps=4)

    batch = worker.rollout()

    assert [0, 1, 2, 0] == batch["observations"][:, 0, 0].tolist()
    assert [1, 1, 0, 1] == column(batch, "rewards")
    assert [False, True, False, False] == column(batch, "truncated")
    assert [True, True, False, True] == column(batch, "is_transition")
    assert (3, (Episode(2.0, 2),)) == (batch.info.env_steps, batch.info.episodes)


def test_a_truncated_episode_bootstraps_from_its_last_observation_and_not_from_the_first_of_the_next():
    worker = worker_of(partial(CountingVectorEnv, [2], AutoresetMode.SAME_STEP), steps=4)

    batch = worker.rollout()

    assert [0, 1, 0, 1] == batch["observations"][:, 0, 0].tolist()
    assert [1, 2, 1, 2] == column(batch, "next_values")
    assert (4, (Episode(2.0, 2),) * 2) == (batch.info.env_steps, batch.info.episodes)


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 21])
def test_the_next_value_is_that_of_what_the_action_led_to_in_every_mode_and_at_every_cut(worker_of_kind, steps):
    worker = worker_of_kind(steps=steps)

    for batch in [worker.rollout() for _ in range(8)]:
        real = batch["is_transition"]
        np.testing.assert_array_equal(batch["observations"][..., 0][real] + 1, batch["next_values"][real])


def test_nothing_follows_after_a_terminal_state(worker_of_kind):
    worker = worker_of_kind(terminates=True, steps=21)

    batch = worker.rollout()

    assert batch["terminated"].any()
    assert not batch["truncated"].any()
    assert [0.0] == np.unique(batch["next_values"][batch["terminated"]]).tolist()


def test_an_episode_that_terminates_at_its_time_limit_has_terminated():
    batch = worker_of(partial(CountingEnv, 2, terminal_step=2), steps=2).rollout()

    assert [1, 0] == column(batch, "next_values")


def test_every_way_to_reset_tells_the_same_episodes(worker_of_kind):
    worker = worker_of_kind(steps=6)

    episodes = [episode for _ in range(14) for episode in worker.rollout().info.episodes]

    assert set(LIMITS) == {episode.length for episode in episodes}
    assert all(episode.length == episode.episode_return for episode in episodes)


def test_rewards_for_ever_under_a_time_limit_are_worth_a_hundred_at_discount_099():
    """Case 1: with V fitted to its own targets, truncation must give 1 / (1 - 0.99), not the 10 rewards until it."""
    bias = 0.0
    worker = worker_of(lambda: CountingEnv(10), 2, steps=40, policy=valuing(value_bias))

    for _ in range(200):
        worker.load(weights(bias))
        batch = worker.rollout()
        names = ("rewards", "values", "next_values", "terminated", "truncated")
        bias += generalized_advantages(numpy_xp, *(batch[n] for n in names), discount=0.99, lambda_=0.95).mean()

    np.testing.assert_allclose(bias, 100.0, atol=0.1)


def test_discrete_actions_reach_the_environment_from_start_on():
    env = CountingEnv(action_space=spaces.Discrete(3, start=5))
    actions = np.tile(np.arange(3, dtype=np.int32), 4)

    def each_in_turn(xp, networks, inputs):
        return {"actions": xp.astype(inputs["noise"], xp.int32)}

    worker = worker_of(
        lambda: env, steps=12, policy=valuing(each_in_turn, draw_noise=lambda _, num: actions[:num].astype(np.float32))
    )

    batch = worker.rollout()

    assert [5, 6, 7] * 4 == env.actions
    assert [0, 1, 2] * 4 == column(batch, "actions")
    assert np.int32 == batch["actions"].dtype


def test_a_box_gets_the_clipped_action_and_the_batch_keeps_the_sampled_one():
    env = CountingEnv(action_space=spaces.Box(0, 10, (1,)))

    def as_drawn(xp, networks, inputs):
        return {"actions": inputs["noise"]}

    drawn = np.array([[-2], [-1], [0.5], [3]], np.float32)
    worker = worker_of(lambda: env, steps=4, policy=valuing(as_drawn, draw_noise=lambda _, num: drawn))

    batch = worker.rollout()

    assert [0.0, 0.0, 7.5, 10.0] == [action.item() for action in env.actions]
    np.testing.assert_array_equal(drawn, batch["actions"][:, 0])


def test_discrete_observations_are_one_hot_from_start():
    class Corridor(CountingEnv):
        def __init__(self):
            super().__init__(time_limit=3)
            self.observation_space = spaces.Discrete(4, start=5)

        def _observation(self):
            return 5 + self._count

    np.testing.assert_array_equal(np.eye(4)[[0, 1, 2, 0]], worker_of(Corridor, steps=4).rollout()["observations"][:, 0])


@pytest.mark.parametrize("dtype", [np.float64, np.uint8, np.int64])
@pytest.mark.parametrize("reward", [1, np.int64(1), np.float64(1.0)])
def test_every_number_is_cast_once_at_the_boundary(dtype, reward):
    env = CountingEnv(3, reward=reward, observation_space=spaces.Box(0, 99, (1, 2), dtype))

    batch = worker_of(lambda: env, steps=4).rollout()

    assert np.float32 == batch["observations"].dtype == batch["rewards"].dtype == batch["next_values"].dtype
    assert [[0, 0], [1, 1], [2, 2], [0, 0]] == batch["observations"][:, 0].tolist()
    assert [1, 1, 1, 1] == column(batch, "rewards")
    assert (Episode(3.0, 3),) == batch.info.episodes


def test_an_environment_that_gives_float32_where_its_space_says_float64_is_taken():
    class Careless(CountingEnv):
        def _observation(self):
            return np.array([self._count], np.float32)

    env = Careless(observation_space=spaces.Box(0, 9, (1,), np.float64))

    assert [0, 1, 2] == worker_of(lambda: env, steps=3).rollout()["observations"][:, 0, 0].tolist()


@pytest.mark.parametrize("vectorization", ["vector_entry_point", "sync"])
def test_four_workers_see_different_environments_and_the_same_again_in_the_next_run(vectorization):
    environment = make_environment(EnvironmentConfig(num_envs=4, vectorization=vectorization))

    def starts():
        workers = [worker_in(environment, index=index, steps=1) for index in range(4)]
        return np.concatenate([worker.rollout()["observations"][0] for worker in workers])

    first, again = starts(), starts()

    assert 16 == len(np.unique(first, axis=0))
    np.testing.assert_array_equal(first, again)


def test_a_rollout_repeats_with_the_seed_and_the_workers_name():
    environment = make_environment(EnvironmentConfig(num_envs=2))

    def second_fragment(**settings):
        worker = worker_in(environment, steps=60, **settings)
        worker.rollout()
        return worker.rollout()

    first, again, other_seed, other_worker = (
        second_fragment(**settings) for settings in ({}, {}, {"seed": 1}, {"index": 1})
    )

    assert all(np.array_equal(first[name], again[name]) for name in first.columns)
    assert not np.array_equal(first["actions"], other_seed["actions"])
    assert not np.array_equal(first["actions"], other_worker["actions"])


def same(first, second):
    """Whether two batches say the same, the numbers as the accounts."""
    return first.info == second.info and all(np.array_equal(first[name], second[name]) for name in first.columns)


@pytest.mark.parametrize("vectorization", ["vector_entry_point", "sync"])
def test_a_resumed_worker_repeats_in_another_process_and_in_the_same(vectorization):
    environment = make_environment(EnvironmentConfig(num_envs=2, vectorization=vectorization))
    worker = worker_in(environment, steps=60)
    first = worker.rollout()
    state = worker.state_dict()

    def resumed(worker):
        worker.load_state_dict(state)
        return [worker.rollout(), worker.rollout()]

    here, there = resumed(worker), resumed(worker_in(environment, steps=60))

    assert [True, True] == [same(*both) for both in zip(here, there, strict=True)]
    assert not np.array_equal(first["observations"][0], here[0]["observations"][0])


def test_each_time_that_a_run_is_resumed_it_begins_other_episodes():
    environment = make_environment(EnvironmentConfig(num_envs=2))
    starts = []

    state = worker_in(environment).state_dict()
    for _ in range(3):
        worker = worker_in(environment)
        worker.load_state_dict(state)
        starts.append(worker.rollout()["observations"][0])
        state = worker.state_dict()

    assert 6 == len(np.unique(np.concatenate(starts), axis=0))


def test_a_state_from_before_the_first_rollout_changes_nothing():
    environment = make_environment(EnvironmentConfig(num_envs=2))
    resumed = worker_in(environment)

    resumed.load_state_dict(worker_in(environment).state_dict())

    assert same(worker_in(environment).rollout(), resumed.rollout())


def test_the_episodes_that_were_running_are_dropped_when_a_state_is_loaded(worker_of_kind):
    worker = worker_of_kind(steps=1)
    worker.rollout()

    worker.load_state_dict(worker.state_dict())
    batches = [worker.rollout() for _ in range(2)]

    assert [0] * 3 == batches[0]["observations"][0, :, 0].tolist()
    assert [(), (Episode(2.0, 2),)] == [batch.info.episodes for batch in batches]


def test_a_state_names_the_weights_that_go_with_it_and_a_batch_those_that_acted():
    worker = worker_of(CountingEnv)
    worker.load(weights(version=12))
    state = worker.state_dict()
    fresh, other = worker_of(CountingEnv, loaded=False), worker_of(CountingEnv)
    other.load(weights(version=3))

    fresh.load_state_dict(state)
    other.load_state_dict(state)

    assert 12 == state["version"] == fresh.state_dict()["version"]
    assert 3 == other.rollout().info.version_max
    with pytest.raises(RheosError, match=r"before load\(weights\)"):
        fresh.rollout()


def test_fragments_follow_upon_each_other(worker_of_kind):
    cut, whole = worker_of_kind(steps=4), worker_of_kind(steps=12)

    parts = [cut.rollout() for _ in range(3)]

    together = whole.rollout()
    for name in ("observations", "rewards", "truncated", "is_transition", "next_values"):
        np.testing.assert_array_equal(np.concatenate([part[name] for part in parts]), together[name])


def test_a_fragment_is_handed_over_and_never_written_again():
    worker = worker_of(lambda: CountingEnv(3), 2, steps=4)
    first = worker.rollout()
    before = {name: array.copy() for name, array in first.columns.items()}
    for array in first.columns.values():
        array.flags.writeable = False

    second = worker.rollout()

    assert all(np.array_equal(before[name], first[name]) for name in before)
    assert not any(np.shares_memory(first[name], second[name]) for name in before)


def test_a_batch_says_who_acted_with_which_weights_and_how_long():
    worker = worker_of(lambda: CountingEnv(3), 2, steps=4, index=7)
    worker.load(weights(bias=5.0, version=12))

    batch = worker.rollout()

    assert ("rollout-7",) == batch.info.sources
    assert (12, 12.0, 12) == (batch.info.version_min, batch.info.version_mean, batch.info.version_max)
    assert (8, 8) == (batch.info.env_steps, batch.info.agent_steps)
    assert [5, 6, 7, 5] == column(batch, "values")
    assert [6, 7, 8, 6] == column(batch, "next_values")
    assert 1 == batch.axis


def test_everything_that_the_policy_gives_is_a_column_and_without_values_there_are_no_next_values():
    def explore(xp, networks, inputs):
        return {"actions": xp.astype(inputs["noise"], xp.int32), "q_values": xp.zeros((2, 3))}

    batch = worker_of(CountingEnv, 2, steps=4, policy=valuing(explore)).rollout()

    own = {"observations", "rewards", "terminated", "truncated", "is_transition"}
    assert own | {"actions", "q_values"} == set(batch.columns)
    assert (4, 2, 3) == batch["q_values"].shape


def test_a_rollout_before_weights_is_refused():
    with pytest.raises(RheosError, match=r"^rollout-0: rollout\(\) before load\(weights\)"):
        worker_of(CountingEnv, loaded=False).rollout()


def test_weights_that_do_not_fit_are_refused_by_name():
    with pytest.raises(ShapeError, match="bias/value"):
        worker_of(CountingEnv).load(Weights(1, {}))


def test_what_an_environment_raises_names_the_worker_environment_and_step():
    envs = [CountingEnv(), FailingEnv(ZeroDivisionError("division by zero"), at_step=5)]

    with pytest.raises(EnvironmentFailed, match=r"^rollout-3, environment 1, step 5: ZeroDivisionError: division by"):
        worker_of(in_turn(*envs), 2, steps=8, index=3).rollout()


def test_closing_a_worker_closes_its_environments():
    envs = [CountingEnv(), CountingEnv()]
    worker = worker_of(in_turn(*envs), 2)

    worker.close()

    assert [True, True] == [env.is_closed for env in envs]


def test_a_network_that_is_too_large_for_numpy_acts_through_the_backend(monkeypatch):
    calls = []

    class Backend:
        def build(self, specs, arrays):
            calls.append("build")
            return dict(arrays)

        def load(self, networks, arrays):
            calls.append("load")
            networks.update(arrays)

        def infer(self, function, networks):
            native = {"bias": lambda _: networks["bias/value"]}
            return lambda inputs: function(numpy_xp, native, inputs)

    def make_backend(config, device):
        calls.append((config.name, device))
        return Backend()

    monkeypatch.setattr("rheos.plugins.make_backend", make_backend)
    large = {"bias": Parameter(()), "large": MLP(2048, 2048, (2048,))}
    worker = worker_of(CountingEnv, steps=2, policy=valuing(networks=large), loaded=False)

    worker.load(weights(1.0, version=1))
    first = worker.rollout()
    worker.load(weights(3.0, version=2))
    second = worker.rollout()

    assert [("torch", "cpu"), "build", "load"] == calls
    assert ([1, 2], [5, 6]) == (column(first, "values"), column(second, "values"))


def test_a_hundred_thousand_short_episodes_leave_nothing_behind():
    worker = worker_of(partial(CountingVectorEnv, [1] * 500, AutoresetMode.SAME_STEP), steps=50)

    counted = sum(len(worker.rollout().info.episodes) for _ in range(4))

    assert 100_000 == counted
    assert {(500,)} == {array.shape for array in vars(worker._episodes).values()}


def test_gymnasium_environments_of_both_kinds_fill_every_column_with_finite_numbers():
    for env_id in ("CartPole-v1", "Acrobot-v1"):
        environment = make_environment(EnvironmentConfig(id=env_id, num_envs=2))
        worker = worker_in(environment, steps=50)

        batch = worker.rollout()
        worker.close()

        assert all(np.isfinite(array).all() for array in batch.columns.values())
