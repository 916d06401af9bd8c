"""Named points in product code where a fault harness may stop the process (B1-B5, P1-P7 of docs/proof.md).

In production no hook is set and a point costs one attribute read. The harness sets ``FRAZIL_FAULT=B3:2`` (point, n-th
passage); ``assembly`` reads it once and calls ``arm``. In simulation ``arm`` gets a function that raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

POINTS: Final = ("B1", "B2", "B3", "B4", "B5", "P1", "P2", "P3", "P4", "P5", "P6", "P7")

Hook = Callable[[str], None]


class FaultPoints:
    """Holds at most one hook; components get an instance as an argument."""

    __slots__ = ("_hook",)

    def __init__(self, hook: Hook | None = None) -> None:
        self._hook = hook

    def arm(self, hook: Hook | None) -> None:
        """Sets or clears the hook, called with the point's name at each passage."""
        self._hook = hook

    def reach(self, point: str) -> None:
        """Marks the passage of ``point``."""
        if self._hook is not None:
            self._hook(point)
