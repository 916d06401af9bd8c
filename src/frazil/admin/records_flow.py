"""Producing and consuming over one broker connection."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Mapping, Sequence

from frazil.admin.connection import BrokerConnection, check
from frazil.admin.port import ConsumePlan, IncomingRecord, OutgoingRecord
from frazil.kit.clock import SystemClock
from frazil.kit.errors import Corrupt, Refused
from frazil.records import Codec, build_batch, scan
from frazil.records.building import BatchOptions, Record
from frazil.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from frazil.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic
from frazil.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from frazil.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from frazil.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from frazil.wire.messages.registry import ApiKey

EARLIEST, LATEST = -2, -1
_FETCH_BYTES = 8 * 1024 * 1024
_BATCH_UNCOMPRESSED_MAX = 256 * 1024 * 1024


async def list_offsets(connection: BrokerConnection, topic: str, partitions: Sequence[int], timestamp: int) -> dict[int, int]:
    """Offset per partition for ``EARLIEST``, ``LATEST`` or a time in milliseconds."""
    if not partitions:
        return {}
    asked = [ListOffsetsPartition(partition_index=p, timestamp=timestamp) for p in partitions]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)])
    answer = await connection.ask(ApiKey.LIST_OFFSETS, 7, request, ListOffsetsResponse)
    found: dict[int, int] = {}
    for partition in answer.topics[0].partitions:
        check(partition.error_code, f"offsets of {topic}/{partition.partition_index}")
        found[partition.partition_index] = partition.offset
    return found


async def produce(
    connection: BrokerConnection, topic: str, partitions: Sequence[int], records: Sequence[OutgoingRecord], *, codec: str
) -> int:
    """Sends the records in one request, one batch per partition; the number acknowledged."""
    now_ms = SystemClock().now_ms()
    by_partition: dict[int, list[Record]] = {}
    for index, record in enumerate(records):
        number = record.partition if record.partition >= 0 else _choose(record.key, index, len(partitions))
        if number not in partitions:
            raise Refused(f"topic {topic} has no partition {number}; it has 0 to {len(partitions) - 1}")
        by_partition.setdefault(number, []).append(_record(record, now_ms))
    options = BatchOptions(codec=Codec[codec.upper()])
    data = [PartitionProduceData(index=p, records=build_batch(rows, options=options)) for p, rows in sorted(by_partition.items())]
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])
    answer = await connection.ask(ApiKey.PRODUCE, 9, request, ProduceResponse)
    for partition in answer.responses[0].partition_responses:
        check(partition.error_code, f"{topic}/{partition.index}", partition.error_message)
    return len(records)


def _record(record: OutgoingRecord, now_ms: int) -> Record:
    return Record(key=record.key, value=record.value, timestamp_ms=now_ms, headers=record.headers)


async def consume(connection: BrokerConnection, plan: ConsumePlan, partitions: Sequence[int]) -> AsyncIterator[IncomingRecord]:
    """Fetches until the end that was current at the start, or for ever with ``follow``."""
    ends = await list_offsets(connection, plan.topic, partitions, LATEST)
    offsets = await _starts(connection, plan, partitions, ends)
    left = plan.records_max
    while left != 0 and (plan.follow or any(offsets[p] < ends[p] for p in partitions)):
        wanted = [p for p in partitions if plan.follow or offsets[p] < ends[p]]
        for partition, data in await _fetch(connection, plan.topic, {p: offsets[p] for p in wanted}):
            for record in _records(plan.topic, partition, data):
                if record.offset < offsets[partition] or left == 0:
                    continue
                if not plan.follow and record.offset >= ends[partition]:
                    break
                yield record
                offsets[partition] = record.offset + 1
                left = None if left is None else left - 1
            if left != 0:
                offsets[partition] = max(offsets[partition], _end_of(data, offsets[partition]))
        if plan.group:
            await commit_offsets(connection, plan.group, {plan.topic: offsets})


async def _starts(connection: BrokerConnection, plan: ConsumePlan, partitions: Sequence[int], ends: dict[int, int]) -> dict[int, int]:
    begins = await list_offsets(connection, plan.topic, partitions, EARLIEST)
    if plan.start_ms is not None:
        offsets = await offsets_at_time(connection, plan.topic, ends, plan.start_ms)
    else:
        offsets = offsets_at(plan.start, plan.topic, begins, ends)
    if plan.group:
        asked = [OffsetFetchRequestTopic(name=plan.topic, partition_indexes=list(partitions))]
        request = OffsetFetchRequest(group_id=plan.group, topics=asked)
        answer = await connection.ask(ApiKey.OFFSET_FETCH, 7, request, OffsetFetchResponse)
        check(answer.error_code, f"offsets of group {plan.group}")
        for topic in answer.topics:
            committed = {p.partition_index: p.committed_offset for p in topic.partitions}
            # What retention has passed is gone: such a partition starts where ``start`` says, like one without a commit.
            offsets.update({p: offset for p, offset in committed.items() if begins[p] <= offset <= ends[p]})
    return offsets


def offsets_at(word: str, topic: str, begins: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
    """The offset of each partition for ``earliest``, ``latest`` or a number, which is brought inside what a partition holds.

    Raises Refused for another word, and for a number that no partition holds.
    """
    if word == "latest":
        return dict(ends)
    if word == "earliest":
        return dict(begins)
    if not (word.isascii() and word.isdecimal()):
        raise Refused(f"{word!r}: want earliest, latest or an offset")
    wanted = int(word)
    if not any(begins[p] <= wanted <= ends[p] for p in begins):
        held = ", ".join(f"{topic}/{p} begins at {begins[p]} and ends before {ends[p]}" for p in begins)
        raise Refused(f"no partition holds offset {wanted}: {held}")
    return {p: min(max(wanted, begins[p]), ends[p]) for p in begins}


async def offsets_at_time(connection: BrokerConnection, topic: str, ends: Mapping[int, int], at_ms: int) -> dict[int, int]:
    """The offset of the first record of ``at_ms`` or later in each partition; its end where there is none."""
    found = await list_offsets(connection, topic, sorted(ends), max(0, at_ms))
    return {p: ends[p] if offset < 0 else offset for p, offset in found.items()}


async def _fetch(connection: BrokerConnection, topic: str, offsets: dict[int, int]) -> list[tuple[int, memoryview]]:
    asked = [FetchPartition(partition=p, fetch_offset=o, partition_max_bytes=_FETCH_BYTES) for p, o in offsets.items()]
    request = FetchRequest(
        replica_id=-1, max_wait_ms=500, min_bytes=1, max_bytes=_FETCH_BYTES * 4, topics=[FetchTopic(topic=topic, partitions=asked)]
    )
    answer = await connection.ask(ApiKey.FETCH, 12, request, FetchResponse)
    check(answer.error_code, f"fetch of {topic}")
    found: list[tuple[int, memoryview]] = []
    for partition in answer.responses[0].partitions if answer.responses else ():
        check(partition.error_code, f"fetch of {topic}/{partition.partition_index} at offset {offsets[partition.partition_index]}")
        if partition.records:
            found.append((partition.partition_index, memoryview(partition.records)))
    return found


def _records(topic: str, partition: int, data: memoryview) -> list[IncomingRecord]:
    columns, faults = scan(data, uncompressed_bytes_max=_BATCH_UNCOMPRESSED_MAX, where=f"{topic}/{partition}")
    if faults:
        raise Corrupt(faults[0].why, where=f"{topic}/{partition} offsets {faults[0].first_offset}-{faults[0].last_offset}")
    return [
        IncomingRecord(
            topic=topic,
            partition=partition,
            offset=columns.offsets[i],
            timestamp_ms=columns.timestamps_ms[i],
            key=columns.keys[i],
            value=columns.values[i],
            headers=columns.headers[i],
        )
        for i in range(len(columns.offsets))
    ]


def _end_of(data: memoryview, least: int) -> int:
    """The offset after the last batch, so that control batches and compaction gaps are passed."""
    position, end = 0, least
    while position + 61 <= len(data):
        base = int.from_bytes(data[position : position + 8], "big")
        length = int.from_bytes(data[position + 8 : position + 12], "big")
        end = max(end, base + int.from_bytes(data[position + 23 : position + 27], "big") + 1)
        position += 12 + length
    return end


async def commit_offsets(connection: BrokerConnection, group: str, offsets: Mapping[str, Mapping[int, int]]) -> None:
    """Commits as somebody outside the group: only a group without members takes it."""
    topics = [
        OffsetCommitRequestTopic(
            name=name, partitions=[OffsetCommitRequestPartition(partition_index=p, committed_offset=o) for p, o in rows.items()]
        )
        for name, rows in offsets.items()
    ]
    answer = await connection.ask(ApiKey.OFFSET_COMMIT, 8, OffsetCommitRequest(group_id=group, topics=topics), OffsetCommitResponse)
    for topic in answer.topics:
        for partition in topic.partitions:
            check(partition.error_code, f"commit of {topic.name}/{partition.partition_index} for group {group}")


def _choose(key: bytes | None, index: int, count: int) -> int:
    return index % count if key is None else zlib.crc32(key) % count
