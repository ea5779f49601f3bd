"""Environments that are registered with Gymnasium: chosen, made, seeded, and refused in one line."""

from __future__ import annotations

import copy
import sys
import types
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rheos.configuration.run_config import EnvironmentConfig
from rheos.environments.gym import make_environment
from rheos.environments.native import NativeEnvironments
from rheos.environments.serial import SerialEnvironments
from rheos.errors import ConfigError, EnvironmentFailed, PluginError, UnknownName, UsageError
from rheos.testing.environments import CountingEnv


def describe(**settings):
    return make_environment(EnvironmentConfig(**{"num_envs": 3, **settings}))


@pytest.fixture
def register():
    """Register environments for the time of a test."""
    registered = []

    def register_one(env_id, **settings):
        gym.register(env_id, **settings)
        registered.append(env_id)

    yield register_one
    for env_id in registered:
        del gym.registry[env_id]


def random_actions(environments, seed=0):
    batch = gym.vector.utils.batch_space(environments.spaces.action, environments.num_envs)
    batch.seed(seed)
    return [batch.sample() for _ in range(60)]


def history(environments):
    """Everything that 60 random steps give, as one list of arrays."""
    try:
        seen = [np.array(environments.reset())]
        for actions in random_actions(environments):
            step = environments.step(actions)
            final = [] if step.final_observations is None else [step.final_observations]
            seen += [np.array(step.observations), step.rewards, step.terminated, step.truncated, *final]
        return seen
    finally:
        environments.close()


@pytest.mark.parametrize(
    ("env_id", "vectorization", "kind"),
    [
        ("CartPole-v1", "auto", NativeEnvironments),
        ("CartPole-v1", "vector_entry_point", NativeEnvironments),
        ("CartPole-v1", "sync", SerialEnvironments),
        ("Pendulum-v1", "auto", SerialEnvironments),
        ("Pendulum-v1", "sync", SerialEnvironments),
    ],
)
def test_auto_takes_a_vector_entry_point_where_there_is_one(env_id, vectorization, kind):
    environments = describe(id=env_id, vectorization=vectorization).make(0, "rollout-0")

    assert isinstance(environments, kind)
    assert 3 == environments.num_envs
    environments.close()


def test_auto_steps_one_by_one_where_wrappers_rule_the_vector_entry_point_out(register):
    cart_pole = gym.registry["CartPole-v1"]
    wrapper = gym.envs.registration.WrapperSpec("Clip", "gymnasium.wrappers:TransformReward", {"func": abs})
    register(
        "WrappedCartPole-v0",
        entry_point=cart_pole.entry_point,
        vector_entry_point=cart_pole.vector_entry_point,
        additional_wrappers=(wrapper,),
    )

    environments = describe(id="WrappedCartPole-v0").make(0, "rollout-0")

    assert isinstance(environments, SerialEnvironments)
    environments.close()


@pytest.mark.parametrize("vectorization", ["auto", "sync", "async"])
def test_the_same_seed_and_name_repeat_every_step_and_another_name_does_not(vectorization):
    environment = describe(vectorization=vectorization)

    first, again, other, other_run = (
        history(environment.make(seed, name)) for seed, name in [(0, "a"), (0, "a"), (0, "b"), (1, "a")]
    )

    assert all(np.array_equal(x, y) for x, y in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])
    assert not np.array_equal(first[0], other_run[0])


@pytest.mark.parametrize("vectorization", ["auto", "sync", "async"])
def test_no_two_environments_of_four_workers_start_alike(vectorization):
    environment = describe(vectorization=vectorization)
    workers = [environment.make(0, f"rollout-{index}") for index in range(4)]

    starts = np.concatenate([worker.reset() for worker in workers])

    assert 12 == len({row.tobytes() for row in starts})
    for worker in workers:
        worker.close()


@pytest.mark.skipif(not hasattr(gym.vector, "AutoresetMode"), reason="Gymnasium 1.0 resets in the next step")
def test_sync_and_async_give_the_same_numbers():
    one_by_one, apart = (history(describe(vectorization=v).make(0, "rollout-0")) for v in ("sync", "async"))

    assert len(one_by_one) == len(apart)
    assert all(np.array_equal(x, y) for x, y in zip(one_by_one, apart, strict=True))


def test_the_spaces_are_those_of_a_single_environment_and_remembered():
    environment = describe(id="Pendulum-v1", vectorization="async")

    first = environment.spaces()

    assert (3,) == first.observation.shape
    assert spaces.Box(-2.0, 2.0, (1,), np.float32) == first.action
    assert first is environment.spaces()


def test_settings_reach_the_constructor_of_the_environment():
    environments = describe(id="Pendulum-v1", kwargs={"g": 1.5, "max_episode_steps": 2}).make(0, "rollout-0")
    environments.reset()

    ends = [environments.step(np.zeros((3, 1), np.float32)).truncated.tolist() for _ in range(2)]

    assert [[False] * 3, [True] * 3] == ends
    environments.close()


def test_a_description_travels():
    environment = describe()

    travelled = copy.deepcopy(environment)

    assert environment.config == travelled.config
    assert environment.spaces() == travelled.spaces()


def test_making_environments_is_quiet(register):
    class Noisy(CountingEnv):
        def __init__(self):
            super().__init__()
            warnings.warn("pkg_resources is deprecated as an API", DeprecationWarning, stacklevel=1)

        def _observation(self):
            return np.array([self._count], np.float64)  # Gymnasium's checker would warn: its space says float32

    register("Noisy-v0", entry_point=Noisy)

    with warnings.catch_warnings(record=True, action="always") as caught:
        environments = describe(id="Noisy-v0").make(0, "rollout-0")
        environments.reset()

    assert [] == caught
    environments.close()


@pytest.mark.parametrize(
    ("env_id", "hint"),
    [
        ("CartPol-v1", "Did you mean 'CartPole-v1'?"),
        ("CartPole", "Did you mean 'CartPole-v1'?"),
        ("CartPole-v9", "Did you mean 'CartPole-v1'?"),
        ("Pendulum-v0", "Did you mean 'Pendulum-v1'?"),
        ("cartpole-v1", "Did you mean 'CartPole-v1'?"),
    ],
)
def test_an_unknown_id_is_refused_with_what_is_near(env_id, hint):
    with pytest.raises(UnknownName, match=f"^No environment '{env_id}' is registered with Gymnasium. ") as caught:
        describe(id=env_id)

    assert hint in str(caught.value)


def test_an_id_that_is_like_nothing_gets_the_nearest_and_how_to_name_a_module():
    with pytest.raises(UnknownName, match=r"The nearest are (\S+), (\S+), .* env\.id=module:name-v0") as caught:
        describe(id="NoSuchThingAtAll-v0")

    listed = str(caught.value).split("The nearest are ")[1].split(". ")[0].split(", ")
    assert all(name in gym.registry for name in listed)


def test_an_id_may_name_the_module_that_registers_it(register, monkeypatch):
    module = types.ModuleType("my_environments")
    monkeypatch.setitem(sys.modules, "my_environments", module)
    register("Mine-v0", entry_point=lambda: CountingEnv(time_limit=3))

    environments = describe(id="my_environments:Mine-v0").make(0, "rollout-0")

    np.testing.assert_array_equal(np.zeros((3, 1)), environments.reset())
    environments.close()


def test_a_module_that_is_missing_is_told_apart_from_one_that_is_broken(tmp_path, monkeypatch):
    (tmp_path / "broken_environments.py").write_text("import no_such_package_here\n")
    (tmp_path / "failing_environments.py").write_text("raise RuntimeError('no licence')\n")
    (tmp_path / "exiting_environments.py").write_text("raise SystemExit('no licence')\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(UnknownName, match=r"^env\.id: no module 'missing_environments' to import"):
        describe(id="missing_environments:Mine-v0")
    with pytest.raises(PluginError, match=r"importing 'broken_environments' .* No module named 'no_such_package_here'"):
        describe(id="broken_environments:Mine-v0")
    with pytest.raises(PluginError, match=r"importing 'failing_environments' .* RuntimeError: no licence"):
        describe(id="failing_environments:Mine-v0")
    with pytest.raises(PluginError, match=r"importing 'exiting_environments' .* SystemExit: no licence"):
        describe(id="exiting_environments:Mine-v0")


def test_a_vector_entry_point_that_is_not_there_is_refused_before_anything_is_made():
    with pytest.raises(ConfigError, match=r"^env\.vectorization: got 'vector_entry_point', which 'Pendulum-v1'"):
        describe(id="Pendulum-v1", vectorization="vector_entry_point")


def test_an_environment_with_a_vector_entry_point_only_cannot_be_stepped_one_by_one(register):
    register("VectorOnly-v0", vector_entry_point="gymnasium.envs.classic_control.cartpole:CartPoleVectorEnv")

    with pytest.raises(ConfigError, match=r"^env\.vectorization: got 'sync', but 'VectorOnly-v0' has a vector entry"):
        describe(id="VectorOnly-v0", vectorization="sync")


def test_settings_that_the_environment_does_not_take_are_named():
    with pytest.raises(ConfigError, match=r"^env\.kwargs: \{'gravity': 3\} do not fit 'Pendulum-v1': .*'gravity'"):
        describe(id="Pendulum-v1", kwargs={"gravity": 3}).make(0, "rollout-0")


def test_a_missing_dependency_of_an_environment_is_told_with_the_command_that_mends_it(register):
    def needs_a_package():
        raise gym.error.DependencyNotInstalled('box is missing, run `pip install "gymnasium[box2d]"`')

    register("Needy-v0", entry_point=needs_a_package)

    with pytest.raises(UsageError, match=r"^env\.id: 'Needy-v0' cannot be made: box is missing, run `pip install"):
        describe(id="Needy-v0").spaces()


@pytest.mark.parametrize(
    ("error", "cause"), [(OSError("no display"), "OSError: no display"), (SystemExit(0), "SystemExit: 0")]
)
def test_an_environment_that_cannot_be_made_names_the_cause_and_closes_those_made_before(register, error, cause):
    made = []

    def make_two_only():
        if len(made) == 2:
            raise error
        made.append(CountingEnv())
        return made[-1]

    register("TwoOnly-v0", entry_point=make_two_only)

    with pytest.raises(EnvironmentFailed, match=f"^rollout-0: 'TwoOnly-v0' cannot be made: {cause}$"):
        describe(id="TwoOnly-v0").make(0, "rollout-0")
    assert [True, True] == [env.is_closed for env in made]


def test_the_extra_that_brings_atari_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)

    with pytest.raises(UnknownName, match=r'no module .ale_py. .*: pip install "rheos-core\[atari\]"$'):
        make_environment(EnvironmentConfig(id="ale_py:ALE/Pong-v5"))
