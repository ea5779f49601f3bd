"""Finding: what one check of an environment found."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

__all__ = ["Finding", "Verdict"]


class Verdict(StrEnum):
    """How a check came out."""

    OK = "ok"
    WARNING = "warning"
    """Training works, but not as it might be expected to."""
    PROBLEM = "problem"
    """Training fails, or learns from what is not so."""


class Finding(NamedTuple):
    """What a check found."""

    check: str
    verdict: Verdict
    message: str
