"""A lock whose line can be seen: requests of one connection keep their order (R03)."""

from __future__ import annotations

import asyncio
from types import TracebackType


class Turns(asyncio.Lock):
    """First come, first served. ``busy`` while anybody is inside or in line.

    ``locked`` is not enough for a newcomer to decide whether it may pass: it is False from a release until the next in line has run.
    """

    def __init__(self) -> None:
        super().__init__()
        self._present = 0
        self._announced = 0

    @property
    def busy(self) -> bool:
        """Whoever comes now has to stand in line to keep the order."""
        return self._present > 0

    def announce(self) -> None:
        """Somebody will enter in a task that has not begun yet; who comes meanwhile is behind it. One announcement, one entry."""
        self._present += 1
        self._announced += 1

    async def __aenter__(self) -> None:
        if self._announced:
            self._announced -= 1
        else:
            self._present += 1
        try:
            await self.acquire()
        except BaseException:
            self._present -= 1
            raise

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._present -= 1
        self.release()
