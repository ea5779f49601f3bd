"""What a running flow measures: its stages, its actors, and where its time goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean

__all__ = ["ActorStatistics", "FlowStatistics", "Mean", "StageStatistics"]


_BUSY = 0.5
"""In which share of the time a bottleneck works at least."""


class Mean:
    """A mean and a maximum, taken one value at a time."""

    __slots__ = ("count", "most", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.most = 0.0

    def add(self, value: float) -> None:
        """Take in a value."""
        self.most = value if not self.count else max(self.most, value)
        self.count += 1
        self.total += value

    @property
    def value(self) -> float | None:
        """The mean, or None where there was no value."""
        return self.total / self.count if self.count else None


@dataclass(frozen=True)
class StageStatistics:
    """What passed through a stage."""

    name: str
    """As notes name it: `stage 5: ask(Learner.update) [flow.py:27]`."""
    items: int
    """That it gave."""
    busy_s: float
    """Seconds of the driver in its function, or in its calls where those run on the driver."""
    outstanding: int
    """Calls that have not been taken in."""
    lost: int = 0
    """Messages and items that were lost with an actor that failed, or with the machine that held them."""
    age_s: float | None = None
    """Mean seconds from when an actor finished an item until the stage sent it on; None where it sends none."""
    lag: tuple[float, float] | None = None
    """Mean and maximum of how many updates the weights that acted were behind those that learned; of a learner."""

    def describe(self, wall_s: float) -> str:
        """Return it as the remark beside a stage."""
        parts = [f"{self.items:,} items", f"busy {self.busy_s:.2f} s ({self.busy_s / wall_s:.0%})"]
        if self.outstanding:
            parts.append(f"{self.outstanding} outstanding")
        if self.lost:
            parts.append(f"{self.lost} lost")
        if self.age_s is not None:
            parts.append(f"age {1e3 * self.age_s:.3g} ms")
        if self.lag is not None:
            parts.append(f"lag {self.lag[0]:.3g} (most {self.lag[1]:.3g})")
        return ", ".join(parts)


@dataclass(frozen=True)
class ActorStatistics:
    """What an actor did."""

    role: str
    """The name of its group, or its own."""
    busy_s: float
    """Seconds that it worked."""
    restarts: int
    """How often it was made anew."""
    is_on_driver: bool
    """Whether it works in the driver's thread, so that its work is the driver's, too."""


@dataclass(frozen=True)
class FlowStatistics:
    """What a flow measured since it began; the difference of two says what came between."""

    wall_s: float
    """Seconds since it began."""
    waited_s: float
    """Seconds of those in which the driver waited for actors."""
    stages: tuple[StageStatistics, ...] = ()
    actors: Mapping[str, ActorStatistics] = field(default_factory=dict)

    @property
    def driver_busy(self) -> float:
        """In which share of the time the driver did not wait."""
        return 1.0 - min(self.waited_s / self.wall_s, 1.0) if self.wall_s > 0 else 0.0

    @property
    def restarts(self) -> int:
        """How many actors were made anew, all in all."""
        return sum(actor.restarts for actor in self.actors.values())

    @property
    def lost(self) -> int:
        """How many messages and items were lost with what failed, all in all."""
        return sum(stage.lost for stage in self.stages)

    def busy_since(self, before: FlowStatistics | None = None) -> dict[str, float]:
        """Return in which share of the time since `before` the driver, and the mean actor of each role, worked."""
        before = before or FlowStatistics(0.0, 0.0)
        wall_s = max(self.wall_s - before.wall_s, 1e-9)
        shares = {"driver": 1.0 - min((self.waited_s - before.waited_s) / wall_s, 1.0)}
        by_role: dict[str, list[float]] = {}
        for name, actor in self.actors.items():
            earlier = before.actors.get(name)
            worked_s = actor.busy_s - (earlier.busy_s if earlier else 0.0)
            by_role.setdefault(actor.role, []).append(min(worked_s / wall_s, 1.0))
        return shares | {role: fmean(parts) for role, parts in by_role.items()}

    @property
    def bottleneck(self) -> str:
        """What is busy most of the time, so that more of anything else would not help; with its share.

        Where nobody works half of the time there is none: something is slow to come, or pauses before a restart.
        """
        on_driver = {actor.role for actor in self.actors.values() if actor.is_on_driver}
        shares = {role: share for role, share in self.busy_since().items() if role not in on_driver}
        role = max(shares, key=shares.__getitem__)
        if shares[role] < _BUSY:
            return (
                f"none: nobody is busy half of the time, and the driver waited {self.waited_s / self.wall_s:.0%} of it"
            )
        text = f"{role} busy {shares[role]:.0%}"
        if role == "driver" and self.stages:
            busiest = max(self.stages, key=lambda stage: stage.busy_s)
            text += f", most of it in {busiest.name} ({busiest.busy_s / max(self.wall_s, 1e-9):.0%})"
        return text
