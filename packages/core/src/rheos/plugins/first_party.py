"""Which package provides which name: a table, for a helpful message where the package is not installed."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["EXPORTERS", "PROVIDERS"]

PROVIDERS: Mapping[str, Mapping[str, str]] = {
    "algorithm": {
        **dict.fromkeys(("ppo", "a2c", "a3c"), "rheos-algos-ppo"),
        **dict.fromkeys(("dqn", "rainbow", "qrdqn", "apex", "r2d2"), "rheos-algos-apex"),
        **dict.fromkeys(("impala", "appo"), "rheos-algos-impala"),
        **dict.fromkeys(("sac", "td3", "ddpg"), "rheos-algos-sac"),
    },
    "backend": {"torch": "rheos-backend-torch", "tf": "rheos-backend-tf"},
    "executor": {"ray": "rheos-executor-ray"},
    "environment": {},
    "logger": {"tensorboard": "rheos-cli"},
}
"""Kind -> name -> package."""

EXPORTERS: Mapping[str, str] = {
    "onnx": "'rheos-backend-torch[onnx]'",
    "savedmodel": "rheos-backend-tf",
    "torch": "rheos-backend-torch",
}
"""Format of an exported policy -> package, as pip takes it."""
