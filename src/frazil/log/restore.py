"""Restore: makes an older copy of metadata fit the bucket again, so that no offset is given out twice (R22, docs/adr/0010-restore.md).

Each partition's next offset goes above everything that can have been given out (``log.survey`` says why that is known). What lies
between is looked for: sealed segments in the bucket, runs in bundles; the rest becomes a lost range, which readers pass and
landing records. Nothing else may run meanwhile. Every step may be repeated; marks are joined last, by the caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from frazil.kit.chance import ulid_at
from frazil.kit.errors import Conflict, Corrupt, Missing
from frazil.kit.names import PartitionId, PartitionKey
from frazil.log.coverage import Piece, cover
from frazil.log.head import HeadMark, encode_head
from frazil.log.horizon import raise_horizon, ulid_ms
from frazil.log.partitions import PartitionLog, Segment
from frazil.log.pins import read_pins
from frazil.log.read import LogReader, ReadLimits
from frazil.log.refs import Want
from frazil.log.sealrecords import PartitionRecord, encode_partition, encode_segment
from frazil.log.segmentwrite import store_segment
from frazil.log.shards import head_key, partition_key, plan_key, segment_key, shard_of
from frazil.log.survey import Found, LogName, look, read_whole_segment
from frazil.log.upkeep import UpkeepDeps
from frazil.metadata.cluster import skip_producer_ids
from frazil.metadata.port import START, Check, Moved, Write
from frazil.metadata.topics import TopicRecord
from frazil.segments import SegmentKey

BLIND_STEP: Final = 2**40
"""Added to every next offset when a bundle cannot be read: more records than were ever appended between a copy and its restore."""
SEGMENT_BYTES: Final = 64 * 1024 * 1024
_WRITES_MAX: Final = 80

Shown = Mapping[PartitionKey, int]
"""Next offsets that something outside metadata shows to have been given out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRestore:
    """What becomes of one partition."""

    key: PartitionKey
    topic: TopicRecord
    head: int
    new_head: int
    log_start: int
    pieces: tuple[Piece, ...]
    """From the new log start to the new head."""
    known: frozenset[int]
    """Bases of segments that metadata has as they are."""

    @property
    def new_start(self) -> int:
        """What is lost at the front is below the log start."""
        return max(self.pieces[0].base, self.log_start) if self.pieces else self.new_head

    @property
    def lost(self) -> tuple[tuple[int, int], ...]:
        """Lost ranges above the new log start."""
        return tuple((piece.base, piece.end) for piece in self.pieces if piece.lost)

    @property
    def adopted(self) -> int:
        """Segments of the bucket that metadata did not know."""
        return sum(piece.segment is not None and piece.base not in self.known for piece in self.pieces)

    @property
    def sealed(self) -> int:
        """Segments that will be made from bundles."""
        return sum(bool(piece.refs) for piece in self.pieces)


@dataclass(slots=True, kw_only=True)
class RestorePlan:
    """What a restore would do."""

    found: Found
    partitions: list[PartitionRestore] = field(default_factory=list)
    """Those that change."""
    grow: dict[str, int] = field(default_factory=dict)
    """Topics that have segments of more partitions than metadata knows."""
    incarnations: dict[str, int] = field(default_factory=dict)
    """Names under which the bucket has a later incarnation than metadata knows."""
    unknown: list[str] = field(default_factory=list)
    """Topics of the bucket that metadata does not have; they are left alone."""


class Restorer:
    """``deps.index`` must be of this call alone: it is read once and not refreshed while the plan is used."""

    def __init__(self, deps: UpkeepDeps) -> None:
        self._deps = deps
        limits = ReadLimits(whole_objects=False)
        self._reader = LogReader(deps.objects, deps.index, deps.cache, offload=deps.offload, limits=limits)

    async def plan(self, shown: Sequence[Shown]) -> RestorePlan:
        """Compares metadata with the bucket and with what marks and tables have ``shown``. Writes nothing. Raises RetryLater, Corrupt."""
        await self._deps.topics.refresh()
        await self._deps.index.refresh()
        pins = await read_pins(self._deps.store)
        plan = RestorePlan(found=await look(self._deps))
        names = self._name_logs(plan)
        ends = [*shown, *(pin.offsets for pin in pins.values())]
        for topic in self._deps.topics.all():
            count = plan.grow.get(topic.name, topic.partitions)
            for number in range(count):
                key = PartitionKey(topic.topic_id, PartitionId(number))
                changed = await self._plan_partition(plan, topic, key, names.get(key, []), max((of.get(key, 0) for of in ends), default=0))
                if changed is not None:
                    plan.partitions.append(changed)
        return plan

    def _name_logs(self, plan: RestorePlan) -> dict[PartitionKey, list[tuple[int, str, int]]]:
        """The bucket's segments by partition, as far as metadata has the topic."""
        names: dict[PartitionKey, list[tuple[int, str, int]]] = {}
        unknown: set[LogName] = set()
        for (name, incarnation, number), segments in plan.found.segments.items():
            topic = self._deps.topics.get(name)
            if topic is not None and incarnation < topic.incarnation:
                continue  # what is left of a deleted topic
            if topic is None or topic.incarnation < incarnation:
                unknown.add((name, incarnation, 0))
                continue
            names[PartitionKey(topic.topic_id, PartitionId(number))] = segments
            if number >= topic.partitions:
                plan.grow[name] = max(plan.grow.get(name, 0), number + 1)
        for name, incarnation, _ in sorted(unknown):
            plan.unknown.append(name if incarnation == 1 else f"{name}!{incarnation}")
            plan.incarnations[name] = max(plan.incarnations.get(name, 0), incarnation)
        return names

    async def _plan_partition(
        self, plan: RestorePlan, topic: TopicRecord, key: PartitionKey, listed: list[tuple[int, str, int]], shown: int
    ) -> PartitionRestore | None:
        log = self._deps.index.state.find(key) or PartitionLog(key, self._deps.index.shard(key))
        there = {(object_key, size) for _, object_key, size in listed}
        kept = [segment for segment in log.segments if not segment.object_key or (segment.object_key, segment.object_bytes) in there]
        fresh = await self._read_new(plan.found, log, {segment.object_key for segment in kept}, listed)
        head = log.end
        new_head = max([head, log.sealed_to, shown, *(segment.end for segment in fresh)])
        new_head += BLIND_STEP if plan.found.blind else plan.found.open_offsets[key]
        missing = any(bundle.ulid not in plan.found.bundles for bundle in log.bundles)
        if new_head == head and not fresh and not missing and len(kept) == len(log.segments) and log.gap is None:
            return None
        runs = [log.run_ref(at) for at in range(len(log.run_bases)) if log.bundles[at].ulid in plan.found.bundles]
        pieces = cover(log.start, new_head, [*kept, *fresh], runs, segment_bytes=SEGMENT_BYTES)
        while pieces and pieces[0].lost:
            pieces.pop(0)
        return PartitionRestore(
            key=key,
            topic=topic,
            head=head,
            new_head=new_head,
            log_start=log.start,
            pieces=tuple(pieces),
            known=frozenset(segment.base for segment in kept),
        )

    async def _read_new(self, found: Found, log: PartitionLog, known: set[str], listed: Sequence[tuple[int, str, int]]) -> list[Segment]:
        """Segments that metadata does not know, from the one that may hold the log start on."""
        from_base = max((base for base, _, _ in listed if base <= log.start), default=0)
        news = [object_key for base, object_key, _ in listed if object_key not in known and base >= from_base]
        read = [await read_whole_segment(self._deps, found, object_key) for object_key in news]
        return [segment for segment in read if segment is not None and segment.end > log.start]

    async def apply(self, plan: RestorePlan) -> None:
        """Carries out ``plan``. Raises Conflict when something else writes meanwhile, RetryLater; then plan and apply again."""
        store = self._deps.store
        for name, count in sorted(plan.grow.items()):
            await self._deps.topics.set_partitions(name, count)
        for name, incarnation in sorted(plan.incarnations.items()):
            await self._deps.topics.skip_incarnations(name, incarnation)
        await skip_producer_ids(store)
        await self._raise_heads(plan.partitions)
        for one in plan.partitions:
            await self._rewrite(one, plan.found)
        # Only now: a restore that died before this must still count the bundles that the horizon closes.
        newest_ms = max(self._deps.clock.now_ms(), ulid_ms(plan.found.newest_bundle))
        await raise_horizon(store, ulid_at(newest_ms + 1))

    async def _raise_heads(self, partitions: Sequence[PartitionRestore]) -> None:
        """First of all that can be seen: from here on no offset can be given out twice, whatever happens to the rest."""
        shards = self._deps.index.state.shards
        by_shard: dict[int, list[PartitionRestore]] = {}
        for one in partitions:
            by_shard.setdefault(shard_of(one.key.topic_id, one.key.partition, len(shards)), []).append(one)
        for number, members in sorted(by_shard.items()):
            shard = shards[number]
            nexts = {topic: dict(found) for topic, found in shard.nexts.items()}
            for one in members:
                nexts.setdefault(one.key.topic_id, {})[int(one.key.partition)] = one.new_head
            # A step of ``removals`` makes every reader take this head as a whole, without a commit that explains it.
            value = encode_head(HeadMark(version=shard.version, removals=shard.removals + 1), nexts)
            await self._commit([Check(key=head_key(number), version=shard.entry_version)], [Write(key=head_key(number), value=value)])

    async def _rewrite(self, one: PartitionRestore, found: Found) -> None:
        """Everything below the new head becomes sealed or lost; the partition's record goes last."""
        segments = [await self._segment(one, piece, found) for piece in one.pieces]
        log = self._deps.index.state.find(one.key)
        stale = () if log is None else sorted({segment.base for segment in log.segments} - {segment.base for segment in segments})
        writes = [Write(key=segment_key(one.key, base), value=None) for base in stale]
        writes += [Write(key=segment_key(one.key, segment.base), value=encode_segment(segment)) for segment in segments]
        for at in range(0, len(writes), _WRITES_MAX):
            await self._commit([], writes[at : at + _WRITES_MAX])
        record = PartitionRecord(log_start=one.new_start, sealed_to=one.new_head)
        last = [Write(key=partition_key(one.key), value=encode_partition(record)), Write(key=plan_key(one.key), value=None)]
        await self._commit([Check(key=partition_key(one.key), version=START if log is None else log.record_version)], last)

    async def _commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> None:
        if isinstance(await self._deps.store.commit(checks, writes), Moved):
            raise Conflict("metadata was changed while the restore ran; stop every process and restore again")

    async def _segment(self, one: PartitionRestore, piece: Piece, found: Found) -> Segment:
        now_ms = self._deps.clock.now_ms()
        if piece.segment is not None:
            return piece.segment
        if piece.lost:
            return lost_segment(piece.base, piece.end, now_ms=now_ms)
        size = sum(ref.length for ref in piece.refs)
        name = SegmentKey(
            namespace=self._deps.namespace,
            topic=one.topic.name,
            incarnation=one.topic.incarnation,
            partition=one.key.partition,
            base_offset=piece.base,
        )
        try:
            (read,) = await self._reader.read_refs([Want(key=one.key, offset=piece.base, bytes_max=size)], [piece.refs])
            await store_segment(self._deps, name, read.data, created_ms=now_ms)
        except (Corrupt, Missing) as error:
            found.damaged.append(f"offsets {piece.base}-{piece.end - 1} of {one.topic.name}/{one.key.partition}: {error}")
            return lost_segment(piece.base, piece.end, now_ms=now_ms)
        return await read_whole_segment(self._deps, found, name.kfs()) or lost_segment(piece.base, piece.end, now_ms=now_ms)


def lost_segment(base: int, end: int, *, now_ms: int) -> Segment:
    """The record of a lost range. Its time is that of the restore, so that retention keeps it as long as what is written then."""
    return Segment(
        base=base,
        end=end,
        object_key="",
        object_bytes=0,
        body_bytes=0,
        records=0,
        first_timestamp_ms=now_ms,
        max_timestamp_ms=now_ms,
        crc=0,
        created_ms=now_ms,
    )
