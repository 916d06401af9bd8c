"""Topics of another cluster as a log: views from ListOffsets, records from Fetch, as brokers store them.

Raw batches, not messages: what is no record (markers, aborted batches, offsets that compaction took) is seen as what it is, and topics are
read by id where brokers have ids, so that one made anew under the same name is never taken for the old one (F03).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from frazil.kit.clock import Clock
from frazil.kit.errors import Refused, RetryLater
from frazil.kit.names import PartitionId, PartitionKey, TopicId, TopicName
from frazil.log.extract import whole_frames
from frazil.log.kafka.cluster import KafkaCluster, KafkaTopic, check_answer
from frazil.log.refs import Bounds, OffsetAt, OffsetOutOfRange, Ref, Slice, Want
from frazil.metadata.topics import TopicRecord
from frazil.wire.errors import ErrorCode
from frazil.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from frazil.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic
from frazil.wire.messages.registry import ApiKey

EARLIEST: Final = -2
LATEST: Final = -1
_FETCH_BY_NAME, _FETCH = 12, 16
_LIST_OFFSETS: Final = 7
_NOTHING: Final = Bounds(start=0, end=0)
_FETCH_BYTES_MAX: Final = 128 * 1024 * 1024
_SEEN_MAX: Final = 64
_BYTES_GUESSED: Final = 16 * 1024
"""Of one offset, until something was read: too much rather than too little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaPolicy:
    """Times in milliseconds."""

    interval_ms: int = 500
    """Offsets are asked for no more often; a view may be that old."""
    metadata_ms: int = 5_000
    """Topics, partitions and leaders are asked for as often, and when a broker says that something has changed."""
    patience_ms: int = 15_000
    """So long a partition may be without answers before that is trouble: leaders move."""


@dataclass(slots=True)
class _Partition:
    topic: KafkaTopic
    number: int
    leader: int
    bounds: Bounds | None = None
    bytes_each: float = _BYTES_GUESSED
    seen: deque[tuple[int, int]] = field(default_factory=deque)
    """(log end, time at which it was seen first), young and old; for how fresh what waits is."""
    silent_ms: float | None = None
    why: str = ""


class KafkaLog:
    """``LogView`` and ``LogSource`` over some topics, and which of them there are."""

    def __init__(
        self, cluster: KafkaCluster, clock: Clock, *, cluster_id: str, topics: Sequence[str], policy: KafkaPolicy | None = None
    ) -> None:
        self._cluster, self._clock, self._cluster_id, self._names = cluster, clock, cluster_id, tuple(topics)
        self._policy = policy or KafkaPolicy()
        self._topics: dict[str, KafkaTopic] = {}
        self._partitions: dict[PartitionKey, _Partition] = {}
        self._due_ms = self._metadata_due_ms = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    # --- which topics, which offsets ---------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Asks for topics and offsets, unless that was done a moment ago; callers share one round. Raises RetryLater, Refused."""
        if self._reading is None:
            if self._clock.monotonic_ms() < self._due_ms:
                return
            self._reading = asyncio.get_running_loop().create_task(self._read(), name="list kafka offsets")
            self._reading.add_done_callback(self._done)
        await asyncio.shield(self._reading)

    def get(self, name: str) -> TopicRecord | None:
        """The topic, when there is one."""
        topic = self._topics.get(name)
        if topic is None:
            return None
        return TopicRecord(name=TopicName(name), topic_id=topic.topic_id, partitions=len(topic.leaders), incarnation=1, created_ms=0)

    def all(self) -> tuple[TopicRecord, ...]:
        """The topics there are, by name."""
        return tuple(record for name in sorted(self._topics) if (record := self.get(name)) is not None)

    def bounds(self, key: PartitionKey) -> Bounds:
        """See ``LogView.bounds``. The end is the high watermark."""
        found = self._partitions.get(key)
        return _NOTHING if found is None or found.bounds is None else found.bounds

    def end(self, key: PartitionKey) -> int:
        """See ``LogView.end``."""
        return self.bounds(key).end

    def refs(self, key: PartitionKey, offset: int, *, bytes_max: int) -> tuple[Ref, ...]:
        """One ref for all that waits, of about its size: brokers do not say how many bytes there are."""
        del bytes_max
        found = self._partitions.get(key)
        if found is None or found.bounds is None or offset >= found.bounds.end:
            return ()
        at_ms = next((at_ms for end, at_ms in found.seen if end > offset), self._clock.now_ms())
        size = int((found.bounds.end - offset) * found.bytes_each) + 1
        ref = Ref(
            base=offset,
            end=found.bounds.end,
            object_key=f"kafka:{found.topic.name}/{found.number}",
            position=0,
            length=size,
            first_timestamp_ms=at_ms,
            max_timestamp_ms=at_ms,
            sealed=True,
            object_bytes=size,
            written_ms=at_ms,
        )
        return (ref,)

    def past_lost(self, key: PartitionKey, offset: int) -> int:
        """See ``LogView.past_lost``: brokers have no such ranges."""
        del key
        return offset

    def runs(self, key: PartitionKey) -> Iterable[Ref]:
        """See ``LogView.runs``."""
        return self.refs(key, self.bounds(key).start, bytes_max=1)

    def trouble(self, key: PartitionKey) -> str | None:
        """See ``LogView.trouble``."""
        found = self._partitions.get(key)
        if found is None or found.silent_ms is None or self._clock.monotonic_ms() - found.silent_ms < self._policy.patience_ms:
            return None
        return found.why

    async def find_time(self, key: PartitionKey, timestamp_ms: int) -> OffsetAt | None:
        """See ``LogSource.find_time``: the brokers know."""
        found = self._partitions.get(key)
        if found is None:
            raise RetryLater(f"{key} is not known at the moment")
        answers = await self._list_offsets(found.leader, [found], max(0, timestamp_ms))
        offset, at_ms = answers[key]
        return None if offset < 0 else OffsetAt(offset=offset, timestamp_ms=at_ms)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._reading = None
        if not task.cancelled():
            task.exception()  # each caller that waits gets it; all of them may have been cancelled

    async def _read(self) -> None:
        begun_ms = self._clock.monotonic_ms()
        if begun_ms >= self._metadata_due_ms:
            await self._read_topics()
            self._metadata_due_ms = begun_ms + self._policy.metadata_ms
        by_leader: dict[int, list[_Partition]] = {}
        for found in self._partitions.values():
            by_leader.setdefault(found.leader, []).append(found)
        await asyncio.gather(*(self._read_bounds(leader, partitions) for leader, partitions in by_leader.items()))
        unknown = [found for found in self._partitions.values() if found.bounds is None]
        if unknown:
            self._metadata_due_ms = float("-inf")
            raise RetryLater(f"Kafka topic {unknown[0].topic.name}, partition {unknown[0].number}: {unknown[0].why}")
        self._due_ms = begun_ms + self._policy.interval_ms

    async def _read_topics(self) -> None:
        metadata = await self._cluster.metadata(self._names)
        if metadata.cluster_id != self._cluster_id:
            raise Refused(
                f"brokers are of Kafka cluster {metadata.cluster_id} now, and were of {self._cluster_id}; restart landing for that"
            )
        known, self._partitions = self._partitions, {}
        self._topics = dict(metadata.topics)
        for topic in metadata.topics.values():
            for number, leader in enumerate(topic.leaders):
                key = PartitionKey(topic.topic_id, PartitionId(number))
                found = self._partitions[key] = known.get(key) or _Partition(topic, number, leader)
                found.topic, found.leader = topic, leader

    async def _read_bounds(self, leader: int, partitions: Sequence[_Partition]) -> None:
        """What cannot be had keeps its old bounds; that becomes trouble when it lasts."""
        try:
            if leader < 0:
                raise RetryLater("there is no leader")
            starts, ends = await asyncio.gather(
                self._list_offsets(leader, partitions, EARLIEST), self._list_offsets(leader, partitions, LATEST)
            )
        except RetryLater as error:
            self._metadata_due_ms = float("-inf")
            for found in partitions:
                found.why = str(error)
                found.silent_ms = self._clock.monotonic_ms() if found.silent_ms is None else found.silent_ms
            return
        now_ms = self._clock.now_ms()
        for found in partitions:
            key = _key(found)
            found.silent_ms = None
            found.bounds = Bounds(start=starts[key][0], end=max(starts[key][0], ends[key][0]))
            if not found.seen or found.seen[-1][0] != found.bounds.end:
                found.seen.append((found.bounds.end, now_ms))
                if len(found.seen) > _SEEN_MAX:
                    del found.seen[_SEEN_MAX // 2]  # the oldest ones say most

    async def _list_offsets(self, leader: int, partitions: Sequence[_Partition], timestamp: int) -> Mapping[PartitionKey, tuple[int, int]]:
        version = await self._cluster.version(leader, ApiKey.LIST_OFFSETS, _LIST_OFFSETS)
        by_topic: dict[str, list[ListOffsetsPartition]] = {}
        for found in partitions:
            by_topic.setdefault(found.topic.name, []).append(ListOffsetsPartition(partition_index=found.number, timestamp=timestamp))
        asked = [ListOffsetsTopic(name=name, partitions=numbers) for name, numbers in by_topic.items()]
        request = ListOffsetsRequest(replica_id=-1, topics=asked)
        answer = await self._cluster.ask(leader, ApiKey.LIST_OFFSETS, version, request, ListOffsetsResponse)
        ids = {found.topic.name: found.topic.topic_id for found in partitions}
        result: dict[PartitionKey, tuple[int, int]] = {}
        for topic in answer.topics:
            for partition in topic.partitions:
                check_answer(partition.error_code, f"offsets of Kafka topic {topic.name}, partition {partition.partition_index}")
                result[PartitionKey(ids[topic.name], PartitionId(partition.partition_index))] = (partition.offset, partition.timestamp)
        missing = [found for found in partitions if _key(found) not in result]
        if missing:
            raise RetryLater(f"no offsets of Kafka topic {missing[0].topic.name}, partition {missing[0].number}")
        return result

    # --- records -----------------------------------------------------------------------------------------------------

    async def fetch(self, key: PartitionKey, offset: int, *, bytes_max: int) -> Slice:
        """See ``LogSource.fetch``."""
        return (await self.read_many([Want(key=key, offset=offset, bytes_max=bytes_max)]))[0]

    async def read_many(self, wants: Sequence[Want]) -> tuple[Slice, ...]:
        """See ``LogSource.read_many``. A slice may be empty when the answer was full: ask again, beginning with it."""
        by_leader: dict[int, list[Want]] = {}
        for want in wants:
            found = self._partitions.get(want.key)
            if found is None:
                raise RetryLater(f"{want.key} is not known at the moment")
            by_leader.setdefault(found.leader, []).append(want)
        slices: dict[PartitionKey, Slice] = {}
        try:
            for part in await asyncio.gather(*(self._fetch(leader, asked) for leader, asked in by_leader.items())):
                slices.update(part)
            for want in wants:
                if want.offset < self.end(want.key) and slices[want.key].end <= want.offset:
                    slices[want.key] = await self._alone(want)
        except RetryLater:
            self._due_ms = self._metadata_due_ms = float("-inf")
            raise
        except OffsetOutOfRange:
            self._due_ms = float("-inf")
            raise
        return tuple(slices[want.key] for want in wants)

    async def _alone(self, want: Want) -> Slice:
        """A want that got nothing beside others: its first batch comes, whatever its size. None at all: there is no batch up to the end.

        Brokers end their answer with the watermark they had before they looked for batches, so the end of such a gap is sure (F11).
        """
        leader = self._partitions[want.key].leader
        seen = (await self._fetch(leader, [want]))[want.key]
        if seen.data:
            return seen
        again = (await self._fetch(leader, [want]))[want.key]
        if again.data:
            return again
        return Slice(key=want.key, base=want.offset, end=max(want.offset, seen.bounds.end), data=b"", bounds=again.bounds)

    async def _fetch(self, leader: int, wants: Sequence[Want]) -> dict[PartitionKey, Slice]:
        by_id = all(self._partitions[want.key].topic.has_id for want in wants)
        version = await self._cluster.version(leader, ApiKey.FETCH, _FETCH if by_id else _FETCH_BY_NAME)
        by_topic: dict[str, list[Want]] = {}
        for want in wants:
            by_topic.setdefault(self._partitions[want.key].topic.name, []).append(want)
        asked = [
            FetchTopic(
                topic=name if version <= _FETCH_BY_NAME else "",
                topic_id=some[0].key.topic_id if version > _FETCH_BY_NAME else bytes(16),
                partitions=[
                    FetchPartition(partition=int(want.key.partition), fetch_offset=want.offset, partition_max_bytes=max(1, want.bytes_max))
                    for want in some
                ],
            )
            for name, some in by_topic.items()
        ]
        most = min(_FETCH_BYTES_MAX, sum(max(1, want.bytes_max) for want in wants))
        request = FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=most, topics=asked)
        answer = await self._cluster.ask(leader, ApiKey.FETCH, version, request, FetchResponse)
        check_answer(answer.error_code, "fetch")
        ids = {name: some[0].key.topic_id for name, some in by_topic.items()}
        parts = {
            PartitionKey(
                TopicId(bytes(topic.topic_id)) if version > _FETCH_BY_NAME else ids[topic.topic], PartitionId(part.partition_index)
            ): part
            for topic in answer.responses
            for part in topic.partitions
        }
        return {want.key: self._slice(want, parts.get(want.key), throttled=answer.throttle_time_ms > 0) for want in wants}

    def _slice(self, want: Want, part: PartitionData | None, *, throttled: bool) -> Slice:
        found = self._partitions[want.key]
        about = f"fetch of Kafka topic {found.topic.name}, partition {found.number}, offset {want.offset}"
        if part is None:
            raise RetryLater(f"{about}: the answer leaves it out")
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise OffsetOutOfRange(want.key, want.offset, self.bounds(want.key))
        check_answer(part.error_code, about)
        bounds = Bounds(start=max(part.log_start_offset, 0), end=part.high_watermark)
        data = bytes(part.records or b"")
        data = data[: whole_frames(data)]
        if not data:
            if throttled and want.offset < bounds.end:
                raise RetryLater(f"{about}: the brokers' quota for this client is used up for now")
            return Slice(key=want.key, base=want.offset, end=want.offset, data=b"", bounds=bounds)
        first, end = _span(data)
        found.bytes_each = max(1.0, len(data) / max(1, end - first))
        return Slice(key=want.key, base=min(first, want.offset), end=end, data=data, bounds=bounds)


def _key(found: _Partition) -> PartitionKey:
    return PartitionKey(found.topic.topic_id, PartitionId(found.number))


def _span(data: bytes) -> tuple[int, int]:
    """First offset of the first batch, and the one after the last batch; old message sets (magic 0, 1) count from their own offset."""
    position, end = 0, 0
    while position < len(data):
        length = int.from_bytes(data[position + 8 : position + 12], "big")
        last = int.from_bytes(data[position + 23 : position + 27], "big") if length >= 49 and data[position + 16] >= 2 else 0
        end = int.from_bytes(data[position : position + 8], "big") + last + 1
        position += length + 12
    return int.from_bytes(data[:8], "big"), end
