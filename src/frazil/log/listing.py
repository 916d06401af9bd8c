"""A log known by nothing but its sealed segments in a bucket: source kind ``kafscale`` (R27).

``{prefix}{topic}/{partition}/segment-{base}.kfs`` and ``.index`` beside it, as KafScale brokers and our sealing write them. A segment
counts when it is whole (its last bytes say so) and settled: its index is there, or a later segment is. Segments are taken in order of
their base. Where the next one begins later than the last ended, the view ends, and says so, until ``gap_patience_ms`` have passed: then
the offsets between are lost for good, which KafScale brokers can bring about. Where the next one begins earlier, an offset is served by
the first segment that has it, and refs end where the two meet, so that a reader drops what it has already.

Where KafScale's etcd can be read (``KafscaleView``), a segment below the acknowledged end is settled also when its index is lost, topics
are known before their first segment, and acknowledged records that no segment holds are named.

Keys of such a log can be written again (a wiped bucket, a stale owner), so what is known of a segment holds only while size and time stay.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from frazil.kit.clock import Clock
from frazil.kit.errors import Corrupt, Missing
from frazil.kit.names import PartitionId, PartitionKey, TopicId, TopicName
from frazil.log.kafscale.snapshot import Known
from frazil.log.refs import Bounds, Ref
from frazil.metadata.topics import PARTITIONS_MAX, TopicRecord
from frazil.objects.port import ObjectInfo, ObjectStore
from frazil.segments.indexes import SEGMENT_HEADER_BYTES
from frazil.segments.kfs import FOOTER_BYTES, read_footer, read_header

GETS_MAX: Final = 16
_PAUSE_SHARE: Final = 10
"""Listing may take a tenth of the time, as long as the pause is below ``_PAUSE_MS_MAX``."""
_PAUSE_MS_MAX: Final = 60_000
_KEY: Final = re.compile(r"(0|[1-9][0-9]{0,8})/segment-([0-9]{1,20})\.(kfs|index)", re.ASCII)
_UNKNOWN_MS: Final = 2**63 - 1
"""Timestamps are the producers': a segment may hold any, so a search by time looks into each."""
_NOTHING: Final = Bounds(start=0, end=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingPolicy:
    """Times in milliseconds."""

    interval_ms: int = 1_000
    """The bucket is listed no more often; a view may be that old. One that takes long to list is listed less often."""
    gap_patience_ms: int = 900_000
    """How long a missing segment is waited for, counted from the time of the one after it."""


class KafscaleView(Protocol):
    """What the log's own cluster says of it."""

    async def read(self, topics: Sequence[str]) -> Known:
        """Partitions and acknowledged ends of these topics. Raises RetryLater, Refused, Corrupt."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What tells one log of a partition from another under the same name: its lowest segment."""

    base: int
    crc: int
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Segment:
    key: str
    base: int
    end: int
    crc: int
    size_bytes: int
    modified_ms: int

    def ref(self) -> Ref:
        return Ref(
            base=self.base,
            end=self.end,
            object_key=self.key,
            position=SEGMENT_HEADER_BYTES,
            length=self.size_bytes - SEGMENT_HEADER_BYTES - FOOTER_BYTES,
            first_timestamp_ms=self.modified_ms,
            max_timestamp_ms=_UNKNOWN_MS,
            sealed=True,
            object_bytes=self.size_bytes,
            written_ms=self.modified_ms,
        )


@dataclass(slots=True)
class _Log:
    """One partition. ``chain`` has the segments that count, in order."""

    known: dict[int, _Segment] = field(default_factory=dict)
    chain: list[_Segment] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    identity: Identity | None = None
    trouble: str | None = None


@dataclass(slots=True)
class _Listed:
    """What one listing says about one partition, by base offset."""

    segments: dict[int, ObjectInfo] = field(default_factory=dict)
    indexed: set[int] = field(default_factory=set)


class SegmentListing:
    """``log.view.LogView`` over a bucket; also the topics that are in it. ``forget`` is told each key whose object has changed."""

    def __init__(
        self,
        objects: ObjectStore,
        clock: Clock,
        *,
        prefix: str,
        topics: Sequence[str],
        policy: ListingPolicy | None = None,
        cluster: KafscaleView | None = None,
    ) -> None:
        self.changed: Callable[[str], None] = _nobody
        self._objects = objects
        self._clock = clock
        self._prefix = prefix if prefix.endswith("/") or not prefix else f"{prefix}/"
        self._topics = {topic: topic_id_of(topic) for topic in topics}
        self._policy = policy or ListingPolicy()
        self._cluster = cluster
        self._told = Known(partitions={}, ends={})
        self._logs: dict[PartitionKey, _Log] = {}
        self._due_ms = float("-inf")
        self._reading: asyncio.Task[None] | None = None
        self._gets = asyncio.Semaphore(GETS_MAX)

    async def refresh(self) -> None:
        """Lists the bucket, unless that was done a moment ago; callers share one listing. Raises RetryLater, Refused."""
        if self._reading is None:
            if self._clock.monotonic_ms() < self._due_ms:
                return
            self._reading = asyncio.get_running_loop().create_task(self._read(), name="list segments")
            self._reading.add_done_callback(self._done)
        await asyncio.shield(self._reading)

    def get(self, name: str) -> TopicRecord | None:
        """The topic, when a segment of it was seen, or its cluster knows it."""
        topic_id = self._topics.get(name)
        numbers = [int(key.partition) for key in self._logs if key.topic_id == topic_id]
        count = max(max(numbers, default=-1) + 1, self._told.partitions.get(name, 0))
        if topic_id is None or not count:
            return None
        return TopicRecord(name=TopicName(name), topic_id=topic_id, partitions=count, incarnation=1, created_ms=0)

    def all(self) -> tuple[TopicRecord, ...]:
        """Every topic of which a segment was seen, by name."""
        return tuple(record for name in sorted(self._topics) if (record := self.get(name)) is not None)

    def identity(self, key: PartitionKey) -> Identity | None:
        """Of the log as it is; None when it is empty."""
        log = self._logs.get(key)
        return None if log is None else log.identity

    def bounds(self, key: PartitionKey) -> Bounds:
        """See ``LogView.bounds``."""
        log = self._logs.get(key)
        return _NOTHING if log is None or not log.chain else Bounds(start=log.chain[0].base, end=log.chain[-1].end)

    def end(self, key: PartitionKey) -> int:
        """See ``LogView.end``."""
        return self.bounds(key).end

    def refs(self, key: PartitionKey, offset: int, *, bytes_max: int) -> tuple[Ref, ...]:
        """See ``LogView.refs``."""
        log = self._logs.get(key)
        found: list[Ref] = []
        size = 0
        for segment in () if log is None else log.chain[bisect_right(log.ends, offset) :]:
            joined = segment.base == found[-1].end if found else segment.base <= offset
            if not joined or (found and size >= bytes_max):
                break
            found.append(segment.ref())
            size += segment.size_bytes
        return tuple(found)

    def past_lost(self, key: PartitionKey, offset: int) -> int:
        """See ``LogView.past_lost``: a gap inside the chain is lost."""
        log = self._logs.get(key)
        at = 0 if log is None else bisect_right(log.ends, offset)
        if log is None or not 0 < at < len(log.chain):
            return offset
        return max(offset, log.chain[at].base)

    def runs(self, key: PartitionKey) -> Iterable[Ref]:
        """See ``LogView.runs``."""
        log = self._logs.get(key)
        return () if log is None else [segment.ref() for segment in log.chain]

    def trouble(self, key: PartitionKey) -> str | None:
        """See ``LogView.trouble``."""
        log = self._logs.get(key)
        return None if log is None else log.trouble

    # --- listing -------------------------------------------------------------------------------------------------------

    def _done(self, task: asyncio.Task[None]) -> None:
        self._reading = None
        if not task.cancelled():
            task.exception()  # each caller that waits gets it; all of them may have been cancelled

    async def _read(self) -> None:
        begun_ms = self._clock.monotonic_ms()
        if self._cluster is not None:
            self._told = await self._cluster.read(tuple(self._topics))  # before the listing, which then has all that was acknowledged
        listed = {key: part for name, topic_id in self._topics.items() for key, part in (await self._list(name, topic_id)).items()}
        for key in [key for key in self._logs if key not in listed]:
            listed[key] = _Listed()  # all its segments are gone
        for key, part in listed.items():
            await self._update(self._logs.setdefault(key, _Log()), part, self._acknowledged(key))
        took_ms = self._clock.monotonic_ms() - begun_ms
        self._due_ms = begun_ms + max(self._policy.interval_ms, min(_PAUSE_SHARE * took_ms, _PAUSE_MS_MAX))

    async def _list(self, topic: str, topic_id: TopicId) -> Mapping[PartitionKey, _Listed]:
        found: dict[PartitionKey, _Listed] = {}
        place = f"{self._prefix}{topic}/"
        async for info in self._objects.list(place):
            match = _KEY.fullmatch(info.key, len(place))
            if match is None or int(match[1]) >= PARTITIONS_MAX or int(match[2]) >= 2**63:
                continue  # something else beside the segments
            part = found.setdefault(PartitionKey(topic_id, PartitionId(int(match[1]))), _Listed())
            if match[3] == "kfs":
                part.segments[int(match[2])] = info
            else:
                part.indexed.add(int(match[2]))
        return found

    def _acknowledged(self, key: PartitionKey) -> int:
        """The end of the log by its cluster; 0 when nobody says."""
        names = (name for name, topic_id in self._topics.items() if topic_id == key.topic_id)
        return max((self._told.ends.get((name, int(key.partition)), 0) for name in names), default=0)

    async def _update(self, log: _Log, listed: _Listed, acknowledged: int) -> None:
        fresh = [
            info
            for base, info in listed.segments.items()
            if (known := log.known.get(base)) is None or (known.size_bytes, known.modified_ms) != (info.size_bytes, info.modified_ms)
        ]
        for base in [base for base in log.known if base not in listed.segments]:
            self.changed(log.known.pop(base).key)
        for info, found in zip(fresh, await asyncio.gather(*(self._look_at(info) for info in fresh)), strict=True):
            base = int(info.key.rpartition("-")[2].removesuffix(".kfs"))
            if log.known.pop(base, None) is not None:
                self.changed(info.key)
            if found is not None:
                log.known[base] = found
        chain, trouble = self._chain(log, listed.indexed, acknowledged)
        identity = None
        if chain:
            same = log.identity is not None and log.chain[:1] == chain[:1]
            try:
                identity = log.identity if same else await self._identify(chain[0])
            except (Missing, Corrupt) as error:  # a log that cannot be told from another is not shown
                chain, trouble = [], str(error)
        # All at once: nobody may see the segments of one log beside the identity of another.
        log.chain, log.ends, log.identity, log.trouble = chain, [segment.end for segment in chain], identity, trouble

    async def _look_at(self, info: ObjectInfo) -> _Segment | None:
        """What the last bytes say; None for an object that is not whole or has gone."""
        base = int(info.key.rpartition("-")[2].removesuffix(".kfs"))
        if info.size_bytes <= SEGMENT_HEADER_BYTES + FOOTER_BYTES:
            return None
        try:
            async with self._gets:
                tail = await self._objects.get(info.key, start=info.size_bytes - FOOTER_BYTES, end=info.size_bytes)
            crc, last = read_footer(tail, where=info.key)
        except (Missing, Corrupt):
            return None
        if last < base:
            return None
        return _Segment(key=info.key, base=base, end=last + 1, crc=crc, size_bytes=info.size_bytes, modified_ms=info.modified_ms)

    async def _identify(self, lowest: _Segment) -> Identity:
        head = await self._objects.get(lowest.key, start=0, end=SEGMENT_HEADER_BYTES)
        return Identity(base=lowest.base, crc=lowest.crc, created_ms=read_header(head, where=lowest.key).created_ms)

    def _chain(self, log: _Log, indexed: set[int], acknowledged: int) -> tuple[list[_Segment], str | None]:
        """The segments that count, and why not more of them do."""
        chain: list[_Segment] = []
        bases = sorted(log.known)
        for at, base in enumerate(bases):
            segment = log.known[base]
            end = chain[-1].end if chain else None
            if end is not None and segment.end <= end:
                continue  # a stale owner's; the offsets are taken
            settled = base in indexed or segment.end <= acknowledged or any(later >= segment.end for later in bases[at + 1 :])
            if not settled:
                break  # its owner may yet write it again
            if end is not None and base > end and not self._given_up(segment):
                return chain, f"offsets {end}-{base - 1} are in no whole segment, and {segment.key} goes on after them"
            chain.append(segment)
        end = chain[-1].end if chain else 0
        if chain and end < acknowledged:
            return chain, f"offsets {end}-{acknowledged - 1} were acknowledged by the cluster, and no segment holds them"
        return chain, None

    def _given_up(self, after: _Segment) -> bool:
        return self._clock.now_ms() - after.modified_ms >= self._policy.gap_patience_ms


def topic_id_of(topic: str) -> TopicId:
    """KafScale's topic id: the first 16 bytes of SHA-1 of the name, the same for every topic of this name."""
    return TopicId(hashlib.sha1(topic.encode(), usedforsecurity=False).digest()[:16])


def _nobody(key: str) -> None:
    """Nobody wants to know."""
    del key
