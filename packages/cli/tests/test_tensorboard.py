"""The event files hold what metrics.csv holds, over env steps."""

from __future__ import annotations

import csv
import struct

import pytest
from tensorboardX.proto.event_pb2 import Event, SessionLog

from rheos.runs.training import train
from rheos.testing.toy import toy_registry
from rheos_cli.tensorboard import make_logger


def scalars_of(run_dir):
    """Read tag, step and value of every scalar."""
    events = events_in(run_dir / "tb")
    return [(value.tag, event.step, value.simple_value) for event in events for value in event.summary.value]


def events_in(folder):
    """Read the events of all files; records are framed by their length and two checksums."""
    for path in folder.iterdir():
        data = path.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            yield Event.FromString(data[12 : 12 + length])
            data = data[16 + length :]


def test_every_measurement_is_a_scalar_over_env_steps(tmp_path):
    logger = make_logger(tmp_path)

    logger.log(1000, {"env_steps": 1000, "episode_return_mean": 20.0, "lag_max": 1, "loss": 0.5})
    logger.close()

    expected = [("episode/return_mean", 1000, 20.0), ("run/lag_max", 1000, 1.0), ("train/loss", 1000, 0.5)]
    assert expected == scalars_of(tmp_path)


def test_a_run_is_logged_row_by_row(tmp_path):
    run_dir = tmp_path / "run"

    train(
        "toy",
        env="CartPole-v1",
        backend="toy",
        run_dir=run_dir,
        stop={"env_steps": 3000},
        logger={"every_steps": 1000},
        registry=toy_registry("rheos-cli"),
    )

    with (run_dir / "metrics.csv").open(newline="") as file:
        written = [(int(row["env_steps"]), float(row["toy_loss"])) for row in csv.DictReader(file)]
    logged = [(step, value) for tag, step, value in scalars_of(run_dir) if tag == "train/toy_loss"]
    assert [1000, 2000, 3000] == [step for step, _ in logged]
    assert [pytest.approx(pair, rel=1e-6) for pair in written] == logged  # event files hold float32


def test_a_logger_that_goes_on_voids_what_was_written_of_later_steps(tmp_path):
    first, second = make_logger(tmp_path), make_logger(tmp_path)
    for env_steps in (1000, 2000):
        first.log(env_steps, {"loss": 0.5})
    first.close()

    second.resume(1000)
    second.log(2000, {"loss": 0.25})
    second.flush()
    second.close()

    voided = [
        event.step
        for event in events_in(tmp_path / "tb")
        if event.session_log.status == SessionLog.START and event.step
    ]
    assert [1001] == voided


def test_a_logger_that_logs_nothing_leaves_nothing(tmp_path):
    logger = make_logger(tmp_path)

    logger.resume(1000)
    logger.flush()
    logger.close()

    assert [] == list(tmp_path.iterdir())


def test_what_was_flushed_is_on_the_disk_although_the_program_goes_on(tmp_path):
    logger = make_logger(tmp_path)

    logger.log(1000, {"env_steps": 1000, "loss": 0.5})
    logger.flush()

    assert [("train/loss", 1000, 0.5)] == scalars_of(tmp_path)

    logger.log(2000, {"env_steps": 2000, "loss": 0.25})
    logger.close()

    assert [(1000, 0.5), (2000, 0.25)] == sorted((step, value) for _, step, value in scalars_of(tmp_path))


def test_loggers_that_begin_in_one_second_do_not_take_each_others_files(tmp_path):
    for step in range(5):
        logger = make_logger(tmp_path)
        logger.resume(step)
        logger.log(step, {"env_steps": step, "loss": float(step)})
        logger.flush()

    assert list(range(5)) == sorted(step for _, step, _ in scalars_of(tmp_path))


def test_who_was_busy_is_a_group_of_its_own(tmp_path):
    logger = make_logger(tmp_path)

    logger.log(1000, {"env_steps": 1000, "busy/rollout": 0.5, "restarts": 2.0})
    logger.close()

    assert [("busy/rollout", 1000, 0.5), ("run/restarts", 1000, 2.0)] == scalars_of(tmp_path)
