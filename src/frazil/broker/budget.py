"""One bound on the bytes that all connections together hold: who would pass it waits in line.

Bytes are charged when they are there, never because a frame says it will be large: a size field costs its sender nothing.
Frames that are still arriving may fill half of the bound only, so that a crowd of unfinished ones leaves room for whole
requests; one of them at a time may pass that, and the bound itself where nothing but unfinished frames is held, so that
they cannot all wait for each other. Requests therefore hold at most ``bytes_max`` plus the largest frame.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

Resume = Callable[[], None]


class Arrival:
    """Bytes held for one frame that is still arriving."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = 0


class ByteBudget:
    """Counts bytes held. Waiters are resumed first come, first served, so a large frame is not starved by small ones."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used = 0
        self._arriving = 0
        self._first: Arrival | None = None
        """The one frame that may pass half of the bound."""
        self._waiting: deque[tuple[int, Resume]] = deque()
        self._growing: deque[tuple[Arrival, int, Resume]] = deque()

    def admit(self, size: int, resume: Resume) -> bool:
        """Takes ``size`` bytes for a whole frame, or puts ``resume`` in line and returns False. Once resumed, the bytes are taken."""
        if not self._waiting and self._fits(size):
            self.used += size
            return True
        self._waiting.append((size, resume))
        return False

    def try_admit(self, size: int) -> bool:
        """Takes ``size`` bytes if nobody waits and they fit; never puts anybody in line."""
        if self._waiting or not self._fits(size):
            return False
        self.used += size
        return True

    def grow(self, arrival: Arrival, more: int, resume: Resume) -> bool:
        """Takes ``more`` bytes for a frame on its way in, or puts it in line and returns False. Once resumed, the bytes are taken."""
        first = arrival is self._first
        if (first or not self._growing) and self._may_grow(arrival, more):
            self._add(arrival, more)
            return True
        if first:
            self._growing.appendleft((arrival, more, resume))
        else:
            self._growing.append((arrival, more, resume))
        return False

    def arrived(self, arrival: Arrival) -> int:
        """The frame is whole: its bytes count like those of any request from now on. Returns them."""
        self._arriving -= arrival.held
        self._step_back(arrival)
        return arrival.held

    def leave(self, arrival: Arrival) -> None:
        """The frame will never be whole: its bytes and its place in line are given up."""
        if any(waiting is arrival for waiting, _, _ in self._growing):
            self._growing = deque(entry for entry in self._growing if entry[0] is not arrival)
        self._arriving -= arrival.held
        self.used -= arrival.held
        self._step_back(arrival)

    def take(self, size: int) -> None:
        """Takes bytes that exist already (answers); may pass the bound, which then holds back new requests."""
        self.used += size

    def release(self, size: int) -> None:
        """Gives bytes back and resumes who fits now."""
        self.used -= size
        self._resume()

    def _step_back(self, arrival: Arrival) -> None:
        if self._first is arrival:
            self._first = None
        self._resume()

    def _resume(self) -> None:
        while self._growing and self._may_grow(self._growing[0][0], self._growing[0][1]):
            arrival, more, resume = self._growing.popleft()
            self._add(arrival, more)
            resume()
        while self._waiting and self._fits(self._waiting[0][0]):
            size, resume = self._waiting.popleft()
            self.used += size
            resume()

    def _add(self, arrival: Arrival, more: int) -> None:
        arrival.held += more
        self._arriving += more
        self.used += more

    def _fits(self, size: int) -> bool:
        # An empty house lets anybody in: a frame as large as the bound must not wait for ever.
        return self.used == 0 or self.used + size <= self.bytes_max

    def _may_grow(self, arrival: Arrival, more: int) -> bool:
        fits = self.used + more <= self.bytes_max
        if fits and self._arriving + more <= self.bytes_max // 2:
            return True
        # Requests give their bytes back some day; unfinished frames alone never would.
        if self._first in (None, arrival) and (fits or self.used == self._arriving):
            self._first = arrival
            return True
        return False
