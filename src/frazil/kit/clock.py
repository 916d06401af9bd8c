"""Time as a port: the real clock, and one that tests move by hand. Sleeping goes through asyncio, whose loop tests replace."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from frazil.kit.names import TimestampMs


class Clock(Protocol):
    """Where product code takes time from."""

    def now_ms(self) -> TimestampMs:
        """Wall clock, Unix milliseconds."""
        ...

    def monotonic_ms(self) -> float:
        """Milliseconds since an arbitrary start; never goes back."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> TimestampMs:
        """Wall clock, Unix milliseconds."""
        return TimestampMs(time.time_ns() // 1_000_000)

    def monotonic_ms(self) -> float:
        """Milliseconds since an arbitrary start."""
        return time.monotonic() * 1000.0


class LoopClock:
    """Time of the running asyncio loop plus a fixed epoch; under the simulated loop this is virtual time."""

    def __init__(self, epoch_ms: int = 1_700_000_000_000) -> None:
        self._epoch_ms = epoch_ms

    def now_ms(self) -> TimestampMs:
        """Wall clock, Unix milliseconds."""
        return TimestampMs(self._epoch_ms + int(asyncio.get_running_loop().time() * 1000))

    def monotonic_ms(self) -> float:
        """Milliseconds of loop time."""
        return asyncio.get_running_loop().time() * 1000.0
