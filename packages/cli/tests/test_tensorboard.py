"""The event files hold what metrics.csv holds, over env steps."""

from __future__ import annotations

import csv
import struct

import pytest
from tensorboardX.proto.event_pb2 import Event

from rheos.runs.training import train
from rheos.testing.toy import toy_registry
from rheos_cli.tensorboard import make_logger


def scalars_of(run_dir):
    """Read tag, step and value of every scalar; records are framed by their length and two checksums."""
    (path,) = (run_dir / "tb").iterdir()
    data, found = path.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        event = Event.FromString(data[12 : 12 + length])
        found += [(value.tag, event.step, value.simple_value) for value in event.summary.value]
        data = data[16 + length :]
    return found


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
