"""Fetch (key 1), versions 4-12: whole batches from an offset on, now or when there are enough.

Waits up to ``max_wait_ms`` for ``min_bytes``, woken by changes of the index, not by polling. All partitions are read in
one call, so a bundle that holds several of them is read once (R12). The first batch of a partition may begin below the
offset asked for and is given whole; at least one batch is given if there is one, whatever the byte limits.
OFFSET_OUT_OF_RANGE comes only after a linearizable look (R08). High watermark and last stable offset are both the log end.

Deviations: no fetch sessions (KIP-227): session id 0 is answered, which clients take as "full fetches"; no preferred read
replica (any broker reads any partition); a current leader epoch above 0 is UNKNOWN_LEADER_EPOCH (R26); aborted transactions
are an empty list.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from frazil.broker.registry import Call, Shape, handles
from frazil.broker.services import Services
from frazil.kit.errors import Corrupt, Missing, RetryLater
from frazil.kit.names import PartitionId, PartitionKey
from frazil.log.refs import OffsetOutOfRange, Pieces, Want
from frazil.wire.errors import ErrorCode
from frazil.wire.fetch import FetchAnswer, FetchCall, FetchedPartition, FetchedTopic, FetchPartition, decode_fetch, encode_fetch_response
from frazil.wire.messages.registry import ApiKey

log = logging.getLogger(__name__)

_READ_COMMITTED = 1
_PART_BYTES = 16 * 1024
"""Smaller parts are joined: a copy costs less than so many buffers for the kernel to collect."""


@dataclass(slots=True)
class _Reading:
    """One partition that can be read, and the place of its answer."""

    key: PartitionKey
    offset: int
    bytes_max: int
    answer: FetchedPartition


@handles(ApiKey.FETCH, 4, 12, shape=Shape(decode=decode_fetch, encode=encode_fetch_response, ends_with_connection=True))
async def fetch(call: Call[FetchCall]) -> FetchAnswer:
    """Waits for data, reads, answers."""
    request = call.message
    services = call.services
    if request.session_id != 0:
        return FetchAnswer(topics=(), error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    topics, readings, failed = await _resolve(call)
    if not failed:
        await _wait(services, request, readings)
    await _read(services, readings, min(request.bytes_max, services.settings.fetch_bytes_max))
    return FetchAnswer(topics=topics)


async def _resolve(call: Call[FetchCall]) -> tuple[list[FetchedTopic], list[_Reading], bool]:
    """The answer's skeleton, what is to be read, and whether some partition has failed already."""
    request = call.message
    found = await call.services.topics.find_all([topic.name for topic in request.topics])
    topics: list[FetchedTopic] = []
    readings: list[_Reading] = []
    failed = False
    for topic in request.topics:
        record = found.get(topic.name)
        answers = []
        for asked in topic.partitions:
            answer = FetchedPartition(asked.index, aborted=() if request.isolation_level == _READ_COMMITTED else None)
            answers.append(answer)
            if record is None or not 0 <= asked.index < record.partitions:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif asked.current_leader_epoch > 0:
                answer.error_code = ErrorCode.UNKNOWN_LEADER_EPOCH
            else:
                readings.append(_reading(PartitionKey(record.topic_id, PartitionId(asked.index)), asked, answer))
            failed = failed or answer.error_code != 0
        topics.append(FetchedTopic(topic.name, answers))
    return topics, readings, failed


def _reading(key: PartitionKey, asked: FetchPartition, answer: FetchedPartition) -> _Reading:
    return _Reading(key, asked.fetch_offset, asked.partition_bytes_max, answer)


async def _wait(services: Services, request: FetchCall, readings: Sequence[_Reading]) -> None:
    """Returns when there are ``min_bytes``, when an offset needs a verdict, or when the time is over."""
    index = services.index
    deadline_ms = services.clock.monotonic_ms() + min(request.wait_ms_max, services.settings.fetch_wait_max_ms)
    while readings:
        seen = {}
        waiting_bytes = 0
        for reading in readings:
            bounds = index.bounds(reading.key)
            if not bounds.start <= reading.offset <= bounds.end:
                return
            seen[reading.key] = bounds.end
            if waiting_bytes < request.bytes_min:
                refs = index.refs(reading.key, reading.offset, bytes_max=request.bytes_min - waiting_bytes)
                waiting_bytes += sum(ref.length for ref in refs)
        left_ms = int(deadline_ms - services.clock.monotonic_ms())
        if waiting_bytes >= request.bytes_min or left_ms <= 0:
            return
        await index.wait_change(seen, timeout_ms=left_ms)


async def _read(services: Services, readings: Sequence[_Reading], bytes_max: int) -> None:
    """Fills the answers, first come first served within ``bytes_max``."""
    index = services.index
    wants: list[Want] = []
    wanted: list[_Reading] = []
    left = bytes_max
    for reading in readings:
        bounds = index.bounds(reading.key)
        answer = reading.answer
        answer.high_watermark = answer.last_stable_offset = bounds.end
        answer.log_start_offset = bounds.start
        full = left <= 0 and bool(wants) and bounds.start <= reading.offset < bounds.end
        if reading.offset == bounds.end or full:
            continue
        share = max(0, min(reading.bytes_max, left))
        left -= min(share, sum(ref.length for ref in index.refs(reading.key, reading.offset, bytes_max=share)))
        wants.append(Want(key=reading.key, offset=reading.offset, bytes_max=share))
        wanted.append(reading)
    if not wants:
        return
    expected = bytes_max - left
    await services.fetch_gate.enter(expected)
    try:
        for reading, found in zip(wanted, await services.reader.read_pieces(wants), strict=True):
            _fill(reading.answer, found)
    except (OffsetOutOfRange, RetryLater, Missing, Corrupt):
        # One bad partition must not starve the others: each is read alone and gets its own verdict.
        for reading, want in zip(wanted, wants, strict=True):
            await _read_alone(services, reading, want)
    finally:
        services.fetch_gate.leave(expected)


async def _read_alone(services: Services, reading: _Reading, want: Want) -> None:
    answer = reading.answer
    try:
        _fill(answer, (await services.reader.read_pieces([want]))[0])
    except OffsetOutOfRange as error:
        answer.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        answer.high_watermark = answer.last_stable_offset = error.bounds.end
        answer.log_start_offset = error.bounds.start
    except (RetryLater, Missing, Corrupt) as error:
        level = logging.WARNING if isinstance(error, RetryLater) else logging.ERROR
        log.log(level, "partition %s not read at offset %d: %s", want.key, want.offset, error)
        # The one storage code that every client retries instead of raising.
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR


def _fill(answer: FetchedPartition, found: Pieces) -> None:
    answer.high_watermark = answer.last_stable_offset = found.bounds.end
    answer.log_start_offset = found.bounds.start
    parts = found.parts
    if len(parts) > 1 and sum(map(len, parts)) < _PART_BYTES * len(parts):
        parts = (b"".join(parts),)
    if parts:
        answer.records, answer.more = parts[0], parts[1:]
