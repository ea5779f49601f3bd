"""Time to the first result of training, and peak memory, Rheos beside Stable-Baselines3: `nox -s compare`.

Each side runs as its users run it, on one thread, in turns: `rheos train algo=ppo env=cartpole` from the command to its
first line of results, Stable-Baselines3 from the start of Python to the return of its first rollout and update.
Memory is the proportional set size (PSS), the largest of samples taken every 50 ms until some 20,000 steps were
trained. The import of torch alone is beside them: it is most of the time of both.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from _sides import ONE_THREAD

RHEOS = Path(sys.executable).with_name("rheos")
RIVAL = "stable-baselines3"
ENV_STEPS = 20_000
RIVALS_PROGRAM = f"""
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

class Callback(BaseCallback):
    def _on_step(self):
        return True

    def _on_rollout_start(self):
        if self.num_timesteps:
            print("return", self.num_timesteps, flush=True)

environments = make_vec_env("CartPole-v1", n_envs=8, seed=1)
PPO("MlpPolicy", environments, n_steps=128, batch_size=256, n_epochs=4, device="cpu").learn({ENV_STEPS}, Callback())
"""


def measure(command: list[str], sign: str) -> tuple[float, float]:
    """Run a command to its end; return the seconds to its first line with that sign, and its peak memory in MB."""
    began_at = time.perf_counter()
    with subprocess.Popen(command, env={**os.environ, **ONE_THREAD}, stdout=subprocess.PIPE, text=True) as process:
        peaks = [0.0]
        sampler = threading.Thread(target=sample_memory, args=(process, peaks))
        sampler.start()
        first = None
        for line in process.stdout or ():
            if first is None and sign in line:
                first = time.perf_counter() - began_at
        sampler.join()
    if process.returncode or first is None:
        raise SystemExit(f"{command[0]} ended with {process.returncode}, and without a result")
    return first, max(peaks)


def sample_memory(process: subprocess.Popen[str], peaks: list[float]) -> None:
    """Add the proportional set size of a process in MB every 50 ms, until it has ended."""
    has_ended = False
    while not has_ended:
        try:
            text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        except OSError:  # it ends just now
            text = ""
        peaks.extend(int(line.split()[1]) / 1000 for line in text.splitlines() if line.startswith("Pss:"))
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
            has_ended = True


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=5, help="measurements of each side")
    repeats: int = parser.parse_args().repeats
    found: dict[str, list[tuple[float, float]]] = {"rheos": [], RIVAL: [], "import torch": []}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            words = ["algo=ppo", "env=cartpole", f"stop.env_steps={ENV_STEPS}", f"run_dir={folder}/run"]
            found["rheos"].append(measure([str(RHEOS), "train", *words], "steps/s"))
        found[RIVAL].append(measure([sys.executable, "-c", RIVALS_PROGRAM], "return"))
        found["import torch"].append(measure([sys.executable, "-c", "import torch; print('done', flush=True)"], "done"))
    print(f"rheos {version('rheos-core')}, {RIVAL} {version(RIVAL)}, torch {version('torch')}; {repeats} times each")
    print(f"{'':20s} {'first result':>26s} {'ratio':>6s} {'peak memory':>12s} {'ratio':>6s}")
    rival_s, rival_mb = (statistics.median(values) for values in zip(*found[RIVAL], strict=True))
    for side, pairs in found.items():
        seconds, peaks = zip(*pairs, strict=True)
        spread = f"({min(seconds):.2f} to {max(seconds):.2f})"
        median_s, median_mb = statistics.median(seconds), statistics.median(peaks)
        print(
            f"{side:20s} {median_s:8.2f} s {spread:>15s} {median_s / rival_s:6.2f} "
            f"{median_mb:9.0f} MB {median_mb / rival_mb:6.2f}"
        )


if __name__ == "__main__":
    main()
