"""Spaces of environments, and adapters between them and arrays of numbers."""

from __future__ import annotations

from rheos.spaces.actions import ActionAdapter, ActionPart
from rheos.spaces.faults import Fault
from rheos.spaces.observations import ACTION_MASK, Column, ObservationAdapter
from rheos.spaces.spaces import Spaces

__all__ = ["ACTION_MASK", "ActionAdapter", "ActionPart", "Column", "Fault", "ObservationAdapter", "Spaces"]
