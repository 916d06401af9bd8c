"""Pipelined Produce requests of one connection, taken many at a time: the short way for the usual case (R32).

A burst is what stands at the front of a connection's receive buffer and is *usual*: whole requests of one version, all for one
partition of a known topic, each with one good batch and acks 1 or -1. They are cut and checked in one call (by the kernel where
there is one), enter the log as one run whose batches are ``apart``, and are answered in one piece. Everything else, and everything
that would have to wait or be refused, is left to the general way (``handlers/produce.py``) before anything has happened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, NamedTuple, Protocol

from frazil.broker.codes import code_of_fault
from frazil.broker.connection import Exchange
from frazil.broker.services import Services
from frazil.broker.topic_view import KnownTopic
from frazil.broker.turns import Turns
from frazil.broker.underway import Underway
from frazil.kit.errors import Bug, Corrupt, OutcomeUnknown, Refused
from frazil.kit.kernel import kernel
from frazil.kit.names import PartitionId, PartitionKey
from frazil.log.append import Answer, Apart, Appended, AppendFault, AppendRun, Outcome
from frazil.records import Batch, split_batches
from frazil.wire.frame import SIZE_BYTES, RequestHeader, frame_size, response_parts
from frazil.wire.layout import write_uvarint
from frazil.wire.messages.registry import ApiKey
from frazil.wire.produce import ProducedPartition, ProducedTopic, decode_produce, encode_produce_response

REQUESTS_MAX: Final = 64
"""Of one burst: its answers leave together, so it must not hold the first one back for long."""
LANES_MAX: Final = 10_000
_FIRST_VERSION: Final = 3
_LAST_VERSION: Final = 11
_FIRST_WITH_ZSTD: Final = 7
_FIRST_FLEXIBLE: Final = 9
_FLEXIBLE_BYTES: Final = 27
"""A flexible request without tags, beside client id, topic name, records and the lengths of the last two."""
_FIRST_WITH_LOG_START: Final = 5
_SHORTEST: Final = 100
"""No request with a batch is shorter."""
_ZSTD: Final = 4
_MARK: Final = 0x0123_4567_89AB_CDEF
_CORRELATION: Final = Struct(">i").pack_into
_OFFSET: Final = Struct(">q").pack_into
_tuple_new: Final = tuple.__new__


class Burst(NamedTuple):
    """Requests as ``scan`` found them; ``batches`` are fields of ``Batch``, positions are those in ``data``."""

    stop: int
    version: int
    acks: int
    topic: bytes
    partition: int
    correlations: Sequence[int]
    data: bytes
    batches: Sequence[tuple[int, ...]]
    largest: int


Scan = Callable[[memoryview, int, int, int], tuple[object, ...] | None]
"""(buffer, start, end, most requests) → the fields of a ``Burst``; None when the first request is not whole or not usual."""


class BurstSession(Protocol):
    """What this way needs of a connection."""

    produce_gate: Turns

    def begin(self, charge: int, requests: int) -> Exchange | None:
        """The place of the answers; None when the bytes do not fit now."""
        ...

    def close(self, why: str) -> None:
        """Closes the connection."""
        ...


def scan_burst(buffer: memoryview, start: int, end: int, count_max: int) -> tuple[object, ...] | None:
    """The twin of the kernel's ``scan_produce``."""
    correlations: list[int] = []
    pieces: list[memoryview] = []
    batches: list[tuple[int, ...]] = []
    common: tuple[int, int, bytes, int] | None = None
    position = largest = 0
    while len(correlations) < count_max:
        found = _usual_request(buffer, start, end)
        if found is None or (common is not None and found[1] != common):
            break
        correlation, common, data, batch, start = found
        correlations.append(correlation)
        pieces.append(data)
        batches.append((position, *batch[1:]))
        position += len(data)
        largest = max(largest, len(data))
    if common is None:
        return None
    return (start, *common, correlations, b"".join(pieces), batches, largest)


def _usual_request(
    buffer: memoryview, start: int, end: int
) -> tuple[int, tuple[int, int, bytes, int], memoryview, tuple[int, ...], int] | None:
    body = start + SIZE_BYTES
    if end < body + 2 or buffer[body] or buffer[body + 1]:
        return None
    try:
        stop = body + frame_size(buffer[start:body], end - body)
        frame = buffer[body:stop]
        header = RequestHeader.decode(frame)
        if not _FIRST_VERSION <= header.api_version <= _LAST_VERSION:
            return None
        call = decode_produce(header.api_version, frame, header.position)
        if call.transactional_id is not None or call.acks not in (-1, 1) or len(call.topics) != 1 or len(call.topics[0].partitions) != 1:
            return None
        asked = call.topics[0].partitions[0]
        data = asked.records
        if data is None or not _is_plain(frame, header, call.topics[0].name.encode(), data):
            return None
        batches = split_batches(data, batch_bytes_max=len(data))
    except (Corrupt, Refused):
        return None
    if len(batches) != 1 or not _is_usual(batches[0], header.api_version):
        return None
    return header.correlation_id, (header.api_version, call.acks, call.topics[0].name.encode(), asked.index), data, batches[0], stop


def _is_plain(frame: memoryview, header: RequestHeader, name: bytes, data: memoryview) -> bool:
    """No tagged fields, and lengths written as short as can be: then the frame has exactly this many bytes."""
    if header.api_version < _FIRST_FLEXIBLE:
        return True
    client = 0 if header.client_id is None else len(header.client_id.encode())
    lengths = len(write_uvarint(len(name) + 1)) + len(name) + len(write_uvarint(len(data) + 1)) + len(data)
    return len(frame) == _FLEXIBLE_BYTES + client + lengths


def _is_usual(batch: Batch, version: int) -> bool:
    codec_allowed = 0 <= batch.attributes < _ZSTD or (batch.attributes == _ZSTD and version >= _FIRST_WITH_ZSTD)
    return codec_allowed and batch.record_count == batch.last_offset_delta + 1 and batch.record_count >= 1


def best_scan() -> Scan:
    """The kernel's scan, or its twin."""
    found: Scan | None = getattr(kernel(), "scan_produce", None)
    return found or scan_burst


class _Lane:
    """One partition as reached by one version: where its records go and how its answers look."""

    __slots__ = ("_answer", "_offset_at", "_start_at", "batch_bytes_max", "index", "key", "known", "name", "version")

    def __init__(self, version: int, known: KnownTopic, index: int) -> None:
        self.version = version
        self.known = known
        self.index = index
        self.name = known.record.name
        self.key = PartitionKey(known.record.topic_id, PartitionId(index))
        self.batch_bytes_max = known.policy.batch_bytes_max
        self._answer = self._encode(0, ProducedPartition(index, base_offset=_MARK, log_start_offset=0))
        self._offset_at = self._answer.index(_MARK.to_bytes(8, "big"))
        self._start_at = self._offset_at + 16 if version >= _FIRST_WITH_LOG_START else -1

    def _encode(self, correlation: int, produced: ProducedPartition) -> bytes:
        body = encode_produce_response(self.version, [ProducedTopic(self.name, [produced])])
        return b"".join(response_parts(RequestHeader(ApiKey.PRODUCE, self.version, correlation, None, 0), [body]))

    def appended(self, correlations: Sequence[int], batches: Sequence[Batch], outcome: Appended) -> bytes:
        """The answers when all were appended, one after the other."""
        size = len(self._answer)
        out = bytearray(self._answer * len(correlations))
        at, offset, start = 0, outcome.base_offset, outcome.log_start_offset
        for correlation, batch in zip(correlations, batches, strict=True):
            _CORRELATION(out, at + 4, correlation)
            _OFFSET(out, at + self._offset_at, offset)
            if start and self._start_at >= 0:
                _OFFSET(out, at + self._start_at, start)
            offset += batch.last_offset_delta + 1
            at += size
        return bytes(out)

    def mixed(self, correlations: Sequence[int], outcomes: Sequence[Appended | AppendFault]) -> bytes:
        """The answers when each has its own fate."""
        return b"".join(self._encode(c, _produced(self.index, outcome)) for c, outcome in zip(correlations, outcomes, strict=True))


def _produced(index: int, outcome: Appended | AppendFault) -> ProducedPartition:
    if isinstance(outcome, Appended):
        return ProducedPartition(index, base_offset=outcome.base_offset, log_start_offset=outcome.log_start_offset)
    return ProducedPartition(index, error_code=code_of_fault(outcome), error_message=outcome.why)


class Bursts:
    """Takes bursts from connections, gives them to the log, answers them."""

    def __init__(self, services: Services, underway: Underway, scan: Scan | None = None) -> None:
        self._services = services
        self._appender = services.appender
        self._clock = services.clock
        self._underway = underway
        self._counters = services.counters.api(ApiKey.PRODUCE.name)
        self._scan = scan or best_scan()
        self._lanes: dict[tuple[int, bytes, int], _Lane] = {}

    def take(self, session: BurstSession, view: memoryview, start: int, end: int) -> int:
        """Where the requests end that were taken from the front of ``view[start:end]``; ``start`` when none was."""
        if end - start < _SHORTEST or session.produce_gate.busy or not self._appender.admits(end - start):
            return start
        found = self._scan(view, start, end, REQUESTS_MAX)
        if found is None:
            return start
        burst = Burst._make(found)
        lane = self._lane(burst)
        if lane is None or burst.largest > lane.batch_bytes_max:
            return start
        exchange = session.begin(burst.stop - start, len(burst.correlations))
        if exchange is None:
            return start
        batches: list[Batch] = [_tuple_new(Batch, fields) for fields in burst.batches]
        self._underway.begin(exchange)
        counters = self._counters
        counters.requests += len(batches)
        counters.bytes_in += burst.stop - start
        reply = _Reply(self, session, exchange, lane, burst.correlations, batches)
        if not self._appender.offer([AppendRun(lane.key, burst.data, batches, len(batches) > 1)], reply):
            raise Bug("the log refused a burst that it had admitted")
        return burst.stop

    def _lane(self, burst: Burst) -> _Lane | None:
        """None: the topic is not known here, or its rules want each batch looked at."""
        place = (burst.version, burst.topic, burst.partition)
        lane = self._lanes.get(place)
        topics = self._services.topics
        if lane is not None and topics.get(lane.name) is lane.known.record:
            return lane
        try:
            known = topics.known(burst.topic.decode())
        except UnicodeDecodeError:
            return None
        if known is None or not 0 <= burst.partition < known.record.partitions:
            return None
        if known.policy.bounded or known.policy.log_append_time:
            return None
        if len(self._lanes) >= LANES_MAX:
            self._lanes.clear()
        lane = self._lanes[place] = _Lane(burst.version, known, burst.partition)
        return lane

    def now_ms(self) -> float:
        """Monotonic."""
        return self._clock.monotonic_ms()

    def finish(self, exchange: Exchange, data: bytes, requests: int, began_ms: float) -> None:
        """Hands the answers to the connection and counts."""
        counters = self._counters
        took_ms = self._clock.monotonic_ms() - began_ms
        counters.latency_ms_sum += took_ms * requests
        counters.latency_ms_max = max(counters.latency_ms_max, took_ms)
        if data:
            exchange.fault_point = "B5"
        else:
            counters.errors += requests
        self._underway.end(exchange)
        counters.bytes_out += exchange.finish((data,) if data else ())


class _Reply:
    """Called by the log with what became of a burst."""

    __slots__ = ("_batches", "_began_ms", "_bursts", "_correlations", "_exchange", "_lane", "_session")

    def __init__(
        self, bursts: Bursts, session: BurstSession, exchange: Exchange, lane: _Lane, correlations: Sequence[int], batches: list[Batch]
    ) -> None:
        self._bursts = bursts
        self._session = session
        self._exchange = exchange
        self._lane = lane
        self._correlations = correlations
        self._batches = batches
        self._began_ms = bursts.now_ms()

    def __call__(self, answer: Answer) -> None:
        data = b""
        if isinstance(answer, OutcomeUnknown):
            self._session.close(f"PRODUCE failed: {answer}")
        else:
            data = self._encode(answer[0])
        self._bursts.finish(self._exchange, data, len(self._correlations), self._began_ms)

    def _encode(self, outcome: Outcome) -> bytes:
        if isinstance(outcome, Appended):
            return self._lane.appended(self._correlations, self._batches, outcome)
        outcomes = outcome.outcomes if isinstance(outcome, Apart) else [outcome] * len(self._correlations)
        return self._lane.mixed(self._correlations, outcomes)
