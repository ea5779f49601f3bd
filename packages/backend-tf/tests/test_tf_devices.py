"""Making a backend: devices, modes and threads that are there or not, and a fresh process that stays quiet."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from rheos.backend import Backend
from rheos.errors import ConfigError, RheosWarning
from rheos_tf.backend import TFBackend, make_backend
from rheos_tf.framework import tf


def test_make_backend_gives_a_backend_that_knows_its_names():
    backend: Backend = make_backend(device="cpu", mode="auto", threads=1)

    assert ("tf", "cpu", "tf") == (backend.name, backend.device, backend.xp.name)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "fast"}, r"^backend.mode: got 'fast', expected one of auto, eager, graph.$"),
        ({"device": "cuda:99"}, r"^device: TensorFlow cannot use 'cuda:99' \(it sees .+ GPUs?\): try device=cpu\.$"),
        ({"device": "cpu:7"}, r"^device: TensorFlow cannot use 'cpu:7' \(it sees 1 CPU\): try device=cpu\.$"),
        *(
            ({"device": device}, rf"^device: TensorFlow cannot use '{device}': try device=cuda or device=cpu\.$")
            for device in ("meta", "tpu", "")
        ),
    ],
)
def test_what_tensorflow_cannot_do_is_refused_in_one_line(settings, message):
    with pytest.raises(ConfigError, match=message):
        TFBackend(**settings)


def test_threads_that_come_too_late_are_told_and_change_nothing():
    TFBackend()
    tf.constant(1.0)

    with pytest.warns(RheosWarning, match=r"^backend.threads: got 3, but TensorFlow has started with 1 in"):
        TFBackend(threads=3)

    assert 1 == tf.config.threading.get_intra_op_parallelism_threads()


FRESH = """
import sys, warnings
warnings.simplefilter("error")
import numpy as np
from rheos_tf.backend import TFBackend
from rheos_tf.framework import tf
backend = TFBackend(threads=2)
print("from another part of the program", file=sys.stderr)
act = backend.infer(lambda xp, networks, inputs: {"y": 2.0 * inputs["x"]}, {})
assert 2.0 == act({"x": np.ones(1, np.float32)})["y"]
print(tf.config.threading.get_intra_op_parallelism_threads(), "torch" in sys.modules)
"""


def test_a_fresh_process_gets_the_threads_it_asks_for_and_nothing_on_its_screen():
    process = subprocess.run(
        [sys.executable, "-c", FRESH], capture_output=True, text=True, timeout=120, env={}, check=False
    )

    assert "from another part of the program\n" == process.stderr
    assert "2 False\n" == process.stdout


def test_a_stream_that_stood_for_stderr_when_tensorflow_was_imported_stays_open():
    script = """
        import io, logging.config, sys
        stderr, sys.stderr = sys.stderr, io.StringIO()
        shown = sys.stderr
        import rheos_tf.framework
        sys.stderr = stderr
        logging.config.dictConfig({"version": 1})
        shown.write("goes on")
    """

    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=120, check=False
    )

    assert (0, "", "") == (process.returncode, process.stdout, process.stderr)
