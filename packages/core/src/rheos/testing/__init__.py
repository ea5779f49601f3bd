"""Fakes and contract suites for those who write algorithms and plugins.

`check_component` and `ComponentFailure` are imported when they are first used; all else is in modules of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rheos.testing.components import ComponentFailure as ComponentFailure
    from rheos.testing.components import check_component as check_component

__all__ = ["ComponentFailure", "check_component"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from rheos.testing import components

        return getattr(components, name)
    raise AttributeError(f"module 'rheos.testing' has no attribute {name!r}")
