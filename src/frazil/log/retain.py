"""Retention: raising log starts by time, size or command, and removing the data of deleted topics (R18).

A log start moves by whole refs, in one transaction with the removal of the segment records below it and the condemned record
of their objects. It never passes a seal under way (the sealer needs the runs it planned) nor the lowest pin, unless that pin
has held the data for longer than a pin may: then the loss is recorded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from frazil.kit.chance import UlidSource
from frazil.kit.errors import RetryLater
from frazil.kit.names import PartitionKey
from frazil.log.condemned import Condemned, encode_condemned
from frazil.log.partitions import PartitionLog, Segment
from frazil.log.pins import Pin, read_pins
from frazil.log.refs import Bounds, OffsetOutOfRange
from frazil.log.sealrecords import PartitionRecord, encode_partition
from frazil.log.shards import CONDEMNED, LOSS, partition_key, plan_key, segment_key
from frazil.log.upkeep import UpkeepDeps, UpkeepPolicy
from frazil.metadata.port import START, Check, Moved, Write
from frazil.metadata.topics import TopicRecord

SEGMENTS_MAX: Final = 80
"""Segment records removed per transaction (R10)."""
RETENTION_MS: Final = 7 * 24 * 3600 * 1000
"""Kafka's default of ``retention.ms``."""
TRIES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A pin was released: offsets ``[start, end)`` went although ``table`` still needed them."""

    table: str
    key: PartitionKey
    start: int
    end: int
    at_ms: int


@dataclass(slots=True)
class RetainReport:
    """What a pass did."""

    raised: int = 0
    segments: int = 0
    losses: int = 0
    held_by_pins: int = 0


class Retainer:
    """Any number of processes may do this at the same time."""

    def __init__(self, deps: UpkeepDeps, policy: UpkeepPolicy) -> None:
        self._deps = deps
        self._policy = policy
        self._ulids = UlidSource(deps.chance)

    async def pass_once(self) -> RetainReport:
        """Applies ``retention.ms`` and ``retention.bytes`` of every topic once. Raises RetryLater."""
        report = RetainReport()
        await self._deps.topics.refresh()
        await self._deps.index.refresh()
        pins = await read_pins(self._deps.store)
        for topic in self._deps.topics.all():
            for log in list(self._deps.index.state.logs.get(topic.topic_id, {}).values()):
                await self._apply(log, topic, pins, report)
        await self._deps.index.refresh()
        return report

    async def delete_records(self, key: PartitionKey, before_offset: int) -> int:
        """Kafka's DeleteRecords: raises the log start to ``before_offset`` (-1: the end). Returns the log start.

        Raises OffsetOutOfRange above the end, RetryLater while a seal below the offset is under way. Pins do not hold it:
        a person has asked.
        """
        for _ in range(TRIES):
            await self._deps.index.refresh()
            log = self._deps.index.state.find(key)
            bounds = Bounds(start=0, end=0) if log is None else log.bounds
            wanted = bounds.end if before_offset == -1 else before_offset
            if not 0 <= wanted <= bounds.end:
                raise OffsetOutOfRange(key, wanted, bounds)
            if log is None or wanted <= bounds.start:
                return bounds.start
            plan = self._deps.index.state.plans.get(key)
            if plan is not None and plan.plan.base < wanted:
                raise RetryLater(f"{key} is being sealed from offset {plan.plan.base} on", after_ms=1000)
            await self._raise(log, wanted, [])
        raise RetryLater(f"the log start of {key} is contended", after_ms=100)

    async def _apply(self, log: PartitionLog, topic: TopicRecord, pins: Mapping[str, Pin], report: RetainReport) -> None:
        wanted = self._expired_to(log, topic)
        plan = self._deps.index.state.plans.get(log.key)
        if plan is not None:
            wanted = min(wanted, plan.plan.base)
        if wanted <= log.start:
            return
        allowed, losses = self._respect_pins(log, wanted, topic, pins)
        report.held_by_pins += allowed < wanted
        if allowed > log.start:
            moved = await self._raise(log, allowed, losses)
            report.raised += moved >= 0
            report.segments += max(moved, 0)
            report.losses += len(losses) if moved >= 0 else 0

    def _expired_to(self, log: PartitionLog, topic: TopicRecord) -> int:
        """Where the log would start if nothing held it: the first ref that is young enough and without which there is too little.

        A topic whose ``cleanup.policy`` does not say delete keeps everything.
        """
        if "delete" not in topic.configs.get("cleanup.policy", "delete").replace(" ", "").split(","):
            return log.start
        keep_ms = _config(topic, "retention.ms", RETENTION_MS)
        keep_bytes = _config(topic, "retention.bytes", -1)
        excess = sum(segment.body_bytes for segment in log.segments) + log.runs_bytes - keep_bytes
        limit_ms = self._deps.clock.now_ms() - keep_ms
        start = log.start
        for ref in log.iterate(log.start):
            old = keep_ms >= 0 and ref.max_timestamp_ms < limit_ms
            large = keep_bytes >= 0 and excess >= ref.length
            if not old and not large:
                break
            excess -= ref.length
            start = ref.end
        return start

    def _respect_pins(self, log: PartitionLog, wanted: int, topic: TopicRecord, pins: Mapping[str, Pin]) -> tuple[int, list[Loss]]:
        """How far the start may go, and what tables lose by it."""
        held = {table: pin.offsets[log.key] for table, pin in pins.items() if pin.offsets.get(log.key, wanted) < wanted}
        if not held:
            return wanted, []
        allowed = max(min(held.values()), self._released_to(log, wanted, topic))
        now_ms = self._deps.clock.now_ms()
        losses = [
            Loss(table=table, key=log.key, start=max(offset, log.start), end=allowed, at_ms=now_ms)
            for table, offset in held.items()
            if offset < allowed
        ]
        return self._whole_refs(log, allowed), [loss for loss in losses if loss.start < loss.end]

    def _released_to(self, log: PartitionLog, wanted: int, topic: TopicRecord) -> int:
        """Up to where pins have held the data longer than they may: since it expired, but not since before it was written here."""
        keep_ms = max(_config(topic, "retention.ms", RETENTION_MS), 0)
        limit_ms = self._deps.clock.now_ms() - self._policy.pin_max_ms
        released = log.start
        for ref in log.iterate(log.start):
            if ref.end > wanted or max(ref.max_timestamp_ms + keep_ms, ref.written_ms) >= limit_ms:
                break
            released = ref.end
        return released

    def _whole_refs(self, log: PartitionLog, offset: int) -> int:
        """The end of the last ref that lies wholly below ``offset``."""
        start = log.start
        for ref in log.iterate(log.start):
            if ref.end > offset:
                break
            start = ref.end
        return start

    async def _raise(self, log: PartitionLog, start: int, losses: Sequence[Loss]) -> int:
        """Moves the log start; removed segments, or -1 when somebody else changed the partition. Many segments go in steps."""
        gone = [segment for segment in log.segments if segment.end <= start]
        if len(gone) > SEGMENTS_MAX:
            gone = gone[:SEGMENTS_MAX]
            start = gone[-1].end
        plan = self._deps.index.state.plans.get(log.key)
        checks = [Check(key=partition_key(log.key), version=log.record_version)]
        if plan is None:
            checks.append(Check(key=plan_key(log.key), version=START))
        record = PartitionRecord(log_start=start, sealed_to=log.sealed_to)
        writes = [Write(key=partition_key(log.key), value=encode_partition(record))]
        writes += [Write(key=segment_key(log.key, segment.base), value=None) for segment in gone]
        writes += [_loss_write(loss) for loss in losses]
        if gone:
            note = Condemned(since_ms=self._deps.clock.now_ms(), objects=tuple(key for segment in gone for key in _objects(segment)))
            writes.append(Write(key=CONDEMNED + self._ulids.next(self._deps.clock.now_ms()), value=encode_condemned(note)))
        answer = await self._deps.store.commit(checks, writes)
        return -1 if isinstance(answer, Moved) else len(gone)


def _objects(segment: Segment) -> tuple[str, ...]:
    if not segment.object_key:
        return ()
    stem = segment.object_key.removesuffix(".kfs")
    return f"{stem}.kfs", f"{stem}.index", f"{stem}.fzx"


def _config(topic: TopicRecord, name: str, default: int) -> int:
    return int(topic.configs.get(name, default))


def _loss_write(loss: Loss) -> Write:
    key = f"{LOSS}{loss.table}/{loss.key.topic_id.hex()}/{loss.key.partition:010d}/{loss.start:020d}"
    value = {"format": 1, "start": loss.start, "end": loss.end, "at_ms": loss.at_ms}
    return Write(key=key, value=json.dumps(value, separators=(",", ":")).encode())
