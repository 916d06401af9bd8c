"""A large frame on its way in: its buffer grows with the bytes that have come, so that a claimed size costs nothing."""

from __future__ import annotations

_FIRST_BYTES = 32 * 1024
_GROWTH = 4
"""Each buffer is this many times the one before: copying stays below a third of the frame."""


class Incoming:
    """Receives ``size`` bytes of a frame, of which ``head`` is there already."""

    __slots__ = ("_buffer", "filled", "size")

    def __init__(self, size: int, head: memoryview) -> None:
        self.size = size
        self._buffer = bytearray(first_capacity(size, len(head)))
        self.filled = len(head)
        self._buffer[: self.filled] = head

    def room(self) -> memoryview:
        """Where the next bytes go."""
        return memoryview(self._buffer)[self.filled :]

    @property
    def whole(self) -> bool:
        """All bytes are there."""
        return self.filled == self.size

    @property
    def more(self) -> int:
        """Bytes the buffer must grow by before anything else can be received; 0: there is room, or the frame is whole."""
        have = len(self._buffer)
        return min(self.size, _GROWTH * have) - have if self.filled == have else 0

    def grow(self) -> None:
        """Makes the room ``more`` asked for. A new buffer: the transport may still hold a view of the old one."""
        larger = bytearray(len(self._buffer) + self.more)
        larger[: self.filled] = self._buffer
        self._buffer = larger

    def frame(self) -> memoryview:
        """The bytes of the whole frame."""
        return memoryview(self._buffer)


def first_capacity(size: int, have: int) -> int:
    """Bytes that are reserved when a frame of ``size`` bytes begins, of which ``have`` are there."""
    return min(size, max(_FIRST_BYTES, _GROWTH * have))
