"""Spaces of environments, and adapters between them and flat arrays."""

from __future__ import annotations

from rheos.spaces.actions import ActionAdapter
from rheos.spaces.observations import ObservationAdapter
from rheos.spaces.spaces import Spaces

__all__ = ["ActionAdapter", "ObservationAdapter", "Spaces"]
