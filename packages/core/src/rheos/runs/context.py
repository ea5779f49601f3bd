"""RunContext: what an algorithm gets in order to describe its actors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from rheos.configuration.run_config import BackendConfig
    from rheos.environments.environment import Environment

__all__ = ["RunContext"]

C_co = TypeVar("C_co", covariant=True)


@dataclass(frozen=True)
class RunContext(Generic[C_co]):
    """What an algorithm gets in order to describe its actors; it travels to them, so it holds descriptions only."""

    config: C_co
    """The algorithm's settings."""
    environment: Environment
    """A description; `spaces()` makes one environment the first time it is asked, and remembers."""
    backend: BackendConfig
    """Named, not made: an actor makes its own with `rheos.plugins.make_backend(context.backend, context.device)`."""
    num_workers: int
    seed: int
    device: str = "cpu"
    total_env_steps: int | None = None
    """When the run ends at the latest: `stop.env_steps`, towards which schedules go; None where nothing says."""
