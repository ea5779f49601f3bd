"""ParallelLearner: a learner whose gradients are computed by several processes together."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rheos import Batch, LearnerReport
from rheos.backend import ParallelBackend, learning_devices
from rheos.errors import ConfigError
from rheos.plugins import make_backend
from rheos_ops.companions import Companions, Pipe
from rheos_ops.learners import GradientLearner, LearnerSpec, transitions
from rheos_ops.minibatches import Part

if TYPE_CHECKING:
    from rheos.configuration.run_config import BackendConfig

__all__ = ["ParallelLearner"]


class ParallelLearner(GradientLearner):
    """Learns as `GradientLearner` does, with the rows of every minibatch divided between `config.processes`.

    This process is the first; the others it starts here, and they end with `close` or with this process. All have the
    same networks, get the same batches, prepare them whole and draw the same minibatches; each computes the gradient
    on its part of the rows, and all take a step along the mean. So the weights are those of one process but for
    rounding, in whatever number of processes, and all its metrics are of all rows, if the loss is a mean over rows.
    What a loss computes of its minibatch otherwise, such as a standard deviation, is of the part.

    After an error the other processes are gone; weights and state can still be read.

    Args:
        config: of the backend that each process makes.
        spec: networks, loss and how often; it travels, so its functions are at the top of a module.
        device: of this process; on GPUs, those that follow are the others'.
        seed: of the run.
        name: of the actor.

    Raises:
        ConfigError: if the backend cannot learn in so many processes, or the spec cannot be sent to them.
        RheosError: here and by `update`, if another process fails or is killed; it names the process and the cause.
    """

    def __init__(
        self, config: BackendConfig, spec: LearnerSpec, *, device: str = "cpu", seed: int, name: str = "learner"
    ) -> None:
        if config.processes < 2:
            raise ValueError(f"ParallelLearner: got processes={config.processes}, expected 2 or more.")
        backend = make_backend(config, device)
        devices = learning_devices(backend, config.processes)
        assert isinstance(backend, ParallelBackend)  # the line before would have refused another one
        self._leave = backend.leave
        self._companions = Companions(name, len(devices) - 1, _learn_along, on_end=backend.leave)
        with self._together():
            self._send(_Beginning(config, devices, replace(spec, publish_every=sys.maxsize), seed, name))
            address = self._companions.receive()[0]
            self._companions.send(address)
            backend.join(0, len(devices), address)
            super().__init__(backend, spec, seed=seed, name=name, part=Part(0, len(devices)))

    def update(self, batch: Batch) -> LearnerReport:
        """Pass over a batch as `GradientLearner.update` does, together with the other processes."""
        whole = Batch(transitions(batch, self._columns), batch.info)
        with self._together():
            self._companions.send(("update", whole))
            return super().update(whole)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take what `state_dict` of this learner, or of one in any number of processes, gave."""
        with self._together():
            self._companions.send(("load_state_dict", state))
            super().load_state_dict(state)

    def close(self) -> None:
        """End the other processes."""
        self._companions.close()
        self._leave()

    def _send(self, beginning: _Beginning) -> None:
        try:
            self._companions.send(beginning)
        except ConnectionError:
            raise
        except Exception as error:
            cause = " ".join(f"{type(error).__name__}: {error}".split())
            raise ConfigError(
                f"backend.processes: the learner cannot be sent to other processes ({cause}): have its loss and all its"
                " functions at the top of a module, or use backend.processes=1."
            ) from error

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Have all processes end if one fails, and tell which one it was."""
        try:
            self._companions.check()
            yield
            self._companions.check()
        except ConnectionError:
            failure = self._companions.failure()
            self.close()
            raise failure from None
        except BaseException:
            self.close()
            raise


@dataclass(frozen=True)
class _Beginning:
    """What the other processes are told first."""

    config: BackendConfig
    devices: tuple[str, ...]
    spec: LearnerSpec
    seed: int
    name: str


def _learn_along(pipe: Pipe, rank: int) -> None:
    """Learn from what the first process learns from, until it ends this one."""
    told: _Beginning = pipe.recv()
    backend = make_backend(told.config, told.devices[rank])
    assert isinstance(backend, ParallelBackend)
    # Not in the first process: when all others are ended, whoever waits there is let go.
    pipe.send(backend.meet() if rank == 1 else None)
    backend.join(rank, len(told.devices), pipe.recv())
    learner = GradientLearner(backend, told.spec, seed=told.seed, name=told.name, part=Part(rank, len(told.devices)))
    while True:
        method, message = pipe.recv()
        getattr(learner, method)(message)
