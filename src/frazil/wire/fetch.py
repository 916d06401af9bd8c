"""Fetch by hand, v4 to v12: the request to slotted values, the response as buffers with record bytes uncopied among them.

Same results as the generated codec (compared in tests/property/wire); not frozen for the reason given in ``produce``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct, error, unpack_from

from frazil.kit.errors import Bug, Corrupt, Refused
from frazil.wire.layout import (
    FAULTS,
    Blob,
    Message,
    bad_length,
    corrupt,
    read_compact_string,
    read_string,
    read_uvarint,
    skip_tags,
    write_uvarint,
)

FETCH_VERSIONS = range(4, 13)
"""Versions served here; from v13 on topics are named by id, and only the generated codec serves."""
_FLEXIBLE_FROM = 12
_HEAD_V4 = Struct(">iiiib")
_HEAD_V7 = Struct(">iiiibii")
# partition, current leader epoch (v9+), fetch offset, last fetched epoch (v12), log start offset (v5+), partition max bytes
_PARTITION = {4: Struct(">iqi"), 5: Struct(">iqqi"), 9: Struct(">iiqqi")}
_PARTITION_V12 = Struct(">iiqiqiB")
_read_i = Struct(">i").unpack_from
_write_i = Struct(">i").pack
_write_h = Struct(">h").pack
_write_qq = Struct(">qq").pack
_NONE = b"\xff\xff\xff\xff"
"""Minus one as an int32: a null array, no replica."""
_ANSWER = {4: Struct(">ihqq").pack, 5: Struct(">ihqqq").pack}


class FetchPartition(Message):
    """Where to read one partition from, and at most how many bytes; in the wire order of v12."""

    __slots__ = ("current_leader_epoch", "fetch_offset", "index", "last_fetched_epoch", "log_start_offset", "partition_bytes_max")
    index: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_bytes_max: int


class FetchTopic(Message):
    """One topic of a fetch request."""

    __slots__ = ("name", "partitions")
    name: str
    partitions: list[FetchPartition]


class ForgottenTopic(Message):
    """Partitions to drop from an incremental fetch session (KIP-227)."""

    __slots__ = ("name", "partitions")
    name: str
    partitions: list[int]


class FetchCall(Message):
    """A fetch request. The cluster id and unknown tags of v12 are stepped over: they concern followers."""

    __slots__ = (
        "bytes_max", "bytes_min", "forgotten", "isolation_level", "rack_id", "replica_id", "session_epoch", "session_id", "topics",
        "wait_ms_max",
    )  # fmt: skip
    replica_id: int
    wait_ms_max: int
    bytes_min: int
    bytes_max: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]
    rack_id: str


@dataclass(slots=True)
class AbortedRange:
    """An aborted transaction that a read-committed consumer must drop."""

    producer_id: int
    first_offset: int


@dataclass(slots=True)
class FetchedPartition:
    """What one partition answers. ``records``, and ``more`` right after them: whole patched batches, or empty.

    ``aborted``: None unless read committed was asked.
    """

    index: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Blob = b""
    aborted: Sequence[AbortedRange] | None = None
    more: Sequence[Blob] = ()


@dataclass(slots=True)
class FetchedTopic:
    """What one topic answers."""

    name: str
    partitions: Sequence[FetchedPartition]


@dataclass(slots=True)
class FetchAnswer:
    """A fetch response. Session 0 means that no fetch session was made, which clients accept."""

    topics: Sequence[FetchedTopic]
    error_code: int = 0
    session_id: int = 0
    throttle_time_ms: int = 0


def decode_fetch(version: int, frame: memoryview, position: int) -> FetchCall:
    """The fetch request that fills ``frame`` from ``position``. Refused: version not served here. Corrupt: not that request."""
    if version not in FETCH_VERSIONS:
        raise Refused(f"FetchRequest v{version} is not served here; v{FETCH_VERSIONS[0]} to v{FETCH_VERSIONS[-1]} are")
    try:
        call, end = _read_call(version, frame, position, len(frame))
    except Corrupt as fault:
        raise Corrupt(fault.why, where=f"FetchRequest v{version}, {fault.where}") from None
    if end != len(frame):
        raise Corrupt(f"{len(frame) - end} bytes are left after the message", where=f"FetchRequest v{version}, byte {end}")
    return call


def _read_call(version: int, frame: memoryview, pos: int, limit: int) -> tuple[FetchCall, int]:
    flexible = version >= _FLEXIBLE_FROM
    at = "replica_id"
    try:
        call = FetchCall()
        call.forgotten, call.rack_id, call.session_id, call.session_epoch = [], "", 0, -1
        if version >= 7:
            head: tuple[int, ...] = _HEAD_V7.unpack_from(frame, pos)
            call.session_id, call.session_epoch = head[5:]
            pos += _HEAD_V7.size
        else:
            head = _HEAD_V4.unpack_from(frame, pos)
            pos += _HEAD_V4.size
        call.replica_id, call.wait_ms_max, call.bytes_min, call.bytes_max, call.isolation_level = head[:5]
        at = "topics"
        if flexible:
            call.topics, pos = _read_topics_v12(frame, pos, limit)
        else:
            call.topics, pos = _read_topics(version, frame, pos, limit)
        at = "forgotten_topics_data"
        if version >= 7:
            call.forgotten, pos = _read_forgotten(frame, pos, limit, flexible=flexible)
        at = "rack_id"
        if version >= 11:
            call.rack_id, pos = read_compact_string(frame, pos, limit) if flexible else read_string(frame, pos, limit)
        at = "tags"
        if flexible:
            pos = pos + 1 if frame[pos] == 0 else skip_tags(frame, pos, limit)
    except FAULTS as fault:
        raise corrupt("FetchRequest", at, pos, fault) from None
    return call, pos


def _count(frame: memoryview, pos: int, limit: int, *, smallest: int, flexible: bool) -> tuple[int, int]:
    """An array's element count, checked against the bytes left."""
    if flexible:
        n, pos = read_uvarint(frame, pos)
        n -= 1
    else:
        n, pos = _read_i(frame, pos)[0], pos + 4
    if n < 0 or n * smallest > limit - pos:
        raise bad_length(n, limit - pos)
    return n, pos


def _read_topics(version: int, frame: memoryview, pos: int, limit: int) -> tuple[list[FetchTopic], int]:
    layout = _PARTITION[9 if version >= 9 else 5 if version >= 5 else 4]
    topics = []
    count, pos = _count(frame, pos, limit, smallest=6, flexible=False)
    for _ in range(count):
        topic = FetchTopic()
        topic.name, pos = read_string(frame, pos, limit)
        n, pos = _count(frame, pos, limit, smallest=layout.size, flexible=False)
        end = pos + n * layout.size
        topic.partitions = partitions = []
        for row in layout.iter_unpack(frame[pos:end]):
            p = FetchPartition()
            p.current_leader_epoch = p.last_fetched_epoch = p.log_start_offset = -1
            if version >= 9:
                p.index, p.current_leader_epoch, p.fetch_offset, p.log_start_offset, p.partition_bytes_max = row
            elif version >= 5:
                p.index, p.fetch_offset, p.log_start_offset, p.partition_bytes_max = row
            else:
                p.index, p.fetch_offset, p.partition_bytes_max = row
            partitions.append(p)
        pos = end
        topics.append(topic)
    return topics, pos


def _read_topics_v12(frame: memoryview, pos: int, limit: int) -> tuple[list[FetchTopic], int]:
    topics = []
    count, pos = _count(frame, pos, limit, smallest=3, flexible=True)
    for _ in range(count):
        topic = FetchTopic()
        topic.name, pos = read_compact_string(frame, pos, limit)
        n, pos = _count(frame, pos, limit, smallest=_PARTITION_V12.size, flexible=True)
        topic.partitions, pos = _read_partitions_v12(frame, pos, limit, n)
        pos = pos + 1 if frame[pos] == 0 else skip_tags(frame, pos, limit)
        topics.append(topic)
    return topics, pos


def _read_partitions_v12(frame: memoryview, pos: int, limit: int, count: int) -> tuple[list[FetchPartition], int]:
    size = _PARTITION_V12.size
    partitions = []
    # A partition's last byte counts its tags. While it is zero the next partition begins one stride on.
    for row in _PARTITION_V12.iter_unpack(frame[pos : pos + count * size]):
        p = FetchPartition()
        (p.index, p.current_leader_epoch, p.fetch_offset, p.last_fetched_epoch, p.log_start_offset, p.partition_bytes_max, tags) = row
        partitions.append(p)
        pos += size
        if tags:
            pos = skip_tags(frame, pos - 1, limit)
            break
    while len(partitions) < count:
        p = FetchPartition()
        row = _PARTITION_V12.unpack_from(frame, pos)
        (p.index, p.current_leader_epoch, p.fetch_offset, p.last_fetched_epoch, p.log_start_offset, p.partition_bytes_max, _) = row
        partitions.append(p)
        pos = skip_tags(frame, pos + size - 1, limit)
    return partitions, pos


def _read_forgotten(frame: memoryview, pos: int, limit: int, *, flexible: bool) -> tuple[list[ForgottenTopic], int]:
    topics = []
    count, pos = _count(frame, pos, limit, smallest=3 if flexible else 6, flexible=flexible)
    for _ in range(count):
        topic = ForgottenTopic()
        topic.name, pos = read_compact_string(frame, pos, limit) if flexible else read_string(frame, pos, limit)
        n, pos = _count(frame, pos, limit, smallest=4, flexible=flexible)
        topic.partitions = list(unpack_from(f">{n}i", frame, pos))
        pos += 4 * n
        if flexible:
            pos = pos + 1 if frame[pos] == 0 else skip_tags(frame, pos, limit)
        topics.append(topic)
    return topics, pos


def encode_fetch_response(version: int, answer: FetchAnswer) -> list[Blob]:
    """The response body as buffers for one gathered write; each non-empty ``records`` is one of them, as given.

    Refused: version not served here. Bug: a value does not fit its field.
    """
    if version not in FETCH_VERSIONS:
        raise Refused(f"FetchResponse v{version} is not served here; v{FETCH_VERSIONS[0]} to v{FETCH_VERSIONS[-1]} are")
    try:
        return _answer_parts(version, answer)
    except (error, TypeError, UnicodeEncodeError) as fault:
        raise Bug(f"FetchResponse v{version} cannot be written: {fault}") from fault


def _answer_parts(version: int, answer: FetchAnswer) -> list[Blob]:
    flexible = version >= _FLEXIBLE_FROM
    parts: list[Blob] = []
    small = bytearray(_write_i(answer.throttle_time_ms))
    if version >= 7:
        small += _write_h(answer.error_code) + _write_i(answer.session_id)
    small += _length(len(answer.topics), flexible=flexible)
    for topic in answer.topics:
        name = topic.name.encode()
        small += (write_uvarint(len(name) + 1) if flexible else _write_h(len(name))) + name
        small += _length(len(topic.partitions), flexible=flexible)
        for partition in topic.partitions:
            small += _partition_head(version, partition)
            if len(partition.records):
                parts.append(small)
                parts.append(partition.records)
                parts.extend(partition.more)
                small = bytearray()
            if flexible:
                small.append(0)
        if flexible:
            small.append(0)
    if flexible:
        small.append(0)
    if small:
        parts.append(small)
    return parts


def _length(n: int, *, flexible: bool) -> bytes:
    return write_uvarint(n + 1) if flexible else _write_i(n)


def _partition_head(version: int, p: FetchedPartition) -> bytes:
    """Everything of a partition up to its records, their length included."""
    flexible = version >= _FLEXIBLE_FROM
    if version >= 5:
        head = _ANSWER[5](p.index, p.error_code, p.high_watermark, p.last_stable_offset, p.log_start_offset)
    else:
        head = _ANSWER[4](p.index, p.error_code, p.high_watermark, p.last_stable_offset)
    head += (b"\0" if flexible else _NONE) if p.aborted is None else _aborted(p.aborted, flexible=flexible)
    if version >= 11:
        head += _NONE  # no preferred read replica: any broker reads any partition
    return head + _length(len(p.records) + sum(map(len, p.more)), flexible=flexible)


def _aborted(ranges: Sequence[AbortedRange], *, flexible: bool) -> bytes:
    tail = b"\0" if flexible else b""
    return _length(len(ranges), flexible=flexible) + b"".join(_write_qq(gone.producer_id, gone.first_offset) + tail for gone in ranges)
