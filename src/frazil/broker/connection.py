"""One client connection: bytes in, frames to the dispatcher, answers out in the order of the requests.

A ``BufferedProtocol`` that any asyncio transport can carry (socket or in-memory). Small frames are cut from one scratch
buffer; a large frame is received straight into a buffer of its own, which grows as it fills. Requests are handled concurrently
(an S3-backed ack takes long and clients pipeline), their answers leave in order.

Back-pressure, all by ``pause_reading``: too many requests of this connection are open, the peer does not read its answers,
or all connections together hold too many bytes (``ByteBudget``). A malformed frame closes this connection only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from frazil.broker.budget import Arrival, ByteBudget
from frazil.broker.complaints import Complaints
from frazil.broker.counters import BrokerCounters
from frazil.broker.incoming import Incoming, first_capacity
from frazil.broker.settings import BrokerSettings
from frazil.broker.turns import Turns
from frazil.kit.errors import Bug, Corrupt
from frazil.kit.faultpoints import FaultPoints
from frazil.wire.frame import SIZE_BYTES, frame_size
from frazil.wire.layout import Blob

SCRATCH_BYTES = 64 * 1024
"""The scratch buffer of a busy connection; it begins with a sixteenth, since most connections are idle or say little."""
_OWN_BUFFER_BYTES = 16 * 1024
"""Frames from this size on that are not complete yet get a buffer of their own."""
_SMALL_FRAME_BYTES_MAX = 8 * 1024 * 1024
"""Only Produce requests carry records; decoding any other kind may make many times its frame in objects."""
_HELD_ANSWERS_BYTES_MAX = 16 * 1024 * 1024
"""A connection with this much waiting behind an unanswered request asks nothing more until that is answered."""
_PRODUCE_KEY = b"\0\0"
_ONE_BY_ONE = 8
"""After a look for a burst that found none, so many requests are taken without another look."""


class Exchange:
    """One request and the place of its answer in the order of this connection."""

    __slots__ = ("_connection", "answer_bytes", "charge", "done", "fault_point", "parts", "requests", "task")

    def __init__(self, connection: Connection, charge: int, requests: int = 1) -> None:
        self._connection = connection
        self.charge = charge
        self.requests = requests
        """How many requests it stands for: more than one for a burst, which is answered in one piece."""
        self.answer_bytes = 0
        self.parts: Sequence[Blob] = ()
        self.done = False
        self.fault_point = ""
        """Reached when the answer has been handed to the transport."""
        self.task: asyncio.Task[None] | None = None
        """Set for requests that end with their connection (a long poll)."""

    def finish(self, parts: Sequence[Blob]) -> int:
        """The answer; empty for a request that is not answered (acks=0). Returns its size; it counts from now on."""
        self.parts = () if self._connection.gone else parts
        self.done = True
        self.answer_bytes = len(self.parts[0]) if len(self.parts) == 1 else sum(map(len, self.parts))
        self._connection.answer_ready(self.answer_bytes)
        return self.answer_bytes


class Serve(Protocol):
    """Takes a frame; calls ``exchange.finish`` now or later. Raises Corrupt for a frame that is not a request."""

    def __call__(self, connection: Connection, exchange: Exchange, frame: memoryview) -> None:
        """Starts handling one request."""
        ...


class ServeBurst(Protocol):
    """Takes pipelined Produce requests from the front of the bytes received; answers where they end, ``start``: took none."""

    def __call__(self, connection: Connection, view: memoryview, start: int, end: int) -> int:
        """Starts handling some requests, through ``connection.begin``."""
        ...


@dataclass(slots=True, kw_only=True)
class House:
    """What the connections of one broker share."""

    settings: BrokerSettings
    serve: Serve
    serve_burst: ServeBurst | None = None
    budget: ByteBudget
    counters: BrokerCounters
    faults: FaultPoints
    complaints: Complaints
    connections: dict[Connection, None] = field(default_factory=dict)
    """In order of arrival; a dict because a set's order would depend on addresses."""


class Connection(asyncio.BufferedProtocol):
    """See the module's docstring."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._scratch = bytearray(SCRATCH_BYTES // 16)
        self._view = memoryview(self._scratch)
        self._start = 0
        self._end = 0
        self._large: Incoming | None = None
        self._arrival: Arrival | None = None
        """Budget of the large frame that is arriving, or waits for room to begin."""
        self._exchanges: deque[Exchange] = deque()
        self._open_requests = 0
        self._one_by_one = 0
        """So many of the next requests are not the start of a burst, as was just found out."""
        self._flush_scheduled = False
        self._write_paused = False
        self._reading_paused = False
        self._budget_wait = False
        self._admitted = 0
        """Bytes of the budget taken for a frame that has not become a request yet."""
        self._unsent = 0
        """Bytes of answers that the peer has not taken yet."""
        self._held_answers = 0
        """Bytes of answers that wait for one before them."""
        self._stopping = False
        self.gone = False
        """The peer has left: answers are of no use any more."""
        self._last_ms = 0.0
        self._frame_since_ms: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.client_host = ""
        self.produce_gate = Turns()
        """Held while a Produce request finds its topics, so that requests of one connection reach the log in order (R03)."""

    # ── asyncio's side ──────────────────────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A peer has connected."""
        self._transport = transport  # type: ignore[assignment]  # a stream transport by construction: BufferedProtocol
        peer = transport.get_extra_info("peername")
        self.client_host = str(peer[0]) if isinstance(peer, tuple) else str(peer or "memory")
        house = self._house
        house.counters.connections_opened += 1
        if len(house.connections) >= house.settings.connections_max:
            house.counters.connections_refused += 1
            house.complaints.warn(f"connection from {self.client_host} refused: {len(house.connections)} are open already")
            transport.close()
            return
        house.connections[self] = None
        house.counters.connections_open = len(house.connections)
        self._last_ms = self._now_ms()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer is gone. Requests under way run to their end (their effects are decided in the log), long polls stop."""
        house = self._house
        house.connections.pop(self, None)
        house.counters.connections_open = len(house.connections)
        if self._timer is not None:
            self._timer.cancel()
        self.gone = True
        for exchange in self._exchanges:
            if exchange.task is not None:
                exchange.task.cancel()
        self._release_unsent()
        self._drop_done()
        admitted, self._admitted = self._admitted, 0
        arrival, self._arrival = self._arrival, None
        self._large = None
        if admitted:
            house.budget.release(admitted)
        if arrival is not None:
            house.budget.leave(arrival)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        if self._large is not None:
            return self._large.room()
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        """``nbytes`` have arrived."""
        self._last_ms = self._now_ms()
        if self._large is None:
            self._end += nbytes
            self._cut_frames()
            return
        self._large.filled += nbytes
        if self._large.more or self._large.whole:
            self._continue_large(self._large)

    def eof_received(self) -> bool:
        """The peer sends no more; what it asked is still answered when it is there at once, so the transport may close."""
        return False

    def pause_writing(self) -> None:
        """The peer does not read."""
        self._write_paused = True
        self._throttle()

    def resume_writing(self) -> None:
        """The peer reads again."""
        self._write_paused = False
        self._release_unsent()
        self._cut_frames()

    # ── frames ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _cut_frames(self) -> None:
        """Takes whole frames from the scratch buffer while back-pressure allows."""
        try:
            while not self._blocked() and self._cut_one():
                continue
        except Corrupt as error:
            self._close_malformed(error)
            return
        if self._start == self._end:
            self._start = self._end = 0
        elif self._end == len(self._scratch):
            self._make_room()
        if self._start != self._end and self._frame_since_ms is None:
            self._frame_since_ms = self._now_ms()
        self._throttle()

    def _make_room(self) -> None:
        """The scratch buffer is full up to its end: what is not cut yet moves to the front, the first time of a larger one."""
        rest = self._scratch[self._start : self._end]
        if len(self._scratch) < SCRATCH_BYTES:
            # A new one: the transport may still hold a view of the old.
            self._scratch = bytearray(SCRATCH_BYTES)
            self._view = memoryview(self._scratch)
        self._scratch[: len(rest)] = rest
        self._start, self._end = 0, len(rest)

    def _cut_one(self) -> bool:
        """True when a frame was taken and there may be another."""
        have = self._end - self._start - SIZE_BYTES
        if self._large is not None or have < 0:
            return False
        body = self._start + SIZE_BYTES
        size = frame_size(self._view[self._start : body], self._house.settings.request_bytes_max)
        if size > _SMALL_FRAME_BYTES_MAX and have >= 2 and self._view[body : body + 2] != _PRODUCE_KEY:
            raise Corrupt(f"a frame of {size} bytes that is no Produce request; the limit is {_SMALL_FRAME_BYTES_MAX}", where="frame")
        whole = have >= size
        if whole and self._admitted == 0 and self._cut_burst(body):
            return True
        if not whole:
            if size >= _OWN_BUFFER_BYTES and have >= 2:
                self._begin_large(size)
            return False
        if not self._admit(size):
            return False
        self._start = body + size
        self._frame_since_ms = None
        self._take_frame(memoryview(bytes(self._view[body : body + size])))
        return True

    def _cut_burst(self, body: int) -> bool:
        """Takes pipelined Produce requests the short way, if that is possible."""
        serve_burst = self._house.serve_burst
        if serve_burst is None or self._view[body : body + 2] != _PRODUCE_KEY:
            return False
        if self._one_by_one:
            self._one_by_one -= 1
            return False
        stop = serve_burst(self, self._view, self._start, self._end)
        if stop == self._start:
            self._one_by_one = _ONE_BY_ONE
            return False
        self._start = stop
        self._frame_since_ms = None
        return True

    def begin(self, charge: int, requests: int) -> Exchange | None:
        """The place of the answers to ``requests`` requests of ``charge`` bytes; None when so many bytes do not fit now."""
        if not self._house.budget.try_admit(charge):
            return None
        exchange = Exchange(self, charge, requests)
        self._open_requests += requests
        self._exchanges.append(exchange)
        return exchange

    def _begin_large(self, size: int) -> None:
        """Moves what has come of a large frame into a buffer of its own."""
        have = self._end - self._start - SIZE_BYTES
        if self._arrival is None:
            self._arrival = Arrival()
            if not self._house.budget.grow(self._arrival, first_capacity(size, have), self._room_came):
                self._budget_wait = True
                return
        self._large = Incoming(size, self._view[self._start + SIZE_BYTES : self._end])
        self._start = self._end = 0
        self._frame_since_ms = self._now_ms()

    def _continue_large(self, large: Incoming) -> None:
        """The buffer of a large frame is full: it gets a larger one, or the frame is whole."""
        arrival = self._arrival
        if arrival is None:
            raise Bug("a large frame without its budget")
        if not large.whole:
            if self._house.budget.grow(arrival, large.more, self._room_came):
                large.grow()
            else:
                self._budget_wait = True
                self._throttle()
            return
        self._large = self._arrival = None
        self._frame_since_ms = None
        self._admitted = self._house.budget.arrived(arrival)
        self._take_frame(large.frame())
        self._cut_frames()

    def _room_came(self) -> None:
        self._budget_wait = False
        if self._large is not None:
            self._large.grow()
        self._loop.call_soon(self._cut_frames)

    def _admit(self, size: int) -> bool:
        if self._admitted == 0:
            if not self._house.budget.admit(size, self._admission_came):
                self._budget_wait = True
                return False
            self._admitted = size
        return True

    def _admission_came(self) -> None:
        self._budget_wait = False
        if self._transport is None or self._transport.is_closing():
            # The peer left while it stood in line; give the bytes on at the next turn, not inside the caller's loop.
            self._loop.call_soon(self._house.budget.release, self._waiting_size())
            return
        self._admitted = self._waiting_size()
        self._loop.call_soon(self._cut_frames)

    def _waiting_size(self) -> int:
        return int.from_bytes(self._view[self._start : self._start + SIZE_BYTES], "big")

    def _take_frame(self, frame: memoryview) -> None:
        exchange = Exchange(self, self._admitted)
        self._admitted = 0
        self._open_requests += 1
        self._exchanges.append(exchange)
        try:
            self._house.serve(self, exchange, frame)
        except Corrupt as error:
            exchange.finish(())
            self._close_malformed(error)
        except BaseException:
            exchange.finish(())  # the transport ends this connection when its protocol raises
            raise

    def _close_malformed(self, error: Corrupt) -> None:
        self._house.counters.frames_malformed += 1
        self.close(f"malformed request: {error}")

    def close(self, why: str) -> None:
        """Closes this connection; ``why`` goes to the log."""
        if self._transport is not None and not self._transport.is_closing():
            self._house.complaints.warn(f"closing connection from {self.client_host}: {why}")
            self._transport.close()

    # ── back-pressure ───────────────────────────────────────────────────────────────────────────────────────────────

    def _blocked(self) -> bool:
        return (
            self._write_paused
            or self._budget_wait
            or self._stopping
            or self._open_requests >= self._house.settings.connection_inflight_max
            or self._held_answers >= _HELD_ANSWERS_BYTES_MAX
            or self._transport is None
            or self._transport.is_closing()
        )

    def _throttle(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        blocked = self._blocked()
        if blocked and not self._reading_paused:
            transport.pause_reading()
        elif not blocked and self._reading_paused:
            transport.resume_reading()
            if self._frame_since_ms is not None:
                self._frame_since_ms = self._now_ms()
        self._reading_paused = blocked

    # ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def answer_ready(self, answer_bytes: int) -> None:
        """An exchange is done; what can leave in order leaves at the end of this turn of the loop, in one write."""
        if self.gone:
            self._drop_done()
            return
        if answer_bytes:
            self._held_answers += answer_bytes
            self._house.budget.take(answer_bytes)
        if not self._flush_scheduled and self._exchanges and self._exchanges[0].done:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        parts: list[Blob] = []
        points: list[str] = []
        held = answers = 0
        while self._exchanges and self._exchanges[0].done:
            exchange = self._exchanges.popleft()
            self._open_requests -= exchange.requests
            parts.extend(exchange.parts)
            held += exchange.charge
            answers += exchange.answer_bytes
            if exchange.fault_point:
                points.append(exchange.fault_point)
        self._held_answers -= answers
        transport = self._transport
        if parts and transport is not None and not transport.is_closing():
            self._unsent += answers
            transport.writelines(parts)
            self._last_ms = self._now_ms()
            for point in points:
                self._house.faults.reach(point)
        else:
            held += answers
        if held:
            self._house.budget.release(held)
        if not self._write_paused:
            self._release_unsent()
        if self._start != self._end or self._reading_paused:
            self._cut_frames()

    def _drop_done(self) -> None:
        """Nobody will read the answers that are there: they and their requests are let go, whatever is still being handled before them."""
        done = [exchange for exchange in self._exchanges if exchange.done]
        if not done:
            return
        self._exchanges = deque(exchange for exchange in self._exchanges if not exchange.done)
        for exchange in done:
            exchange.parts = ()
            self._open_requests -= exchange.requests
        self._house.budget.release(sum(exchange.charge + exchange.answer_bytes for exchange in done))

    def _release_unsent(self) -> None:
        unsent, self._unsent = self._unsent, 0
        if unsent:
            self._house.budget.release(unsent)

    # ── time and the end ────────────────────────────────────────────────────────────────────────────────────────────

    def _now_ms(self) -> float:
        return self._loop.time() * 1000.0

    def _watch(self) -> None:
        """Looks for idleness and for a frame that does not end, every so often."""
        settings = self._house.settings
        now_ms = self._now_ms()
        received = self._large.filled if self._large is not None else 0
        frame_ms = settings.frame_timeout_ms + received * 1000 // (1024 * 1024)
        if self._frame_since_ms is not None and not self._reading_paused and now_ms - self._frame_since_ms >= frame_ms:
            self.close(f"a frame was not complete after {frame_ms} ms")
        elif not self._exchanges and now_ms - self._last_ms >= settings.idle_timeout_ms:
            self.close(f"idle for {settings.idle_timeout_ms} ms")
        else:
            pause_ms = min(settings.idle_timeout_ms, settings.frame_timeout_ms) / 2
            self._timer = self._loop.call_later(pause_ms / 1000, self._watch)

    def stop_reading(self) -> None:
        """No new requests; those that wait for something to happen are ended. Part of a clean stop."""
        self._stopping = True
        self._throttle()
        for exchange in self._exchanges:
            if exchange.task is not None:
                exchange.task.cancel()

    def end(self, *, force: bool) -> None:
        """Closes after what has been written, or at once with ``force``. Part of a clean stop."""
        if self._transport is None:
            return
        if force:
            self._transport.abort()
        else:
            self._transport.close()
