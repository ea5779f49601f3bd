"""What pytest must not take for tests."""

from __future__ import annotations

collect_ignore = ["strangers"]  # packages to be installed by tests
