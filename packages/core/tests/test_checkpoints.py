"""A checkpoint is whole or not there, is what was saved, and never holds what is not finite."""

from __future__ import annotations

import json
import os
from pkgutil import resolve_name

import numpy as np
import pytest

from rheos.errors import RheosError, RheosWarning, RunFolderError
from rheos.plugins.specs import CONTRACT_VERSION
from rheos.runs.checkpoints import (
    load_checkpoint,
    newest_checkpoint,
    prune_checkpoints,
    save_checkpoint,
    sha256_of,
)


def weights(value: float = 1.0) -> dict[str, np.ndarray]:
    return {
        "policy/kernel": np.full((4, 2), value, np.float32),
        "policy/bias": np.arange(2, dtype=np.float32),
        "log_std/value": np.float32(0.5).reshape(()),
    }


def manifest(env_steps: int, **more: object) -> dict[str, object]:
    parts = {"algo": {"name": "ppo"}, "env": {"name": "gym"}, "backend": {"name": "torch"}, "spaces": {}}
    return {"contract": CONTRACT_VERSION, **parts, "env_steps": env_steps, **more}


def test_weights_and_manifest_come_back_as_they_were_saved(tmp_path):
    saved = save_checkpoint(tmp_path, weights(), manifest(1024))

    loaded = load_checkpoint(tmp_path / "1024")

    assert saved.manifest == loaded.manifest
    assert {"ppo"} == {loaded.manifest["algo"]["name"]}
    assert weights().keys() == loaded.weights.keys()
    for name, array in weights().items():
        np.testing.assert_array_equal(array, loaded.weights[name])
        assert (array.dtype, array.shape) == (loaded.weights[name].dtype, loaded.weights[name].shape)


def test_weights_that_are_no_plain_row_of_memory_come_back_right(tmp_path):
    transposed = np.arange(6, dtype=np.float32).reshape(2, 3).T

    save_checkpoint(tmp_path, {"kernel": transposed}, manifest(1))

    np.testing.assert_array_equal(transposed, load_checkpoint(tmp_path / "1").weights["kernel"])


def test_the_checksum_does_not_depend_on_order_or_memory_layout():
    reordered = {name: np.asarray(array, order="F") for name, array in reversed(weights().items())}

    assert sha256_of(weights()) == sha256_of(reordered)


@pytest.mark.parametrize(
    "other",
    [
        {"b": np.zeros(4, np.float32)},
        {"a": np.zeros((2, 2), np.float32)},
        {"a": np.zeros(4, np.int32)},
        {"a": np.array([0, 0, 0, 1], np.float32)},
        {"a": np.zeros(4, np.float32), "b": np.zeros(0, np.float32)},
    ],
    ids=["name", "shape", "dtype", "value", "one more"],
)
def test_the_checksum_sees_every_difference(other):
    assert sha256_of({"a": np.zeros(4, np.float32)}) != sha256_of(other)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_refused_by_name_and_the_older_ones_stay(tmp_path, bad):
    save_checkpoint(tmp_path, weights(), manifest(100))
    spoilt = weights()
    spoilt["policy/bias"] = np.array([bad, 0.0], np.float32)

    with pytest.raises(RheosError, match=r"weight 'policy/bias': 1 of 2 values are not finite at env step 200"):
        save_checkpoint(tmp_path, spoilt, manifest(200))

    assert ["100"] == [path.name for path in tmp_path.iterdir()]


def test_a_crash_before_the_last_step_leaves_no_checkpoint(tmp_path, monkeypatch):
    save_checkpoint(tmp_path, weights(1.0), manifest(100))

    def crash(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", crash)
        with pytest.raises(KeyboardInterrupt):
            save_checkpoint(tmp_path, weights(2.0), manifest(200))

    assert 100 == newest_checkpoint(tmp_path).env_steps
    save_checkpoint(tmp_path, weights(3.0), manifest(200))  # what the crash left is not in the way
    assert 3.0 == newest_checkpoint(tmp_path).weights["policy/kernel"][0, 0]


def test_a_second_checkpoint_of_the_same_env_steps_replaces_the_first(tmp_path):
    save_checkpoint(tmp_path, weights(1.0), manifest(100, updates=1))

    save_checkpoint(tmp_path, weights(2.0), manifest(100, updates=2))

    assert 2 == newest_checkpoint(tmp_path).manifest["updates"]
    assert ["100"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("step", "call", "updates"),
    [("pathlib.Path.rename", 1, 1), ("pathlib.Path.rename", 2, 1), ("rheos.runs.checkpoints.sync_directory", 2, 2)],
    ids=["before", "with the old one set aside", "with the new one there"],
)
def test_a_crash_while_a_checkpoint_is_replaced_leaves_the_old_one_or_the_new_one(
    tmp_path, monkeypatch, step, call, updates
):
    save_checkpoint(tmp_path, weights(1.0), manifest(100, updates=1))
    original, calls = resolve_name(step), []

    def crash(*arguments):
        calls.append(arguments)
        if len(calls) == call:
            raise KeyboardInterrupt
        return original(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(step, crash)
        with pytest.raises(KeyboardInterrupt):
            save_checkpoint(tmp_path, weights(2.0), manifest(100, updates=2))

    assert updates == newest_checkpoint(tmp_path).manifest["updates"]
    save_checkpoint(tmp_path, weights(3.0), manifest(100, updates=3))  # what the crash left is not in the way
    assert 3 == newest_checkpoint(tmp_path).manifest["updates"]
    assert ["100"] == [path.name for path in tmp_path.iterdir()]


def torn_weights(path):
    data = (path / "weights.safetensors").read_bytes()
    (path / "weights.safetensors").write_bytes(data[:-3])


def changed_weights(path):
    data = bytearray((path / "weights.safetensors").read_bytes())
    data[-1] ^= 1
    (path / "weights.safetensors").write_bytes(bytes(data))


def torn_manifest(path):
    text = (path / "manifest.json").read_text()
    (path / "manifest.json").write_text(text[: len(text) // 2])


def no_weights(path):
    (path / "weights.safetensors").unlink()


@pytest.mark.parametrize("spoil", [torn_weights, changed_weights, torn_manifest, no_weights])
def test_a_torn_checkpoint_is_passed_over_with_a_warning(tmp_path, spoil):
    save_checkpoint(tmp_path, weights(1.0), manifest(900))
    save_checkpoint(tmp_path, weights(2.0), manifest(1000))
    spoil(tmp_path / "1000")

    with pytest.warns(RheosWarning, match=r"^passed over: .*1000 is") as warned:
        newest = newest_checkpoint(tmp_path)

    assert 900 == newest.env_steps
    assert ["\n" in str(warning.message) for warning in warned] == [False]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_passed_over_whoever_saved_them(tmp_path, monkeypatch, bad):
    save_checkpoint(tmp_path, weights(1.0), manifest(900))
    with monkeypatch.context() as patched:
        patched.setattr("rheos.runs.checkpoints.refuse_non_finite", lambda *arguments: None)
        save_checkpoint(tmp_path, weights(bad), manifest(1000))

    with pytest.warns(RheosWarning, match=r"1000 is a broken checkpoint: weight 'policy/kernel': 8 of 8 values are"):
        newest = newest_checkpoint(tmp_path)

    assert 900 == newest.env_steps


def test_the_newest_is_the_one_of_most_env_steps_not_of_the_last_name(tmp_path):
    for env_steps in (9, 100, 20):
        save_checkpoint(tmp_path, weights(), manifest(env_steps))

    assert 100 == newest_checkpoint(tmp_path).env_steps


def test_a_run_without_checkpoints_says_when_they_are_saved(tmp_path):
    with pytest.raises(RunFolderError, match=r"no checkpoint yet: weights are saved every checkpoint.every_steps"):
        newest_checkpoint(tmp_path / "checkpoints")


def test_a_manifest_of_something_else_is_refused(tmp_path):
    save_checkpoint(tmp_path, weights(), manifest(1))
    (tmp_path / "1" / "manifest.json").write_text(json.dumps({"name": "left-pad"}))

    with pytest.raises(RunFolderError, match=r"no checkpoint of Rheos"):
        load_checkpoint(tmp_path / "1")


@pytest.mark.parametrize("key", ["contract", "algo", "env", "backend", "spaces", "env_steps"])
@pytest.mark.parametrize("value", [None, "x", []])
def test_a_manifest_without_what_is_needed_to_act_again_is_refused_by_the_key(tmp_path, key, value):
    saved = save_checkpoint(tmp_path, weights(), manifest(1))
    (saved.path / "manifest.json").write_text(json.dumps({**saved.manifest, key: value}))

    with pytest.raises(RunFolderError, match=rf"1 is a broken checkpoint: its manifest\.json has no usable {key}"):
        load_checkpoint(tmp_path / "1")


def test_a_manifest_whose_parts_have_no_names_is_refused_by_all_of_them(tmp_path):
    save_checkpoint(tmp_path, weights(), manifest(1, algo={}, env={"name": None}))

    with pytest.raises(RunFolderError, match=r"its manifest\.json has no usable algo\.name, env\.name\.$"):
        load_checkpoint(tmp_path / "1")


def test_a_run_whose_checkpoints_are_all_broken_says_so_in_one_line_and_warns_of_none(tmp_path):
    for env_steps in (1, 2):
        save_checkpoint(tmp_path / "checkpoints", weights(), manifest(env_steps))
        (tmp_path / "checkpoints" / str(env_steps) / "manifest.json").write_text("{}")

    with pytest.raises(RunFolderError, match=r"has no usable checkpoint: .*2 is no checkpoint of Rheos") as caught:
        newest_checkpoint(tmp_path / "checkpoints")

    assert "\n" not in str(caught.value)


def test_the_newest_three_and_the_best_are_kept(tmp_path):
    for env_steps in (100, 200, 300, 400, 500, 600):
        save_checkpoint(tmp_path, weights(), manifest(env_steps))

    prune_checkpoints(tmp_path, also={tmp_path / "200"})

    assert {"200", "400", "500", "600"} == {path.name for path in tmp_path.iterdir()}


def test_a_checkpoint_that_cannot_be_written_is_named_and_leaves_what_was_there(tmp_path, monkeypatch):
    save_checkpoint(tmp_path, weights(), manifest(1000))
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))

    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rheos.runs.checkpoints.write_synced", full)

    with pytest.raises(RheosError, match=r"^the checkpoint .*/2000 cannot be written \(No space left on device\)"):
        save_checkpoint(tmp_path, weights(), manifest(2000))

    assert before == sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
