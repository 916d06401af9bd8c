"""A network of in-memory connections on the virtual loop: latency by seed, cuts at any byte, whole hosts that vanish.

Two asyncio protocols are joined by a pair of ``Wire`` transports. Bytes arrive in order per direction, after a delay.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Callable
from typing import Any


class Wire(asyncio.Transport):
    """One end of a simulated TCP connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, chance: random.Random, latency_ms: float, peer_name: str) -> None:
        super().__init__(extra={"peername": (peer_name, 0), "sockname": ("sim", 0)})
        self._loop, self._chance, self._latency_ms = loop, chance, latency_ms
        self.context: contextvars.Context | None = None
        """In which the protocol of this end runs: that of its process, so that a stopped process hears nothing."""
        self._protocol: asyncio.BaseProtocol | None = None
        self._other: Wire | None = None
        self._closing = False
        self._lost = False
        self._arrives_at = 0.0
        self._paused = False
        self._waiting: list[bytes] = []
        self._ended_by_peer = False

    def join(self, other: Wire, protocol: asyncio.BaseProtocol) -> None:
        self._other, self._protocol = other, protocol
        self._loop.call_soon(protocol.connection_made, self, context=self.context)

    # --- what protocols call

    def write(self, data: Any) -> None:
        if self._closing or self._other is None:
            return
        self._send(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(bytes(part) for part in list_of_data))

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._at(lambda other: other._peer_ended())
            self._loop.call_soon(self._lose, None, context=self.context)

    def abort(self) -> None:
        self._closing = True
        self._at(lambda other: other._lose(ConnectionResetError("peer aborted")))
        self._loop.call_soon(self._lose, None, context=self.context)

    def is_closing(self) -> bool:
        return self._closing

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        return None

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        waiting, self._waiting = self._waiting, []
        for data in waiting:
            self._loop.call_soon(self._deliver, data, context=self.context)

    def is_reading(self) -> bool:
        return not self._paused

    # --- the simulated cable

    def _at(self, act: Callable[[Wire], None]) -> None:
        other = self._other
        if other is None:
            return
        delay = self._latency_ms * (0.5 + self._chance.random()) / 1000
        self._arrives_at = max(self._arrives_at + 1e-7, self._loop.time() + delay)  # never equal: timers of one instant have no order
        self._loop.call_at(self._arrives_at, act, other, context=other.context)

    def _send(self, data: bytes) -> None:
        self._at(lambda other: other._deliver(data))

    def _deliver(self, data: bytes) -> None:
        if self._lost or self._protocol is None:
            return
        if self._paused:
            self._waiting.append(data)
            return
        if isinstance(self._protocol, asyncio.BufferedProtocol):
            view = memoryview(data)
            while view and not self._lost:
                if self._paused:
                    self._waiting.insert(0, bytes(view))
                    return
                buffer = memoryview(self._protocol.get_buffer(len(view)))
                count = min(len(buffer), len(view))
                buffer[:count] = view[:count]
                self._protocol.buffer_updated(count)
                view = view[count:]
        elif isinstance(self._protocol, asyncio.Protocol):
            self._protocol.data_received(data)

    def _peer_ended(self) -> None:
        if not self._lost:
            self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = self._closing = True
        if self._protocol is not None:
            self._protocol.connection_lost(error)

    def cut(self) -> None:
        """The cable is cut: both ends see a reset now; bytes under way are lost."""
        for end in (self, self._other):
            if end is not None:
                end._loop.call_soon(end._lose, ConnectionResetError("cut"), context=end.context)

    def vanish(self, after_ms: float = 0.0) -> None:
        """This process is gone: its protocol hears nothing any more; the other end sees a reset, ``after_ms`` later.

        Bytes sent before may still arrive in that time.
        """
        self._lost = self._closing = True
        other = self._other
        if other is not None:
            self._loop.call_later(after_ms / 1000, other._lose, ConnectionResetError("host gone"), context=other.context)


def connect(
    chance: random.Random,
    server: asyncio.BaseProtocol,
    client: asyncio.BaseProtocol,
    *,
    latency_ms: float,
    name: str,
    server_context: contextvars.Context | None = None,
) -> tuple[Wire, Wire]:
    """Joins ``client`` and ``server``; returns (client end, server end). The client runs in the caller's context."""
    loop = asyncio.get_running_loop()
    near, far = Wire(loop, chance, latency_ms, name), Wire(loop, chance, latency_ms, name)
    near.context, far.context = contextvars.copy_context(), server_context
    far.join(near, server)
    near.join(far, client)
    return near, far
