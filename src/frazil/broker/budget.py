"""One bound on the bytes that all connections together hold: who would pass it waits in line."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

Resume = Callable[[], None]


class ByteBudget:
    """Counts bytes held. Waiters are resumed first come, first served, so a large frame is not starved by small ones."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used = 0
        self._waiting: deque[tuple[int, Resume]] = deque()

    def admit(self, size: int, resume: Resume) -> bool:
        """Takes ``size`` bytes, or puts ``resume`` in line and returns False. Once resumed, the bytes are taken."""
        if not self._waiting and self._fits(size):
            self.used += size
            return True
        self._waiting.append((size, resume))
        return False

    def take(self, size: int) -> None:
        """Takes bytes that exist already (answers); may pass the bound, which then holds back new requests."""
        self.used += size

    def release(self, size: int) -> None:
        """Gives bytes back and resumes who fits now."""
        self.used -= size
        while self._waiting and self._fits(self._waiting[0][0]):
            waiting_size, resume = self._waiting.popleft()
            self.used += waiting_size
            resume()

    def _fits(self, size: int) -> bool:
        # An empty house lets anybody in: a frame as large as the bound must not wait for ever.
        return self.used == 0 or self.used + size <= self.bytes_max
