"""Runs that are killed in the middle, in processes of their own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["resume_and_kill", "train_and_kill"]

_SCRIPT = """
import json, os, signal
import rheos

class Killer:
    @rheos.hookimpl
    def rheos_report(self, row):
        if row["env_steps"] >= {at}:
            os.kill(os.getpid(), signal.SIGKILL)

settings = json.loads({settings!r})
{call}
"""


def train_and_kill(run_dir: Path, settings: Mapping[str, Any], *, at: int) -> None:
    """Train until a row of at least so many env steps is written; then the process is killed, with SIGKILL."""
    _kill(
        f"rheos.train(settings.pop('algo'), run_dir={str(run_dir)!r}, observers=[Killer()], **settings)", at, settings
    )


def resume_and_kill(run_dir: Path, *, at: int) -> None:
    """Resume until then."""
    _kill(f"rheos.resume({str(run_dir)!r}, observers=[Killer()])", at, {})


def _kill(call: str, at: int, settings: Mapping[str, Any]) -> None:
    script = _SCRIPT.format(at=at, settings=json.dumps(settings), call=call)
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240)
    assert -signal.SIGKILL == process.returncode, process.stderr
