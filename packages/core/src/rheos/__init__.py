"""Rheos: distributed reinforcement learning, written as short dataflow programs over actors.

Everything here is imported when it is first used, so that `import rheos` itself costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rheos.backend import SGD as SGD
    from rheos.backend import Adam as Adam
    from rheos.backend import AdamW as AdamW
    from rheos.backend import RMSProp as RMSProp
    from rheos.batches import Batch as Batch
    from rheos.batches import BatchInfo as BatchInfo
    from rheos.batches import Episode as Episode
    from rheos.environments.environment import Environment as Environment
    from rheos.errors import RheosError as RheosError
    from rheos.networks.specs import CNN as CNN
    from rheos.networks.specs import GRU as GRU
    from rheos.networks.specs import LSTM as LSTM
    from rheos.networks.specs import MLP as MLP
    from rheos.networks.specs import Activation as Activation
    from rheos.networks.specs import Heads as Heads
    from rheos.networks.specs import Native as Native
    from rheos.networks.specs import Normalizer as Normalizer
    from rheos.networks.specs import Parameter as Parameter
    from rheos.networks.specs import ResNet as ResNet
    from rheos.networks.specs import Tree as Tree
    from rheos.plugins.hooks import hookimpl as hookimpl
    from rheos.policies import PolicySpec as PolicySpec
    from rheos.reports import LearnerReport as LearnerReport
    from rheos.reports import Report as Report
    from rheos.reports import Weights as Weights
    from rheos.runs.context import RunContext as RunContext
    from rheos.runs.evaluation import evaluate as evaluate
    from rheos.runs.evaluation_result import EvaluationResult as EvaluationResult
    from rheos.runs.exporting import export_policy as export_policy
    from rheos.runs.policy import Policy as Policy
    from rheos.runs.policy import load_policy as load_policy
    from rheos.runs.resuming import resume as resume
    from rheos.runs.status import RunResult as RunResult
    from rheos.runs.status import RunState as RunState
    from rheos.runs.training import train as train
    from rheos.scheduler.flow import Flow as Flow
    from rheos.scheduler.flow import run as run
    from rheos.scheduler.recovery import FailurePolicy as FailurePolicy
    from rheos.seeds import generator_for as generator_for
    from rheos.spaces import Spaces as Spaces
    from rheos.streams.actors import Actor as Actor
    from rheos.streams.actors import ActorGroup as ActorGroup
    from rheos.streams.actors import EndOfShard as EndOfShard
    from rheos.streams.actors import NotReady as NotReady
    from rheos.streams.actors import Placement as Placement
    from rheos.streams.actors import Published as Published
    from rheos.streams.actors import Route as Route
    from rheos.streams.stream import ShardedStream as ShardedStream
    from rheos.streams.stream import Stream as Stream
    from rheos.streams.stream import concurrently as concurrently
    from rheos.streams.stream import from_actors as from_actors
    from rheos.streams.stream import from_items as from_items
    from rheos.streams.stream import round_robin as round_robin

_HOMES = {
    "Activation": "rheos.networks.specs",
    "Actor": "rheos.streams.actors",
    "ActorGroup": "rheos.streams.actors",
    "Adam": "rheos.backend",
    "AdamW": "rheos.backend",
    "Batch": "rheos.batches",
    "BatchInfo": "rheos.batches",
    "CNN": "rheos.networks.specs",
    "EndOfShard": "rheos.streams.actors",
    "Environment": "rheos.environments.environment",
    "Episode": "rheos.batches",
    "EvaluationResult": "rheos.runs.evaluation_result",
    "FailurePolicy": "rheos.scheduler.recovery",
    "Flow": "rheos.scheduler.flow",
    "GRU": "rheos.networks.specs",
    "Heads": "rheos.networks.specs",
    "LSTM": "rheos.networks.specs",
    "LearnerReport": "rheos.reports",
    "MLP": "rheos.networks.specs",
    "Native": "rheos.networks.specs",
    "Normalizer": "rheos.networks.specs",
    "NotReady": "rheos.streams.actors",
    "Parameter": "rheos.networks.specs",
    "Placement": "rheos.streams.actors",
    "Policy": "rheos.runs.policy",
    "PolicySpec": "rheos.policies",
    "Published": "rheos.streams.actors",
    "RMSProp": "rheos.backend",
    "Report": "rheos.reports",
    "ResNet": "rheos.networks.specs",
    "RheosError": "rheos.errors",
    "Route": "rheos.streams.actors",
    "RunContext": "rheos.runs.context",
    "RunResult": "rheos.runs.status",
    "RunState": "rheos.runs.status",
    "SGD": "rheos.backend",
    "ShardedStream": "rheos.streams.stream",
    "Spaces": "rheos.spaces",
    "Stream": "rheos.streams.stream",
    "Tree": "rheos.networks.specs",
    "Weights": "rheos.reports",
    "concurrently": "rheos.streams.stream",
    "evaluate": "rheos.runs.evaluation",
    "export_policy": "rheos.runs.exporting",
    "from_actors": "rheos.streams.stream",
    "from_items": "rheos.streams.stream",
    "generator_for": "rheos.seeds",
    "hookimpl": "rheos.plugins.hooks",
    "load_policy": "rheos.runs.policy",
    "resume": "rheos.runs.resuming",
    "round_robin": "rheos.streams.stream",
    "run": "rheos.scheduler.flow",
    "train": "rheos.runs.training",
}

__all__ = [
    "CNN",
    "GRU",
    "LSTM",
    "MLP",
    "SGD",
    "Activation",
    "Actor",
    "ActorGroup",
    "Adam",
    "AdamW",
    "Batch",
    "BatchInfo",
    "EndOfShard",
    "Environment",
    "Episode",
    "EvaluationResult",
    "FailurePolicy",
    "Flow",
    "Heads",
    "LearnerReport",
    "Native",
    "Normalizer",
    "NotReady",
    "Parameter",
    "Placement",
    "Policy",
    "PolicySpec",
    "Published",
    "RMSProp",
    "Report",
    "ResNet",
    "RheosError",
    "Route",
    "RunContext",
    "RunResult",
    "RunState",
    "ShardedStream",
    "Spaces",
    "Stream",
    "Tree",
    "Weights",
    "concurrently",
    "evaluate",
    "export_policy",
    "from_actors",
    "from_items",
    "generator_for",
    "hookimpl",
    "load_policy",
    "resume",
    "round_robin",
    "run",
    "train",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import a public name from its home the first time it is used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'rheos' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return [*__all__, "__version__"]
