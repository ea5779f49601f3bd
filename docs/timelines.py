"""Draws what the actors of a flow do when, from runs with a simulated clock; `docs/pictures.py` makes the files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rheos import Batch, LearnerReport, Report, Route, Stream, run
from rheos.errors import FlowTimeout
from rheos.executors.protocol import Call
from rheos.testing.executors import ManualExecutor
from rheos.testing.fakes import counting_learner, stamping_workers, versions_in
from rheos_ops.roles import Learner, Worker
from rheos_ops.sources import newest_weights, rollouts
from rheos_ops.stages import concat, report

INK, PALE = "#333333", "#999999"
COLORS = ("#d9d9d9", "#a6cee3", "#b2df8a", "#fdbf6f", "#cab2d6", "#fb9a99", "#ffe08a", "#8dd3c7", "#d4b483", "#c7c7e8")
PASSES = 50  # more than any of these flows needs to come to rest


@dataclass(frozen=True)
class Work:
    """A call that an actor worked on, in simulated seconds; `version` is that of the weights in it."""

    actor: str
    start_s: float
    end_s: float
    version: int
    lag: int | None = None


def simulate(stream: Stream[Report], seconds: Mapping[str, float], until_s: float) -> list[Work]:
    """Run a flow with a simulated clock and a consumer that always comes back at once.

    Args:
        stream: what to run.
        seconds: how long each actor, by name, needs for a call; loading weights takes none.
        until_s: when to stop.
    """
    manual = ManualExecutor()
    works: list[Work] = []
    due: dict[str, tuple[float, float]] = {}  # when an actor began what it works on, and when it is done
    now_s = 0.0
    with run(stream, manual) as flow:
        while now_s < until_s:
            for _ in range(PASSES):
                try:
                    flow.next(timeout_s=0)
                except FlowTimeout:
                    continue
            for name, actor in manual.actors.items():
                if name not in due and actor.waiting and _can_begin(actor.waiting[0]):
                    due[name] = (now_s, now_s + (0.0 if _is_instant(actor.waiting[0]) else seconds[name]))
            name = min(due, key=lambda one: due[one][1])
            start_s, now_s = due.pop(name)
            call = manual.actors[name].waiting[0]
            manual.actors[name].finish()
            works.append(_work(call, start_s, now_s))
    return [work for work in works if work.end_s <= until_s]


def _can_begin(call: Call) -> bool:
    return not isinstance(call.message, Call) or call.message.finished


def _is_instant(call: Call) -> bool:
    return call.method not in ("rollout", "update")


def _work(call: Call, start_s: float, end_s: float) -> Work:
    value = call.value
    if isinstance(value, Batch):
        return Work(call.actor, start_s, end_s, versions_in(value)[0])
    if isinstance(value, LearnerReport):
        return Work(call.actor, start_s, end_s, value.version, value.version - 1 - value.info.version_min)
    return Work(call.actor, start_s, end_s, -1)


def draw_timeline(axes: Axes, title: str, works: Sequence[Work], until_s: float) -> None:
    """Draw a lane for each actor, and a bar for each call; its color is the version of the weights."""
    names = sorted({work.actor for work in works}, key=lambda name: (name == "learner", name))
    for work in works:
        if work.end_s == work.start_s:
            continue
        lane, width = names.index(work.actor), work.end_s - work.start_s
        color = COLORS[work.version % len(COLORS)]
        axes.barh(lane, width, left=work.start_s, height=0.62, color=color, edgecolor=INK, linewidth=0.7)
        text = f"v{work.version}" if work.lag is None else f"→v{work.version}"
        middle = work.start_s + width / 2
        axes.text(middle, lane, text, ha="center", va="center", fontsize=8, color=INK)
        if work.lag is not None:
            axes.text(middle, lane + 0.56, f"lag {work.lag}", ha="center", va="center", fontsize=7.5, color=INK)
    axes.set_title(title, loc="left", fontsize=9.5, color=INK, family="monospace")
    axes.set_yticks(range(len(names)), names, fontsize=8.5)
    axes.set_ylim(len(names) - 0.2, -0.6)
    axes.set_xlim(0, until_s)
    axes.set_xticks([])
    axes.tick_params(length=0, colors=INK)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.annotate(
        "time",
        xy=(1, -0.02),
        xytext=(0.93, -0.02),
        xycoords="axes fraction",
        va="center",
        ha="right",
        fontsize=8,
        color=PALE,
        arrowprops={"arrowstyle": "-|>", "color": PALE},
    )


@dataclass(frozen=True)
class Panel:
    """One timeline of a picture: a training program by its gather and its window, and how quick its actors are."""

    title: str
    gather: Callable[[Any], Stream[Batch]]
    rollout_s: Sequence[float]
    update_s: float = 1.0
    until_s: float = 12.0
    in_flight: int = 1
    route: Route = Route.SOURCE

    def works(self) -> list[Work]:
        """Run the program and return what its actors did."""
        workers, learner = stamping_workers(len(self.rollout_s)), counting_learner()
        newest = newest_weights(learner)
        stream = (
            self.gather(rollouts(workers, newest))
            .ask(learner, Learner.update, in_flight=self.in_flight)
            .tell(workers, Worker.load, message=newest, route=self.route)
            .map(report)
        )
        seconds = {f"rollout-{index}": rollout_s for index, rollout_s in enumerate(self.rollout_s)}
        return simulate(stream, {**seconds, "learner": self.update_s}, self.until_s)


def draw_panels(panels: Sequence[Panel], output: Path) -> None:
    """Draw timelines one below the other."""
    lanes = [len(panel.rollout_s) + 1 for panel in panels]
    figure = Figure(figsize=(8.0, sum(0.42 * count + 0.55 for count in lanes)), dpi=120, layout="constrained")
    all_axes = figure.subplots(len(panels), 1, squeeze=False, gridspec_kw={"height_ratios": lanes})[:, 0]
    for axes, panel in zip(all_axes, panels, strict=True):
        draw_timeline(axes, panel.title, panel.works(), panel.until_s)
    with rc_context({"svg.hashsalt": output.name}):  # the same picture is the same file
        figure.savefig(output, metadata={"Date": None})


def _async(in_flight: int) -> Callable[[Any], Stream[Batch]]:
    return lambda shards: shards.gather_async(in_flight=in_flight)


def _sync(shards: Any) -> Stream[Batch]:
    return shards.gather_sync().map(concat)  # type: ignore[no-any-return]


def draw_barrier(output: Path) -> None:
    """Draw that every rollout of a round has the newest weights, and what that costs."""
    draw_panels([Panel("gather_sync()", _sync, (2.2, 3.0, 2.6), route=Route.ALL, until_s=16.2)], output)


def draw_own_lag(output: Path) -> None:
    """Draw one worker, whose weights come later the more of its rollouts were asked for before."""
    panels = [
        Panel("gather_async(in_flight=1)   own lag 0", _async(1), (2.0,)),
        Panel("gather_async(in_flight=2)   own lag 1", _async(2), (2.0,)),
    ]
    draw_panels(panels, output)


def draw_version_lag(output: Path) -> None:
    """Draw that the updates from other workers' rollouts make a rollout old, the more so of a slow worker."""
    panels = [
        Panel("gather_async(), equal workers", _async(1), (3.0, 3.0, 3.0), until_s=18.2),
        Panel("gather_async(), one slow worker", _async(1), (2.0, 2.0, 9.1), update_s=0.95, until_s=18.2),
    ]
    draw_panels(panels, output)


def draw_back_pressure(output: Path) -> None:
    """Draw that a slow learner holds its workers up, and by how much less where it may have two batches."""
    panels = [
        Panel("gather_async()  ask(in_flight=1)", _async(1), (1.4, 1.4), update_s=2.0, until_s=14.2),
        Panel("gather_async()  ask(in_flight=2)", _async(1), (1.4, 1.4), update_s=2.0, until_s=14.2, in_flight=2),
    ]
    draw_panels(panels, output)


TIMELINES: Mapping[str, Callable[[Path], None]] = {
    "time-barrier.svg": draw_barrier,
    "time-own-lag.svg": draw_own_lag,
    "time-version-lag.svg": draw_version_lag,
    "time-back-pressure.svg": draw_back_pressure,
}
