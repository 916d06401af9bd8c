"""Produce by hand, v3 to v12: the request straight to slotted values, the response by one struct call per partition.

Same results as the generated codec (compared in tests/property/wire; timed in benchmarks/bench_wire.py). Values are
slotted, and neither frozen nor with a constructor of their own where they are only read: one is made per partition, at a third of the cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct, error

from frazil.kit.errors import Bug, Corrupt, Refused
from frazil.wire.layout import (
    FAULTS,
    Message,
    bad_length,
    corrupt,
    read_compact_nullable_string,
    read_compact_string,
    read_string,
    read_uvarint,
    skip_tags,
    write_uvarint,
)

PRODUCE_VERSIONS = range(3, 13)
"""Versions served here; v13 names topics by id and has only the generated codec."""
_FLEXIBLE_FROM = 9
_read_h = Struct(">h").unpack_from
_read_hii = Struct(">hii").unpack_from
_read_hib = Struct(">hiB").unpack_from
_read_i = Struct(">i").unpack_from
_read_ii = Struct(">ii").unpack_from
_read_ibbb = Struct(">iBBB").unpack_from
_write_i = Struct(">i").pack
_write_h = Struct(">h").pack
_write_v3 = Struct(">ihqq").pack
_write_v5 = Struct(">ihqqq").pack
_write_v8 = Struct(">ihqqqih").pack
_write_v9 = Struct(">ihqqqBBB").pack


class ProducePartition(Message):
    """One partition's records, a view into the frame."""

    __slots__ = ("index", "records")
    index: int
    records: memoryview | None


class ProduceTopic(Message):
    """One topic of a produce request."""

    __slots__ = ("name", "partitions")
    name: str
    partitions: list[ProducePartition]


class ProduceCall(Message):
    """A produce request. ``acks`` is -1, 0 or 1 when the client is sane; it is not checked here."""

    __slots__ = ("acks", "timeout_ms", "topics", "transactional_id")
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProduceTopic]


@dataclass(slots=True)
class ProducedPartition:
    """The outcome for one partition."""

    index: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None


@dataclass(slots=True)
class ProducedTopic:
    """The outcome for one topic."""

    name: str
    partitions: Sequence[ProducedPartition]


def decode_produce(version: int, frame: memoryview, position: int) -> ProduceCall:
    """The produce request that fills ``frame`` from ``position``. Refused: version not served here. Corrupt: not that request."""
    if version not in PRODUCE_VERSIONS:
        raise Refused(f"ProduceRequest v{version} is not served here; v{PRODUCE_VERSIONS[0]} to v{PRODUCE_VERSIONS[-1]} are")
    try:
        if version < _FLEXIBLE_FROM:
            call, end = _read_plain(frame, position, len(frame))
        else:
            call, end = _read_flexible(frame, position, len(frame))
    except Corrupt as fault:
        raise Corrupt(fault.why, where=f"ProduceRequest v{version}, {fault.where}") from None
    if end != len(frame):
        raise Corrupt(f"{len(frame) - end} bytes are left after the message", where=f"ProduceRequest v{version}, byte {end}")
    return call


def _read_plain(frame: memoryview, pos: int, limit: int) -> tuple[ProduceCall, int]:
    at = "transactional_id"
    try:
        call = ProduceCall()
        call.transactional_id = None
        if _read_h(frame, pos)[0] == -1:
            pos += 2
        else:
            call.transactional_id, pos = read_string(frame, pos, limit)
        at = "acks"
        call.acks, call.timeout_ms, count = _read_hii(frame, pos)
        pos += 10
        at = "topic_data"
        if count < 0 or count * 6 > limit - pos:
            raise bad_length(count, limit - pos)
        call.topics = topics = []
        for _ in range(count):
            at = "topic_data.name"
            topic = ProduceTopic()
            topic.name, pos = read_string(frame, pos, limit)
            at = "topic_data.partition_data"
            topic.partitions, pos = _read_plain_partitions(frame, pos, limit)
            topics.append(topic)
    except FAULTS as fault:
        raise corrupt("ProduceRequest", at, pos, fault) from None
    return call, pos


def _read_plain_partitions(frame: memoryview, pos: int, limit: int) -> tuple[list[ProducePartition], int]:
    (count,) = _read_i(frame, pos)
    pos += 4
    if count < 0 or count * 8 > limit - pos:
        raise bad_length(count, limit - pos)
    partitions = []
    for _ in range(count):
        partition = ProducePartition()
        partition.index, n = _read_ii(frame, pos)
        pos += 8
        if n == -1:
            partition.records = None
        else:
            end = pos + n
            if n < 0 or end > limit:
                raise bad_length(n, limit - pos)
            partition.records = frame[pos:end]
            pos = end
        partitions.append(partition)
    return partitions, pos


def _read_flexible(frame: memoryview, pos: int, limit: int) -> tuple[ProduceCall, int]:
    at = "transactional_id"
    try:
        call = ProduceCall()
        call.transactional_id = None
        if frame[pos] == 0:
            pos += 1
        else:
            call.transactional_id, pos = read_compact_nullable_string(frame, pos, limit)
        at = "acks"
        call.acks, call.timeout_ms, count = _read_hib(frame, pos)
        pos += 7
        at = "topic_data"
        if count > 127:
            count, pos = read_uvarint(frame, pos - 1)
        if count < 1 or (count - 1) * 3 > limit - pos:
            raise bad_length(count - 1, limit - pos)
        call.topics = topics = []
        for _ in range(count - 1):
            at = "topic_data.name"
            topic = ProduceTopic()
            topic.name, pos = read_compact_string(frame, pos, limit)
            at = "topic_data.partition_data"
            topic.partitions, pos = _read_flexible_partitions(frame, pos, limit)
            topics.append(topic)
        at = "tags"
        pos = pos + 1 if frame[pos] == 0 else skip_tags(frame, pos, limit)
    except FAULTS as fault:
        raise corrupt("ProduceRequest", at, pos, fault) from None
    return call, pos


def _read_flexible_partitions(frame: memoryview, pos: int, limit: int) -> tuple[list[ProducePartition], int]:
    """The partitions of a topic and the topic's own tags.

    A partition is read seven bytes at a time: index and up to three bytes of the records' length. Seven are always there: after the
    length come at least the tags of partition, topic and request.
    """
    count = frame[pos]
    pos += 1
    if count > 127:
        count, pos = read_uvarint(frame, pos - 1)
    if count < 1 or (count - 1) * 6 > limit - pos:
        raise bad_length(count - 1, limit - pos)
    partitions = []
    for _ in range(count - 1):
        partition = ProducePartition()
        partition.index, n, second, third = _read_ibbb(frame, pos)
        if n < 128:
            pos += 5
        elif second < 128:
            n, pos = n & 0x7F | second << 7, pos + 6
        elif third < 128:
            n, pos = n & 0x7F | (second & 0x7F) << 7 | third << 14, pos + 7
        else:
            n, pos = read_uvarint(frame, pos + 4)
        end = pos + n - 1
        if end > limit:
            raise bad_length(n - 1, limit - pos)
        if n:
            partition.records = frame[pos:end]
            pos = end
        else:
            partition.records = None
        pos = pos + 1 if frame[pos] == 0 else skip_tags(frame, pos, limit)
        partitions.append(partition)
    return partitions, pos + 1 if frame[pos] == 0 else skip_tags(frame, pos, limit)


def encode_produce_response(version: int, topics: Sequence[ProducedTopic], throttle_time_ms: int = 0) -> bytes:
    """The response body. Refused: version not served here. Bug: a value does not fit its field.

    Neither record errors nor the leader hints of v10 are ever sent: batches are taken or refused whole, and any broker takes any batch.
    """
    if version not in PRODUCE_VERSIONS:
        raise Refused(f"ProduceResponse v{version} is not served here; v{PRODUCE_VERSIONS[0]} to v{PRODUCE_VERSIONS[-1]} are")
    try:
        parts = _flexible_parts(topics) if version >= _FLEXIBLE_FROM else _plain_parts(version, topics)
        parts.append(_write_i(throttle_time_ms))
    except (error, TypeError, UnicodeEncodeError) as fault:
        raise Bug(f"ProduceResponse v{version} cannot be written: {fault}") from fault
    return b"".join(parts) if version < _FLEXIBLE_FROM else b"".join(parts) + b"\0"


def _flexible_parts(topics: Sequence[ProducedTopic]) -> list[bytes]:
    parts = [write_uvarint(len(topics) + 1)]
    for topic in topics:
        name = topic.name.encode()
        parts += (write_uvarint(len(name) + 1), name, write_uvarint(len(topic.partitions) + 1))
        for p in topic.partitions:
            # The last three bytes: no record errors, no message (or the message's length below), no tags.
            head = _write_v9(p.index, p.error_code, p.base_offset, p.log_append_time_ms, p.log_start_offset, 1, 0, 0)
            if p.error_message is None:
                parts.append(head)
            else:
                raw = p.error_message.encode()
                parts += (head[:-2], write_uvarint(len(raw) + 1), raw, b"\0")
        parts.append(b"\0")
    return parts


def _plain_parts(version: int, topics: Sequence[ProducedTopic]) -> list[bytes]:
    parts = [_write_i(len(topics))]
    for topic in topics:
        name = topic.name.encode()
        parts += (_write_h(len(name)), name, _write_i(len(topic.partitions)))
        for p in topic.partitions:
            if version >= 8:
                raw = (p.error_message or "").encode()
                n = -1 if p.error_message is None else len(raw)
                parts += (_write_v8(p.index, p.error_code, p.base_offset, p.log_append_time_ms, p.log_start_offset, 0, n), raw)
            elif version >= 5:
                parts.append(_write_v5(p.index, p.error_code, p.base_offset, p.log_append_time_ms, p.log_start_offset))
            else:
                parts.append(_write_v3(p.index, p.error_code, p.base_offset, p.log_append_time_ms))
    return parts
