"""Every error that Rheos raises, in one tree.

    RheosError
    ├── UsageError              the user asked for something that cannot be: exit code 2, nothing left half-made
    │   ├── UnknownName         no plugin offers the name
    │   ├── ConfigError         a setting has a wrong name, type or range
    │   ├── PluginError         a plugin cannot be used: its import fails, its version does not fit, its name is taken
    │   ├── SpaceError          a space, or a leaf of it, that the algorithm cannot take
    │   └── RunFolderError      a folder that is no run, or a run that lacks what was asked of it
    ├── ObservationOutside      an observation has a value that its space has not
    ├── ShapeError              arrays whose shapes do not fit together (also a ValueError)
    ├── TreeError               a state that cannot be written, or was not written by Rheos
    └── FlowError               a dataflow that cannot go on
        ├── FlowMistake         found while the flow was built or checked, before anything started
        ├── FlowStalled         nothing is outstanding and nothing can move
        ├── FlowTimeout         no item within the time that the caller gave
        ├── UserStopIteration   user code raised StopIteration, StopAsyncIteration or GeneratorExit
        ├── UserExit            user code raised SystemExit, or something else that is no Exception
        ├── ActorDied           an actor is gone, or could not be made anew
        ├── ActorStuck          an actor did not end in the time that it was given
        ├── ItemLost            columns that stayed with an actor are gone with the machine that held them
        └── EnvironmentFailed   an environment raised, or gave something that is not a transition

What goes on all the same is a `RheosWarning`; the command line shows it as one line, `rheos: warning: ...`.

An error that user code raises keeps its type: Rheos only adds notes that say where in the flow it happened.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "ActorDied",
    "ActorStuck",
    "ConfigError",
    "EnvironmentFailed",
    "FlowError",
    "FlowMistake",
    "FlowStalled",
    "FlowTimeout",
    "ItemLost",
    "ObservationOutside",
    "PluginError",
    "RheosError",
    "RheosWarning",
    "RunFolderError",
    "ShapeError",
    "SpaceError",
    "TreeError",
    "UnknownName",
    "UsageError",
    "UserExit",
    "UserStopIteration",
    "did_you_mean",
]


class RheosError(Exception):
    """The root of all errors that Rheos raises itself."""


class RheosWarning(UserWarning):
    """Something is not as it should be, and Rheos goes on; one line says what, and what to do."""


class UsageError(RheosError):
    """The user asked for something that cannot be; the command line exits with 2."""


class UnknownName(UsageError):
    """No installed plugin offers the name; the message says which are there, or what to install."""


class ConfigError(UsageError):
    """A setting has a wrong name, type or range; the message gives its path, what it got and what it expects."""


class PluginError(UsageError):
    """A plugin cannot be used; the message names the package, its version and the cause."""


class ObservationOutside(RheosError):
    """An observation has a value that its space has not; whoever stepped the environment says which one it was.

    Args:
        row: of the batch.
        leaf: its place in the observation: `observation['speed']`.
        what: `is 7, expected an integer from 0 to 2`.
    """

    def __init__(self, row: int, leaf: str, what: str) -> None:
        super().__init__(f"{leaf} {what}")
        self.row, self.leaf, self.what = row, leaf, what


class SpaceError(UsageError):
    """A space that cannot be taken; the message gives the path of the leaf and the reason."""


class RunFolderError(UsageError):
    """A folder that is no run, or a run that lacks what was asked of it."""


class ShapeError(RheosError, ValueError):
    """Arrays whose shapes do not fit together."""


class TreeError(RheosError):
    """A state that cannot be written, or was not written by Rheos; the message gives the path of the leaf."""


class FlowError(RheosError):
    """A dataflow that cannot go on."""


class FlowMistake(FlowError):
    """A mistake in the text of a flow, found before anything started."""


class FlowStalled(FlowError):
    """Nothing is outstanding and nothing can move; the message names the waiting stages."""


class FlowTimeout(FlowError, TimeoutError):
    """No item came within the time that the caller gave; the message names what is outstanding."""


class UserStopIteration(FlowError):
    """User code raised StopIteration, StopAsyncIteration or GeneratorExit, which would look like an end."""


class UserExit(FlowError):
    """User code raised SystemExit, or something else that is no Exception, which would end the program."""


class ActorDied(FlowError):
    """An actor is gone, with what was sent to it, or could not be made anew; the message names it."""


class ActorStuck(FlowError):
    """An actor did not end in the time that it was given; the message names it and what it works on."""


class ItemLost(FlowError):
    """Columns that stayed where an actor lived are gone; a flow that recovers from failures goes on without them."""


class EnvironmentFailed(FlowError):
    """An environment raised, or gave something that is not a transition."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "Did you mean 'x'? " for the nearest of the known names, or "" where none is near.

    Near is a similar spelling, whatever the case, or the initials of the words.

    Example:
        >>> did_you_mean("pppo", ["ppo", "dqn"])
        "Did you mean 'ppo'? "
        >>> did_you_mean("lr", ["learning_rate", "num_epochs"])
        "Did you mean 'learning_rate'? "
        >>> did_you_mean("sac", ["ppo", "dqn"])
        ''
    """
    by_lower = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    near += [lower for lower in by_lower if "_" in lower and name.lower() == "".join(w[:1] for w in lower.split("_"))]
    return f"Did you mean {by_lower[near[0]]!r}? " if near else ""
