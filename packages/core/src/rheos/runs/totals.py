"""Totals: the reports of a run, added up."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rheos.batches import Episode
    from rheos.reports import Report
    from rheos.runs.evaluation_result import EvaluationResult

__all__ = ["EPISODE_WINDOW", "FIRST_COLUMNS", "Totals"]

EPISODE_WINDOW = 100
"""Over how many of the last episodes means are taken."""

FIRST_COLUMNS: tuple[str, ...] = (
    "env_steps",
    "wall_s",
    "episode_return_mean",
    "episode_length_mean",
    "env_steps_per_s",
    "episode_return_recent",
    "episodes",
    "updates",
    "lag_mean",
    "lag_max",
)
"""What every row has; after these come those of an evaluation, and the metrics of the algorithm, by their names."""


class Totals:
    """The reports of a run, added up, and what came since the last row of measurements.

    Example:
        >>> from rheos.batches import Episode
        >>> from rheos.reports import Report
        >>> totals = Totals()
        >>> totals.add(Report(env_steps=64, updates=1, episodes=(Episode(20.0, 20), Episode(30.0, 30))))
        >>> totals.env_steps, totals.episode_return_mean
        (64, 25.0)
    """

    def __init__(self) -> None:
        self.env_steps = 0
        self.agent_steps = 0
        self.updates = 0
        self.episodes = 0
        self.metrics: dict[str, float] = {}
        """The newest value of each metric that was ever reported."""
        self._reports = 0
        self._last_episodes: deque[Episode] = deque(maxlen=EPISODE_WINDOW)
        self._row = _SinceRow(env_steps=0, wall_s=0.0)

    def add(self, report: Report) -> None:
        """Take in a report."""
        self.env_steps += report.env_steps
        self.agent_steps += report.agent_steps
        self.updates += report.updates
        self.episodes += len(report.episodes)
        self._reports += 1
        self._last_episodes.extend(report.episodes)
        self.metrics.update(report.metrics)
        self._row.add(report)

    def add_evaluation(self, result: EvaluationResult, seconds: float) -> None:
        """Take in an evaluation, and how long it took: time in which nothing was trained."""
        self._row.evaluation = result
        self._row.evaluating_s += seconds

    @property
    def episode_return_mean(self) -> float | None:
        """The mean return of the last episodes, at most 100; None before the first has ended."""
        return _mean(episode.episode_return for episode in self._last_episodes)

    @property
    def episode_length_mean(self) -> float | None:
        """The mean length of the last episodes, at most 100, in env steps; None before the first has ended."""
        return _mean(float(episode.length) for episode in self._last_episodes)

    @property
    def has_full_window(self) -> bool:
        """Whether 100 episodes have ended, so that their mean can be held against `stop.episode_return`."""
        return len(self._last_episodes) == EPISODE_WINDOW

    @property
    def env_steps_since_row(self) -> int:
        """The env steps that came since the last row."""
        return self.env_steps - self._row.env_steps

    @property
    def has_reports(self) -> bool:
        """Whether anything at all was reported."""
        return self._reports > 0

    @property
    def has_news(self) -> bool:
        """Whether anything at all was reported or evaluated since the last row."""
        return self._row.reports > 0 or self._row.evaluation is not None

    def take_row(self, wall_s: float) -> dict[str, float | None]:
        """Return a row of measurements, by column, and begin the next one.

        Totals are since the run began, `episode_return_mean` and `episode_length_mean` over the last 100 episodes,
        everything else since the last row: `episode_return_recent` is the mean return of the episodes that ended
        since, each metric its mean weighted by updates, and `eval_return_mean`, `eval_return_std` and
        `eval_length_mean` are there where there was an evaluation. The time of an evaluation does not count for
        `env_steps_per_s`. None stands where nothing was measured. A metric cannot take the name of another column: the
        run's own number stands.

        Args:
            wall_s: since the run began.
        """
        since, self._row = self._row, _SinceRow(self.env_steps, wall_s)
        training_s = wall_s - since.wall_s - since.evaluating_s
        env_steps = self.env_steps - since.env_steps
        first: dict[str, float | None] = {
            "env_steps": self.env_steps,
            "wall_s": round(wall_s, 3),
            "episode_return_mean": self.episode_return_mean,
            "episode_length_mean": self.episode_length_mean,
            "env_steps_per_s": round(env_steps / training_s, 1) if since.reports and training_s > 0 else None,
            "episode_return_recent": _mean(since.returns),
            "episodes": self.episodes,
            "updates": self.updates,
            "lag_mean": since.lag_mean,
            "lag_max": since.lag_max,
        }
        if since.evaluation is not None:
            first["eval_return_mean"] = since.evaluation.episode_return_mean
            first["eval_return_std"] = since.evaluation.episode_return_std
            first["eval_length_mean"] = since.evaluation.episode_length_mean
        return first | {name: mean.value for name, mean in since.metrics.items() if name not in first}

    def state_dict(self) -> dict[str, Any]:
        """Return everything, as a tree."""
        return {
            "env_steps": self.env_steps,
            "agent_steps": self.agent_steps,
            "updates": self.updates,
            "episodes": self.episodes,
            "metrics": dict(self.metrics),
            "reports": self._reports,
            "last_episodes": list(self._last_episodes),
            "row": self._row.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take what `state_dict` gave."""
        self.env_steps = state["env_steps"]
        self.agent_steps = state["agent_steps"]
        self.updates = state["updates"]
        self.episodes = state["episodes"]
        self.metrics = dict(state["metrics"])
        self._reports = state["reports"]
        self._last_episodes = deque(state["last_episodes"], maxlen=EPISODE_WINDOW)
        self._row = _SinceRow(env_steps=0, wall_s=0.0)
        self._row.load_state_dict(state["row"])


class _WeightedMean:
    """A mean that is taken one value at a time."""

    def __init__(self, total: float = 0.0, weight: float = 0.0) -> None:
        self._total = total
        self._weight = weight

    def add(self, value: float, weight: float) -> None:
        self._total += value * weight
        self._weight += weight

    @property
    def value(self) -> float | None:
        return self._total / self._weight if self._weight else None

    @property
    def parts(self) -> tuple[float, float]:
        return self._total, self._weight


class _SinceRow:
    """What was reported since a row."""

    def __init__(self, env_steps: int, wall_s: float) -> None:
        self.env_steps = env_steps
        self.wall_s = wall_s
        self.reports = 0
        self.returns: list[float] = []
        self.metrics: dict[str, _WeightedMean] = {}
        self.lag_max: float | None = None
        self.evaluation: EvaluationResult | None = None
        self.evaluating_s = 0.0
        self._lag = _WeightedMean()

    def add(self, report: Report) -> None:
        weight = max(report.updates, 1)  # a report without updates may tell something, too
        self.reports += 1
        self.returns.extend(episode.episode_return for episode in report.episodes)
        for name, value in report.metrics.items():
            self.metrics.setdefault(name, _WeightedMean()).add(value, weight)
        if report.lag is not None:
            _, mean, largest = report.lag
            self._lag.add(mean, weight)
            self.lag_max = largest if self.lag_max is None else max(self.lag_max, largest)

    @property
    def lag_mean(self) -> float | None:
        return self._lag.value

    def state_dict(self) -> dict[str, Any]:
        return {
            "env_steps": self.env_steps,
            "wall_s": self.wall_s,
            "reports": self.reports,
            "returns": list(self.returns),
            "metrics": {name: mean.parts for name, mean in self.metrics.items()},
            "lag": self._lag.parts,
            "lag_max": self.lag_max,
            "evaluation": self.evaluation,
            "evaluating_s": self.evaluating_s,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.env_steps = state["env_steps"]
        self.wall_s = state["wall_s"]
        self.reports = state["reports"]
        self.returns = list(state["returns"])
        self.metrics = {name: _WeightedMean(*parts) for name, parts in state["metrics"].items()}
        self._lag = _WeightedMean(*state["lag"])
        self.lag_max = state["lag_max"]
        self.evaluation = state["evaluation"]
        self.evaluating_s = state["evaluating_s"]


def _mean(values: Iterable[float]) -> float | None:
    taken = list(values)
    return sum(taken) / len(taken) if taken else None
