"""A run from settings to its folder: how it stops, what it leaves behind, and what it leaves when it fails."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gymnasium
import pytest

from rheos.errors import PluginError, RheosError, RunFolderError, SpaceError, UnknownName, UsageError
from rheos.plugins import hookimpl
from rheos.runs.checkpoints import load_checkpoint, sha256_of
from rheos.runs.folder import RunFolder
from rheos.runs.status import RunState
from rheos.runs.training import train
from rheos.testing.toy import toy_registry

RUN = Path("run")
"""Where the toy goes by default."""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def toy(run_dir="run", env="CartPole-v1", observers=(), registry=None, executor="inline", logger=None, **settings):
    """Train the toy; settings of the run by their keys, of the algorithm as `algo`."""
    algo = {"name": "toy", **settings.pop("algo", {})}
    return train(
        algo,
        env=env,
        backend="toy",
        executor=executor,
        run_dir=run_dir,
        observers=observers,
        logger=logger or {"every_steps": 1000},
        registry=registry or toy_registry(),
        **settings,
    )


def rows_of(run_dir):
    with (run_dir / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def untimed(rows):
    return [{name: cell for name, cell in row.items() if name not in ("wall_s", "env_steps_per_s")} for row in rows]


class Witness:
    """Writes down what it is told of, and does something at a report."""

    def __init__(self, at_report=lambda run, row: None):
        self.seen = []
        self._at_report = at_report

    @hookimpl
    def rheos_run_started(self, run):
        self.seen.append("started")

    @hookimpl
    def rheos_report(self, run, row):
        self.seen.append(("row", row["env_steps"]))
        self._at_report(run, row)

    @hookimpl
    def rheos_checkpoint_saved(self, path):
        self.seen.append(("saved", path.name))

    @hookimpl
    def rheos_run_ended(self, run):
        self.seen.append(("ended", run.status.state.value))


# how a run stops


def test_a_run_stops_at_the_first_report_that_reaches_the_env_steps():
    result = toy(stop={"env_steps": 950}, algo={"steps": 100})

    assert (RunState.DONE, 1000) == (result.state, result.env_steps)
    assert "stop.env_steps=950 reached" == result.reason


def test_a_run_stops_once_the_mean_of_the_last_100_episodes_reaches_the_return():
    result = toy(stop={"episode_return": 20.0}, algo={"episodes": 10})

    # rounds k-9 to k have a mean return of k - 4.5: 25 rounds, with noise of a mean near 0
    assert 20.0 <= result.episode_return_mean < 21.5
    assert result.updates in (24, 25, 26)
    assert result.reason.startswith("stop.episode_return=20 reached: mean return 2")


def test_a_return_that_is_reached_by_fewer_than_100_episodes_does_not_stop_a_run():
    result = toy(stop={"episode_return": 0.0}, algo={"episodes": 9})

    assert 12 == result.updates  # 11 rounds have 99 episodes


def test_a_run_that_reaches_its_return_with_its_last_step_says_so():
    result = toy(stop={"episode_return": 1.0, "env_steps": 1000}, algo={"episodes": 10, "steps": 100})

    assert (1000, 10) == (result.env_steps, result.updates)
    assert result.reason.startswith("stop.episode_return=1 reached")


def test_a_run_stops_after_its_seconds():
    result = toy(stop={"env_steps": None, "seconds": 0.2})

    assert "stop.seconds=0.2 reached" == result.reason
    assert result.wall_s >= 0.2


def test_a_flow_that_ends_by_itself_ends_the_run():
    result = toy(algo={"rounds": 3})

    assert (RunState.DONE, "the flow came to its end", 3) == (result.state, result.reason, result.updates)


# what it leaves behind


def test_a_run_leaves_a_folder_that_tells_everything():
    result = toy(stop={"env_steps": 2500})

    assert {"config.yaml", "status.json", "metrics.csv", "flow.mmd", "checkpoints"} <= {
        path.name for path in result.run_dir.iterdir()
    }
    assert (result.run_dir / "flow.mmd").read_text().startswith("flowchart")
    assert "algo:\n  name: toy\n" in (result.run_dir / "config.yaml").read_text()
    status = json.loads((result.run_dir / "status.json").read_text())
    assert ("done", 2500, 25, 250) == tuple(status[name] for name in ("state", "env_steps", "updates", "episodes"))
    assert result.weights_sha256 == status["weights_sha256"]


def test_the_status_has_the_checksum_of_the_weights_that_are_there():
    result = toy(stop={"env_steps": 500})

    checkpoint = load_checkpoint(result.run_dir / "checkpoints" / "500")

    assert result.weights_sha256 == sha256_of(checkpoint.weights)
    assert 5 == checkpoint.manifest["updates"]


def test_the_default_folder_is_named_by_algorithm_environment_and_seed(here):
    result = toy(run_dir=None, seed=7, stop={"env_steps": 1})

    assert "runs/toy-cartpole" == result.run_dir.parent.as_posix()
    assert result.run_dir.name.endswith("-seed7")
    assert (here / result.run_dir / "status.json").exists()


def test_weights_are_saved_every_so_many_steps_and_at_the_end():
    witness = Witness()

    toy(stop={"env_steps": 1000}, checkpoint={"every_steps": 250}, observers=[witness])

    # a round has 100 steps: the first report at or after 250, 500, 750, 1000; the end finds these weights saved
    assert ["300", "500", "800", "1000"] == [event[1] for event in witness.seen if event[0] == "saved"]
    assert {"500", "800", "1000"} == {path.name for path in (RUN / "checkpoints").iterdir()}


def test_rows_are_written_each_time_so_many_env_steps_passed_and_at_the_end():
    result = toy(stop={"env_steps": 1100}, logger={"every_steps": 250})

    assert ["300", "600", "900", "1100"] == [row["env_steps"] for row in rows_of(result.run_dir)]


def test_the_same_seed_gives_the_same_run_but_for_its_times():
    first, second = (toy(run_dir=name, seed=1, stop={"env_steps": 3000}) for name in ("a", "b"))

    assert first.weights_sha256 == second.weights_sha256
    assert untimed(rows_of(first.run_dir)) == untimed(rows_of(second.run_dir))


def test_another_seed_gives_another_run():
    first, second = (toy(run_dir=str(seed), seed=seed, stop={"env_steps": 3000}) for seed in (1, 2))

    assert first.weights_sha256 != second.weights_sha256
    assert untimed(rows_of(first.run_dir)) != untimed(rows_of(second.run_dir))


def test_a_run_is_never_overwritten():
    before = toy(stop={"env_steps": 100})

    with pytest.raises(RunFolderError, match=r"run_dir=run: there is .* already, and a run is never overwritten"):
        toy(stop={"env_steps": 200})

    assert before.env_steps == RunFolder(before.run_dir).read_status().env_steps


def test_while_a_run_goes_on_its_status_says_so():
    states = []

    toy(stop={"env_steps": 1000}, observers=[Witness(lambda run, row: states.append(run.folder.read_status().state))])

    assert [RunState.RUNNING] == states


# who is told


def test_observers_are_told_in_the_order_of_events():
    witness = Witness()

    toy(stop={"env_steps": 2000}, checkpoint={"every_steps": 1500}, observers=[witness])

    rows = [("row", 1000), ("saved", "1500"), ("row", 2000)]
    assert ["started", *rows, ("saved", "2000"), ("ended", "done")] == witness.seen


def test_an_observer_without_hooks_is_refused_and_nothing_is_left(here):
    class Unmarked:
        def rheos_report(self, run, row): ...

    with pytest.raises(TypeError, match=r"has no hook: mark its methods with @rheos\.hookimpl"):
        toy(observers=[Unmarked()])

    assert [] == list(here.iterdir())


def test_an_observer_with_a_mistyped_hook_is_refused_and_nothing_is_left(here):
    class Mistyped:
        @hookimpl
        def rheos_reports(self, run, row): ...

    with pytest.raises(TypeError, match=r"an observer has a hook that does not exist: .*rheos_reports"):
        toy(observers=[Mistyped()])

    assert [] == list(here.iterdir())


def test_an_observer_that_raises_ends_the_run():
    def raise_it(run, row):
        raise LookupError("no")

    with pytest.raises(LookupError):
        toy(observers=[Witness(raise_it)])

    assert "LookupError: no" == RunFolder(RUN).read_status().reason


# what cannot be


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"env": "NoSuch-v0"}, UnknownName),
        ({"env": "Pendulum-v1"}, SpaceError),
        ({"algo": {"name": "tox"}}, UnknownName),
        ({"algo": {"steps": 0}}, UsageError),
        ({"algo": {"setps": 1}}, UsageError),
        ({"executor": "ray"}, UnknownName),
        ({"logger": {"names": ["paper"]}}, UnknownName),
        ({"stop": {"steps": 1}}, UsageError),
        ({"seed": -1}, UsageError),
    ],
)
@pytest.mark.parametrize("run_dir", [None, "deep/run"])
def test_what_cannot_be_is_refused_in_one_line_and_leaves_nothing_behind(here, settings, error, run_dir):
    with pytest.raises(error) as caught:
        toy(run_dir=run_dir, **settings)

    assert "\n" not in str(caught.value)
    assert [] == list(here.iterdir())


def test_what_turns_out_to_be_impossible_at_the_start_leaves_nothing_behind(here, monkeypatch):
    def refuse(self, *arguments):
        raise PluginError("the learner cannot be made")

    monkeypatch.setattr("rheos.testing.toy.ToyLearner.__init__", refuse)
    witness = Witness()

    with pytest.raises(PluginError):
        toy(run_dir=None, observers=[witness])

    assert [] == list(here.iterdir())
    assert ["started", ("ended", "failed")] == witness.seen


# failure and interruption


def test_a_run_that_fails_says_why_and_where_and_raises_the_cause():
    with pytest.raises(ZeroDivisionError):
        toy(algo={"fails_in_round": 5})

    status = RunFolder(RUN).read_status()
    assert (RunState.FAILED, 400) == (status.state, status.env_steps)
    assert status.reason.startswith("ZeroDivisionError: division by zero (in stage 3: ask(ToyLearner.update)")
    assert "\n" not in status.reason


def test_a_run_that_fails_keeps_the_rows_and_checkpoints_it_had():
    with pytest.raises(ZeroDivisionError):
        toy(algo={"fails_in_round": 26}, checkpoint={"every_steps": 1000})

    assert ["1000", "2000", "2500"] == [row["env_steps"] for row in rows_of(RUN)]
    assert {"1000", "2000"} == {path.name for path in (RUN / "checkpoints").iterdir()}
    assert load_checkpoint(RUN / "checkpoints" / "2000").manifest["weights_sha256"] == (
        RunFolder(RUN).read_status().weights_sha256
    )


def test_weights_that_are_not_finite_fail_the_run_and_are_not_saved():
    with pytest.raises(RheosError, match=r"weight 'policy/hidden_0/kernel': 32 of 32 values are not finite"):
        toy(algo={"spoils_weights_in_round": 1}, stop={"env_steps": 500})

    status = RunFolder(RUN).read_status()
    assert (RunState.FAILED, None) == (status.state, status.weights_sha256)
    assert [] == list(RUN.rglob("*.safetensors"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_between_two_items_with_its_weights_saved(number):
    witness = Witness(lambda run, row: signal.raise_signal(number) if row["env_steps"] == 2000 else None)
    before = signal.getsignal(number)

    with pytest.raises(KeyboardInterrupt, match=r"the run is complete as far as it went: run"):
        toy(observers=[witness])

    status = RunFolder(RUN).read_status()
    assert (RunState.INTERRUPTED, 2000) == (status.state, status.env_steps)
    assert f"interrupted by {number.name}" == status.reason
    assert status.weights_sha256 == load_checkpoint(RUN / "checkpoints" / "2000").manifest["weights_sha256"]
    assert before == signal.getsignal(number)


def test_a_second_signal_ends_the_run_at_once():
    def twice(run, row):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("it went on")

    with pytest.raises(KeyboardInterrupt):
        toy(observers=[Witness(twice)])

    status = RunFolder(RUN).read_status()
    assert RunState.INTERRUPTED == status.state
    assert not (RUN / "checkpoints").exists()


def test_a_run_in_another_thread_leaves_the_signals_alone():
    handlers = []
    note = Witness(lambda run, row: handlers.append(signal.getsignal(signal.SIGINT)))

    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: toy(stop={"env_steps": 1000}, observers=[note])).result()

    assert [signal.getsignal(signal.SIGINT)] == handlers


def test_ctrl_c_from_outside_ends_a_program_that_trains(here):
    program = textwrap.dedent("""
        from rheos import hookimpl, train
        from rheos.testing.toy import toy_registry

        class Ready:
            @hookimpl
            def rheos_report(self, run, row):
                print(flush=True)

        train("toy", env="CartPole-v1", backend="toy", run_dir="run", stop={"env_steps": None},
              registry=toy_registry(), observers=[Ready()])
    """)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.readline()

    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)

    assert 1 == errors.count(b"Traceback")
    assert b"KeyboardInterrupt: interrupted; the run is complete as far as it went: run" in errors
    assert RunState.INTERRUPTED == RunFolder(here / "run").read_status().state


class Exploding(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        raise RuntimeError("no display")


def test_an_environment_that_cannot_be_made_leaves_nothing_behind(here):
    gymnasium.register("Exploding-v0", Exploding)
    try:
        with pytest.raises(RheosError, match=r"'Exploding-v0' cannot be made: RuntimeError: no display"):
            toy(env="Exploding-v0")
    finally:
        del gymnasium.registry["Exploding-v0"]

    assert [] == list(here.iterdir())
