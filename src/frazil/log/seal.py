"""Sealing: runs in bundles → ``.kfs`` segments, all partitions of a bundle in one pass (R05, R12, R21).

When a bundle has reached the age of sealing, a pass closes it and all but the youngest bundles by raising the horizon, so that
the set of their commits is final, and seals every partition up to its last run in them: each bundle is read once and is then
needed by nobody. Partitions with a segment's worth of runs are sealed before that. What is sealed is planned first: the plan
record fixes base, cuts and ``created``, so that every try of anybody writes the same bytes. The last transaction writes the
segment records, moves ``sealed_to`` and ends the plan; it holds only if the plan is still there.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from frazil.kit.chance import ulid_at
from frazil.kit.errors import Corrupt, Missing
from frazil.kit.names import PartitionKey
from frazil.log.horizon import raise_horizon
from frazil.log.partitions import PartitionLog, Segment
from frazil.log.read import LogReader, ReadLimits
from frazil.log.refs import Ref, Slice, Want
from frazil.log.sealrecords import PartitionRecord, SealPlan, encode_partition, encode_plan, encode_segment
from frazil.log.segmentwrite import store_segment
from frazil.log.shards import partition_key, plan_key, segment_key
from frazil.log.upkeep import UpkeepDeps, UpkeepPolicy, gather_all
from frazil.metadata.port import START, Check, Moved, Write
from frazil.metadata.topics import DELETION_MARK
from frazil.segments import SegmentKey

PLANS_MAX: Final = 40
"""Plans per transaction: a write and two checks each (R10)."""
PUTS_MAX: Final = 8
"""Partitions whose segments are stored at the same time."""
_SHAPES: Final = 3
"""Batches are in memory as runs, joined, and as segments when a group is sealed."""
CUTS_MAX: Final = 32
"""Segments of one plan, so that one transaction can end it."""


@dataclass(slots=True)
class SealReport:
    """What a pass did. ``closed`` is the horizon it left."""

    closed: str = ""
    planned: int = 0
    sealed: int = 0
    segments: int = 0
    body_bytes: int = 0


class _Unit(NamedTuple):
    """One segment to write: offsets ``[base, end)``, ``size`` bytes of batches."""

    key: PartitionKey
    name: SegmentKey
    base: int
    end: int
    created_ms: int
    size: int


_Work: TypeAlias = tuple[_Unit, tuple[Ref, ...], Slice]


class Sealer:
    """Any number of processes may seal at the same time; they only do each other's work twice."""

    def __init__(self, deps: UpkeepDeps, policy: UpkeepPolicy) -> None:
        self._deps = deps
        self._policy = policy
        limits = ReadLimits(whole_objects=False)
        self._reader = LogReader(deps.objects, deps.index, deps.cache, offload=deps.offload, limits=limits)
        self.troubles: dict[PartitionKey, str] = {}
        """Partitions that could not be sealed in the last pass, and why."""

    async def pass_once(self, *, age_ms: int | None = None) -> SealReport:
        """One pass over everything older than ``age_ms`` (default: the policy's), larger than a segment, or already planned.

        Raises RetryLater when a store does not answer; what was planned is then finished by a later pass.
        """
        report = SealReport()
        self.troubles.clear()
        await self._deps.topics.refresh()
        await self._deps.index.refresh()
        report.closed = await self._close(self._policy.seal_age_ms if age_ms is None else age_ms)
        await self._deps.index.refresh()
        await self._plan_all(report)
        await self._deps.index.refresh()
        await self._seal_all(report)
        await self._deps.index.refresh()
        return report

    async def _close(self, age_ms: int) -> str:
        """The horizon, raised if a bundle has reached ``age_ms``: each time costs every broker one more try (R01). Else nothing."""
        state, now_ms = self._deps.index.state, self._deps.clock.now_ms()
        due = ulid_at(max(now_ms - age_ms, 0))
        if not any(ulid <= due for ulid in (*state.bundles, *state.spent)):
            return ""
        limit = ulid_at(max(now_ms - min(age_ms, self._policy.close_age_ms), 0))
        return (await raise_horizon(self._deps.store, limit)).ulid

    async def _plan_all(self, report: SealReport) -> None:
        wanted = [(log, plan) for log in self._candidates() if (plan := self._plan(log, report.closed)) is not None]
        for at in range(0, len(wanted), PLANS_MAX):
            report.planned += await self._write_plans(wanted[at : at + PLANS_MAX])

    def _candidates(self) -> list[PartitionLog]:
        """Logs with runs and without a plan. Without its topic's name a log has no segment key: it waits, with a reason, to be removed."""
        state, found = self._deps.index.state, []
        for topic_id, partitions in state.logs.items():
            known = self._deps.topics.by_id(topic_id) is not None
            for log in partitions.values():
                if log.run_bases and not known:
                    self.troubles[log.key] = "no topic has this id"
                elif log.run_bases and log.key not in state.plans:
                    found.append(log)
        return sorted(found, key=lambda log: log.key)

    def _plan(self, log: PartitionLog, closed: str) -> SealPlan | None:
        """Up to the end of the last run in a closed bundle, cut by size; what is larger than a segment also without that."""
        last = max((at for at, bundle in enumerate(log.bundles) if bundle.ulid <= closed), default=-1)
        ends: list[int] = []
        size = 0
        for at in range(len(log.run_bases)):
            size += log.lengths[at]
            if size >= self._policy.segment_bytes or at == last:
                ends.append(log.run_end(at))
                size = 0
            if len(ends) == CUTS_MAX:
                break
        return SealPlan(base=log.run_bases[0], ends=tuple(ends), created_ms=self._deps.clock.now_ms()) if ends else None

    async def _write_plans(self, wanted: Sequence[tuple[PartitionLog, SealPlan]]) -> int:
        """Writes plans together; when somebody else moved one of the partitions, each on its own."""
        checks = [Check(key=plan_key(log.key), version=START) for log, _ in wanted]
        checks += [Check(key=partition_key(log.key), version=log.record_version) for log, _ in wanted]
        checks.append(Check(key=DELETION_MARK, version=self._deps.topics.deletions))  # no plan for a topic that is gone
        writes = [Write(key=plan_key(log.key), value=encode_plan(plan)) for log, plan in wanted]
        answer = await self._deps.store.commit(checks, writes)
        if not isinstance(answer, Moved):
            return len(wanted)
        if len(wanted) == 1:
            return 0
        return sum([await self._write_plans([one]) for one in wanted])

    async def _seal_all(self, report: SealReport) -> None:
        """The segments of all plans, in the order of bundles' directories, a memory's worth at a time."""
        plans = {key: units for key in sorted(self._deps.index.state.plans) if (units := self._units(key))}
        done: dict[PartitionKey, list[Segment]] = {}
        given_up: set[PartitionKey] = set()
        for planned in self._groups([unit for units in plans.values() for unit in units]):
            group = [unit for unit in planned if unit.key not in given_up]  # no segment without the ones in front of it (D2)
            sealed = await self._seal_group(group)
            given_up.update(unit.key for unit in group if unit.key not in sealed)
            for key, segments in sealed.items():
                done.setdefault(key, []).extend(segments)
                if len(done[key]) == len(plans[key]) and await self._finish(key, done[key]):
                    report.sealed += 1
                    report.segments += len(done[key])
                    report.body_bytes += sum(segment.body_bytes for segment in done[key])

    def _groups(self, units: Sequence[_Unit]) -> list[list[_Unit]]:
        groups: list[list[_Unit]] = []
        size = 0
        for unit in units:
            if not groups or size + unit.size > self._policy.memory_bytes // _SHAPES:
                groups.append([])
                size = 0
            groups[-1].append(unit)
            size += unit.size
        return groups

    def _units(self, key: PartitionKey) -> list[_Unit]:
        state = self._deps.index.state
        log, plan, topic = state.find(key), state.plans[key].plan, self._deps.topics.by_id(key.topic_id)
        if log is None or topic is None:
            return []
        units: list[_Unit] = []
        base = plan.base
        for end in plan.ends:
            name = SegmentKey(
                namespace=self._deps.namespace,
                topic=topic.name,
                incarnation=topic.incarnation,
                partition=key.partition,
                base_offset=base,
            )
            units.append(_Unit(key, name, base, end, plan.created_ms, log.bytes_between(base, end)))
            base = end
        return units

    def _refs(self, unit: _Unit) -> tuple[Ref, ...]:
        """The runs of the unit; made only when they are read, since between two passes there may be millions (R04)."""
        log = self._deps.index.state.find(unit.key)
        refs = () if log is None else tuple(itertools.takewhile(lambda ref: ref.base < unit.end, log.iterate(unit.base)))
        if not refs or refs[0].base != unit.base or refs[-1].end != unit.end or any(ref.sealed for ref in refs):
            raise Corrupt(f"the plan [{unit.base}, {unit.end}) does not match the runs", where=str(unit.key))
        return refs

    async def _seal_group(self, group: Sequence[_Unit]) -> dict[PartitionKey, list[Segment]]:
        """Stores the segments of one group; when one partition fails, each on its own, so that it stops nobody else."""
        try:
            return await self._write_segments(group)
        except (Corrupt, Missing) as error:
            keys = sorted({unit.key for unit in group})
            if len(keys) == 1:
                if keys[0] in self._deps.index.state.plans:  # else somebody else has finished it meanwhile
                    self.troubles[keys[0]] = str(error)
                return {}
        done: dict[PartitionKey, list[Segment]] = {}
        for key in keys:
            done |= await self._seal_group([unit for unit in group if unit.key == key])
        return done

    async def _write_segments(self, group: Sequence[_Unit]) -> dict[PartitionKey, list[Segment]]:
        wants = [Want(key=unit.key, offset=unit.base, bytes_max=unit.size) for unit in group]
        refs = [self._refs(unit) for unit in group]
        slices = await self._reader.read_refs(wants, refs)
        work: dict[PartitionKey, list[_Work]] = {}
        for unit, found, piece in zip(group, refs, slices, strict=True):
            work.setdefault(unit.key, []).append((unit, found, piece))
        stored = await gather_all([partial(self._write_partition, parts) for parts in work.values()], at_once=PUTS_MAX)
        return dict(zip(work, stored, strict=True))

    async def _write_partition(self, work: Sequence[_Work]) -> list[Segment]:
        """One after the other: who lists the bucket must never see a segment before the ones in front of it (D2)."""
        return [await self._write_segment(*parts) for parts in work]

    async def _write_segment(self, unit: _Unit, refs: tuple[Ref, ...], piece: Slice) -> Segment:
        if (piece.base, piece.end) != (unit.base, unit.end):
            raise Corrupt(f"read [{piece.base}, {piece.end}), not [{unit.base}, {unit.end})", where=str(unit.key))
        built = await store_segment(self._deps, unit.name, piece.data, created_ms=unit.created_ms)
        return Segment(
            base=built.base,
            end=built.last_offset + 1,
            object_key=unit.name.kfs(),
            object_bytes=len(built.kfs),
            body_bytes=unit.size,
            records=built.records,
            first_timestamp_ms=refs[0].first_timestamp_ms,
            max_timestamp_ms=max(ref.max_timestamp_ms for ref in refs),
            crc=built.crc,
            created_ms=unit.created_ms,
        )

    async def _finish(self, key: PartitionKey, segments: Sequence[Segment]) -> bool:
        """Ends the plan. False when somebody else has, or the topic is gone; the objects then are theirs, or go with the topic."""
        while True:
            state = self._deps.index.state
            log, known = state.find(key), state.plans.get(key)
            if log is None or known is None or known.plan.end != segments[-1].end:
                return False
            record = PartitionRecord(log_start=log.start, sealed_to=known.plan.end)
            checks = [Check(key=plan_key(key), version=known.version), Check(key=partition_key(key), version=log.record_version)]
            writes = [Write(key=segment_key(key, segment.base), value=encode_segment(segment)) for segment in segments]
            writes += [Write(key=partition_key(key), value=encode_partition(record)), Write(key=plan_key(key), value=None)]
            answer = await self._deps.store.commit(checks, writes)
            if not isinstance(answer, Moved):
                return True
            if any(entry.key == plan_key(key) for entry in answer.entries):
                return False
            await self._deps.index.refresh()
