"""PPO that is killed and resumed is, bit for bit, PPO that never was."""

from __future__ import annotations

import csv
import json
import os
import signal
from pathlib import Path

import pytest
import yaml
from killed_runs import resume_and_kill, train_and_kill

import rheos
import rheos_ops.workers
import rheos_ppo.flow
from rheos import Route, Stream
from rheos.errors import RheosWarning
from rheos.plugins.loading import load_plugins
from rheos.plugins.sources import plugin_sources
from rheos_cli.main import main
from rheos_ops.roles import Learner, Worker
from rheos_ops.sources import newest_weights, rollouts
from rheos_ops.stages import discounted_returns, estimate_advantages, every_steps, rebatch, report

EVERYTHING = {
    "name": "ppo",
    "rollout_steps": 32,
    "minibatch_size": 64,
    "num_epochs": 4,  # with more, episodes soon outlast the steps between two checkpoints
    "hidden_sizes": [16],
    "normalize_observations": True,
    "normalize_rewards": True,
    "target_kl": 0.02,
    "final_learning_rate": 0.0,
    "final_clip_range": 0.05,
    "final_entropy_coef": 0.0,
}
SETTINGS = {
    "algo": EVERYTHING,
    "env": {"id": "CartPole-v1", "num_envs": 4},
    "executor": {"name": "inline", "workers": 2},
    "stop": {"env_steps": 2_600},
    "checkpoint": {"every_steps": 600},
    "eval": {"every_steps": 800, "episodes": 1},
    "logger": {"every_steps": 700},
    "seed": 3,
}

no_episode_may_end = pytest.mark.filterwarnings("ignore:no episode ended between two checkpoints")
"""For environments with episodes that are longer than what passes here between two checkpoints."""


@pytest.fixture(scope="module")
def without_pictures():
    """Return what is installed but for rheos-cli, which draws a picture at the end of each run."""
    return load_plugins([source for source in plugin_sources() if source.origin.package != "rheos-cli"])


@pytest.fixture
def quickly(without_pictures, monkeypatch):
    """Make runs draw no pictures."""
    for module in ("training", "resuming"):
        monkeypatch.setattr(f"rheos.runs.{module}.load_registry", lambda: without_pictures)


def trained(run_dir, *, observers=(), **changes):
    settings = {**SETTINGS, **changes}
    return rheos.train(settings.pop("algo"), run_dir=run_dir, observers=observers, **settings)


class Failing:
    """Raises when a row of at least so many env steps is written."""

    def __init__(self, at):
        self._at = at

    @rheos.hookimpl
    def rheos_report(self, row):
        if row["env_steps"] >= self._at:
            raise ZeroDivisionError


def cut(run_dir, *, at, **changes):
    with pytest.raises(ZeroDivisionError):
        trained(run_dir, observers=[Failing(at)], **changes)


def rows_of(run_dir, *besides):
    with (run_dir / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    untold = {"wall_s", "env_steps_per_s", *besides}
    return [{name: cell for name, cell in row.items() if name not in untold} for row in rows]


def state_of(run_dir):
    return json.loads((run_dir / "status.json").read_text())["state"]


def tensorboard_steps(run_dir):
    """Return the steps of a scalar as TensorBoard shows them: without what a later file says is void."""
    from tensorboardX.proto.event_pb2 import Event, SessionLog

    shown: list[int] = []
    for path in sorted((run_dir / "tb").iterdir(), key=lambda path: (path.stat().st_mtime_ns, path.name)):
        data = path.read_bytes()
        while data:
            length = int.from_bytes(data[:8], "little")
            event = Event.FromString(data[12 : 12 + length])
            data = data[16 + length :]
            if event.session_log.status == SessionLog.START:
                shown = [step for step in shown if step < event.step]
            shown += [event.step for value in event.summary.value if value.tag == "train/loss"]
    return shown


def test_a_run_that_was_killed_ends_with_the_same_weights_and_measurements(tmp_path):
    uncut = trained(tmp_path / "uncut")
    train_and_kill(tmp_path / "cut", SETTINGS, at=1_100)
    assert "running" == state_of(tmp_path / "cut")

    result = rheos.resume(tmp_path / "cut")

    assert uncut.weights_sha256 == result.weights_sha256
    assert rows_of(tmp_path / "uncut") == rows_of(tmp_path / "cut")
    assert "done" == state_of(tmp_path / "cut")
    assert tensorboard_steps(tmp_path / "uncut") == tensorboard_steps(tmp_path / "cut")


@pytest.mark.slow
@no_episode_may_end
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("vectorization", ["auto", "sync", "async"])
def test_a_run_that_was_killed_at_any_time_ends_with_the_same_weights(tmp_path, seed, env, vectorization):
    settings = {"env": {"id": env, "num_envs": 3, "vectorization": vectorization}, "seed": seed}
    uncut = trained(tmp_path / "uncut", **settings)
    train_and_kill(tmp_path / "cut", {**SETTINGS, **settings}, at=900 + 200 * seed)
    resume_and_kill(tmp_path / "cut", at=1_700 + 200 * seed)

    result = rheos.resume(tmp_path / "cut")

    assert uncut.weights_sha256 == result.weights_sha256
    assert rows_of(tmp_path / "uncut") == rows_of(tmp_path / "cut")


@no_episode_may_end
@pytest.mark.parametrize("env", ["Pendulum-v1", "Acrobot-v1"])
@pytest.mark.usefixtures("quickly")
def test_other_environments_go_on_alike(tmp_path, env):
    settings = {"env": {"id": env, "num_envs": 2, "vectorization": "sync"}, "stop": {"env_steps": 1_500}}
    uncut = trained(tmp_path / "uncut", **settings)
    cut(tmp_path / "cut", at=1_100, **settings)

    result = rheos.resume(tmp_path / "cut")

    assert uncut.weights_sha256 == result.weights_sha256
    assert rows_of(tmp_path / "uncut") == rows_of(tmp_path / "cut")


@pytest.mark.usefixtures("quickly")
def test_a_run_in_threads_goes_on_alike(tmp_path):
    settings = {"executor": {"name": "threads", "workers": 2}, "stop": {"env_steps": 1_500}}
    uncut = trained(tmp_path / "uncut", **settings)
    cut(tmp_path / "cut", at=1_100, **settings)

    result = rheos.resume(tmp_path / "cut")

    assert uncut.weights_sha256 == result.weights_sha256
    assert rows_of(tmp_path / "uncut") == rows_of(tmp_path / "cut")


@pytest.mark.usefixtures("quickly")
def test_a_run_goes_on_alike_on_another_executor(tmp_path):
    uncut = trained(tmp_path / "uncut", stop={"env_steps": 1_500})
    cut(tmp_path / "cut", at=1_100, stop={"env_steps": 1_500})

    result = rheos.resume(tmp_path / "cut", executor={"name": "threads"})

    assert uncut.weights_sha256 == result.weights_sha256


def asynchronous_ppo(roles, cfg) -> Stream[rheos.Report]:
    """Keep fragments, half batches and updates in flight, and weights of several ages at the workers."""
    newest = newest_weights(roles.learner)
    return (
        rollouts(roles.workers, newest)
        .map(discounted_returns(discount=cfg.discount))
        .map(estimate_advantages(discount=cfg.discount, lambda_=cfg.gae_lambda, rewards="normalized_rewards"))
        .gather_async(in_flight=2)
        .flat_map(rebatch(min_steps=300))
        .ask(roles.learner, Learner.update, in_flight=2)
        .tell(roles.workers, Worker.load, message=every_steps(200, newest), route=Route.SOURCE)
        .map(report)
    )


@pytest.mark.usefixtures("quickly")
def test_what_is_in_flight_goes_on_alike(tmp_path, monkeypatch):
    monkeypatch.setattr(rheos_ppo.flow, "ppo", asynchronous_ppo)
    uncut = trained(tmp_path / "uncut")
    cut(tmp_path / "cut", at=1_700)

    result = rheos.resume(tmp_path / "cut")

    assert uncut.weights_sha256 == result.weights_sha256
    assert rows_of(tmp_path / "uncut") == rows_of(tmp_path / "cut")
    assert max(float(row["lag_max"]) for row in rows_of(tmp_path / "uncut") if row["lag_max"]) >= 1


@pytest.mark.usefixtures("quickly")
def test_environments_that_are_not_reset_are_not_disturbed_by_checkpoints(tmp_path):
    without = {"every_steps": None}
    undisturbed = {"every_steps": 500, "reset_environments": False}

    never, often, reset = (
        trained(tmp_path / name, checkpoint=checkpoint, stop={"env_steps": 2_000})
        for name, checkpoint in (("never", without), ("often", undisturbed), ("reset", {"every_steps": 500}))
    )

    assert never.weights_sha256 == often.weights_sha256
    assert never.weights_sha256 != reset.weights_sha256


PENDULUM = {"env": {"id": "Pendulum-v1", "num_envs": 2}, "eval": None, "stop": {"env_steps": 1_600}}
"""Every episode has 200 steps, so with two workers the first ones end at 800 env steps."""


@pytest.mark.usefixtures("quickly")
def test_checkpoints_between_which_no_episode_ends_are_warned_of_once(tmp_path):
    with pytest.warns(RheosWarning) as caught:
        result = trained(tmp_path / "run", checkpoint={"every_steps": 300}, **PENDULUM)

    text = (
        "no episode ended between two checkpoints, at each of which the environments begin new ones, so there may "
        "never be a return: raise checkpoint.every_steps=300, or set checkpoint.reset_environments=false."
    )
    assert [text] == [str(warning.message) for warning in caught]
    assert (0, None) == (result.episodes, result.episode_return_mean)


@pytest.mark.usefixtures("quickly")
@pytest.mark.parametrize("checkpoint", [{"every_steps": 900}, {"every_steps": 300, "reset_environments": False}])
def test_episodes_end_where_checkpoints_leave_them_the_time(tmp_path, checkpoint):
    result = trained(tmp_path / "run", checkpoint=checkpoint, **PENDULUM)

    assert result.episodes >= 4


@pytest.mark.usefixtures("quickly")
def test_a_run_that_lost_a_worker_goes_on_at_its_next_checkpoints_and_can_be_resumed(tmp_path, monkeypatch):
    worker = rheos_ops.workers.RolloutWorker
    make, rollout, made = worker.__init__, worker.rollout, []

    def make_once(self, *arguments, **settings):
        make(self, *arguments, **settings)
        made.append(self.name)
        if made.count("rollout-1") == 2:
            raise RuntimeError("cannot be made anew")

    def fail(self):
        if self.name == "rollout-1":
            raise RuntimeError("out of order")
        return rollout(self)

    policy = {"on_failure": "restart", "max_restarts": 1, "backoff_s": 0.0, "min_healthy": 1}
    settings = {"executor": {"name": "inline", "workers": 2, **policy}, "eval": None}
    monkeypatch.setattr(worker, "__init__", make_once)
    monkeypatch.setattr(worker, "rollout", fail)
    with pytest.warns(RheosWarning) as caught:
        first = trained(tmp_path / "run", stop={"env_steps": 1_300}, **settings)
    saved = len(list((tmp_path / "run" / "checkpoints").iterdir()))
    monkeypatch.setattr(worker, "__init__", make)
    monkeypatch.setattr(worker, "rollout", rollout)

    result = rheos.resume(tmp_path / "run", stop={"env_steps": 2_000})

    assert "done" == first.state
    assert [True, True] == ["rollout-1" in str(warning.message) for warning in caught]
    assert saved >= 2
    assert result.env_steps >= 2_000


@pytest.mark.usefixtures("quickly")
def test_a_run_whose_environments_are_not_reset_goes_on_with_new_episodes(tmp_path):
    settings = {"checkpoint": {"every_steps": 500, "reset_environments": False}, "stop": {"env_steps": 1_000}}
    trained(tmp_path / "run", **settings)

    result = rheos.resume(tmp_path / "run", stop={"env_steps": 2_000})

    assert result.env_steps >= 2_000


@pytest.mark.usefixtures("quickly")
def test_case_27_saved_and_loaded_five_times_counters_go_on_and_no_setting_moves(tmp_path):
    settings = {"executor": {"name": "inline", "workers": 1}, "checkpoint": {"every_steps": 100}, "eval": None}
    uncut = trained(tmp_path / "uncut", **settings)
    with pytest.raises(ZeroDivisionError):
        trained(tmp_path / "cut", observers=[Failing(1)], **settings)
    before = yaml.safe_load((tmp_path / "cut" / "config.yaml").read_text())
    for at in (700, 1_200, 1_700, 2_200):
        with pytest.raises(ZeroDivisionError):
            rheos.resume(tmp_path / "cut", observers=[Failing(at)])

    result = rheos.resume(tmp_path / "cut")

    assert before == yaml.safe_load((tmp_path / "cut" / "config.yaml").read_text())
    assert (uncut.weights_sha256, uncut.updates) == (result.weights_sha256, result.updates)
    assert rows_of(tmp_path / "uncut") == rows_of(tmp_path / "cut")  # the learning rate of every row, too


@pytest.mark.usefixtures("quickly")
def test_case_30_as_much_again_after_saving_and_loading_is_the_same(tmp_path):
    constant = {name: value for name, value in EVERYTHING.items() if not name.startswith("final_")}
    settings = {"algo": constant, "checkpoint": {"every_steps": 1}, "eval": None}  # saved after every round
    whole = trained(tmp_path / "whole", stop={"env_steps": 2_000}, **settings)
    trained(tmp_path / "halves", stop={"env_steps": 1_000}, **settings)

    result = rheos.resume(tmp_path / "halves", stop={"env_steps": 2_000})

    assert whole.weights_sha256 == result.weights_sha256
    assert rows_of(tmp_path / "whole") == rows_of(tmp_path / "halves")


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("algo=dqn", "algo.name: the run has 'ppo', you gave 'dqn'"),
        ("env=pendulum", "env.id: the run has 'CartPole-v1', you gave 'Pendulum-v1'"),
        ("backend=tf", "backend.name: the run has 'torch', you gave 'tf'"),
        ("algo.hidden_sizes=[32]", "algo.hidden_sizes: the run has [16], you gave [32]"),
        ("algo.learning_rate=0.01", "algo.learning_rate: the run has 0.001, you gave 0.01"),
        ("executor.workers=3", "executor.workers: the run has 2, you gave 3"),
        ("seed=4", "seed: the run has 3, you gave 4"),
    ],
)
def test_case_30_another_run_is_refused_with_a_diff(run_of_all, word, line, capsys):
    before = {path: path.read_bytes() for path in run_of_all.rglob("*") if path.is_file() and path.name != ".lock"}

    code = main(["resume", str(run_of_all), word, "stop.env_steps=1_000_000"])

    said = capsys.readouterr().err.removeprefix("rheos: ").splitlines()
    assert 2 == code
    assert line in said
    assert before == {path: path.read_bytes() for path in before}


@pytest.fixture(scope="module")
def run_of_all(tmp_path_factory):
    """A small run, which tests only look at."""
    run_dir = tmp_path_factory.mktemp("runs") / "run"
    trained(run_dir, stop={"env_steps": 300}, eval=None)
    return run_dir


def test_the_command_line_goes_on_and_says_so(tmp_path, capsys):
    trained(tmp_path / "run", stop={"env_steps": 300}, eval=None)

    code = main(["resume", str(tmp_path / "run"), "stop.env_steps=1_000", "checkpoint.every_steps=500", "--plain"])

    first, second, *_, outcome, last = capsys.readouterr().out.splitlines()
    assert 0 == code
    assert ("what is learned from here depends on checkpoint.every_steps=500 (was 600)") == second
    assert first.startswith(f"ppo on CartPole-v1, seed 3 -> {tmp_path / 'run'}, resumed at ")
    assert "stop.env_steps=1000 reached" in outcome
    assert last.endswith(f"next: rheos eval {tmp_path / 'run'}")


@pytest.mark.usefixtures("quickly")
def test_an_interrupted_run_says_how_it_goes_on(tmp_path):
    class Interrupting:
        @rheos.hookimpl
        def rheos_report(self):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "run", observers=[Interrupting()], eval=None)
    at = json.loads((tmp_path / "run" / "status.json").read_text())["env_steps"]

    result = rheos.resume(Path(tmp_path / "run"))

    assert at < result.env_steps
    assert "done" == state_of(tmp_path / "run")
