"""A wanted change of a table's progress: looked at first, then one commit guarded by the head (R06, F02).

Backwards, records are read again; the table has their rows already, so these are deleted in the same commit, or doubled on purpose, or
nothing is done. Forwards, records are passed over, which the snapshot records as a loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from frazil.catalogs.commit import Committed, Committer, Landed
from frazil.catalogs.deletes import EQUALITY, DeleteWriter, Place
from frazil.catalogs.files import DataFile
from frazil.catalogs.keys import key_columns, read_by_id, read_sparse
from frazil.catalogs.live import Live, LiveFiles
from frazil.catalogs.manifests import Entry
from frazil.catalogs.metadata_json import current_schema
from frazil.catalogs.port import LoadedTable
from frazil.catalogs.progress import read_progress
from frazil.catalogs.schema import arrow_schema
from frazil.kit.errors import Refused, RetryLater
from frazil.kit.names import PartitionKey
from frazil.landing.decode import Consumed
from frazil.landing.extent import Mark
from frazil.landing.ledger import Ledger
from frazil.landing.naming import SourceNaming
from frazil.landing.plan import Loss, PartitionState, describe_losses
from frazil.landing.settings import TopicView
from frazil.log.view import LogSource, LogView
from frazil.metadata.landings import LandingSpec

_COLUMNS: Final = ("_topic", "_kafka_partition", "_offset")
_compute: Any = pc
Places: TypeAlias = Any
"""An Arrow array of the places of rows in their file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetLog:
    """The log of a landing, as it is read."""

    topics: TopicView
    index: LogView
    reader: LogSource
    source: str
    naming: SourceNaming | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Goals:
    """Where partitions shall go on: ``everywhere`` (None: they stay), or those named by topic and number."""

    everywhere: Mark | None
    """An offset outside of the log is brought to its nearest end."""
    named: Mapping[tuple[str, int], Mark]
    latest: bool = False
    """Everywhere at the end of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One partition of a reset. ``now`` None: the table has nothing of it yet, and would begin at ``start``."""

    key: PartitionKey
    topic: str
    start: int
    now: int | None
    then: int
    rows: int | None = 0
    """Rows of the table that will be read again; None: nobody can tell, without metadata columns."""

    @property
    def again(self) -> int:
        """Offsets that will be read again."""
        return max(0, (self.start if self.now is None else self.now) - self.then)

    @property
    def skipped(self) -> int:
        """Offsets that will never be read."""
        return max(0, self.then - (self.start if self.now is None else self.now))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What a reset would do to the table as it is. ``steps`` has only what changes."""

    table: LoadedTable
    steps: tuple[Step, ...]
    earlier: bool
    """The table has rows of earlier logs, which cannot be told from those of this one by their offsets."""
    doubles: bool
    """A record that is read again becomes a second row. Not so in a table that keeps one row per key."""


class Resetter:
    """Resets one table."""

    def __init__(self, spec: LandingSpec, committer: Committer, log: ResetLog) -> None:
        if spec.options.get("route"):
            raise Refused(f"table {spec.table} shares its topic's progress with the tables beside it; a route is not reset yet")
        self._spec, self._committer, self._log = spec, committer, log
        self._ledger = Ledger(log.source, log.naming)
        deps = committer.deps
        self._live = LiveFiles(deps.objects, committer.lists, deps.offload)

    async def look(self, goals: Goals) -> Outlook:
        """What would happen. Raises Refused when there is nothing to reset, Missing without a table."""
        await self._log.topics.refresh()
        await self._log.index.refresh()
        table = await self._committer.catalog.load(self._spec.table)
        progress = await read_progress(self._committer.deps.objects, table)
        self._ledger.load(progress)
        states = self._states()
        _check_named(goals, states)
        moved = [step for state in states if (step := await self._step(state, goals)) is not None]
        rows = await self._count(table, moved)
        known = {self._ledger.place(state.key) for state in states}
        return Outlook(
            table=table,
            steps=tuple(rows),
            earlier=not known.issuperset(progress),
            doubles=self._spec.options.get("mode", "append") != "upsert",
        )

    async def apply(self, outlook: Outlook, *, delete_rows: bool, allow_duplicates: bool) -> bool:
        """Does it, in one commit. False when the table has changed since the look: look again.

        Raises Refused when rows would double and neither way was chosen, or when the rows to delete cannot be told.
        """
        self._check(outlook, delete_rows=delete_rows, allow_duplicates=allow_duplicates)
        deletes = await self._deletes(outlook) if delete_rows else ()
        consumed = [Consumed(key=step.key, topic=step.topic, first=0, end=step.then) for step in outlook.steps]
        losses = [
            Loss(key=step.key, topic=step.topic, first=step.start if step.now is None else step.now, end=step.then)
            for step in outlook.steps
            if step.skipped
        ]
        summary = {"frazil.reset": describe_steps(outlook.steps)}
        if losses:
            summary["frazil.loss"] = describe_losses(losses)
        moves = self._ledger.moves(consumed, ())
        outcome = await self._committer.commit(Landed(base=outlook.table, files=deletes, moves=moves, summary=summary, rebase=False))
        if isinstance(outcome, Committed):
            return True
        await self._committer.deps.objects.delete(outcome.orphans)
        return False

    def _check(self, outlook: Outlook, *, delete_rows: bool, allow_duplicates: bool) -> None:
        table = self._spec.table
        if not outlook.steps:
            raise Refused(f"table {table}: every partition is where it shall be already")
        back = [step for step in outlook.steps if step.again]
        if not back or not outlook.doubles or allow_duplicates:
            return
        if any(step.rows is None for step in back):
            raise Refused(f"table {table} has no metadata columns, so nobody can tell which rows would double; say --allow-duplicates")
        rows = sum(step.rows or 0 for step in back)
        if rows and not delete_rows:
            raise Refused(f"{rows} rows of table {table} would be there twice; say --delete-rows, or --allow-duplicates")
        if rows and outlook.earlier:
            raise Refused(
                f"table {table} has rows of an earlier topic of the name, with the same offsets and no log to read them from again; "
                "say --allow-duplicates, or delete rows with an engine first"
            )

    def _states(self) -> list[PartitionState]:
        topics = [record for name in self._spec.topics if (record := self._log.topics.get(name)) is not None]
        if not topics:
            raise Refused(f"table {self._spec.table}: its log has no topic {', '.join(self._spec.topics)}")
        return self._ledger.states(topics, self._log.index, {})

    async def _step(self, state: PartitionState, goals: Goals) -> Step | None:
        bounds = state.bounds
        mark = goals.named.get((state.topic, int(state.key.partition)), goals.everywhere)
        if mark is not None and mark.time_ms is not None:
            found = await self._log.reader.find_time(state.key, mark.time_ms)
            wanted = bounds.end if found is None else found.offset
        elif mark is not None and mark.offset is not None:
            wanted = mark.offset
        elif goals.latest:
            wanted = bounds.end
        else:
            return None
        then = min(max(wanted, bounds.start), bounds.end)
        if then == (bounds.start if state.next_offset is None else state.next_offset):
            return None
        return Step(key=state.key, topic=state.topic, start=bounds.start, now=state.next_offset, then=then)

    # --- rows that are there already ------------------------------------------------------------------------------------

    async def _count(self, table: LoadedTable, steps: Sequence[Step]) -> list[Step]:
        spans = {(step.topic, int(step.key.partition)): (step.then, step.now) for step in steps if step.now is not None and step.again}
        schema = arrow_schema(table)
        counts: dict[tuple[str, int], int | None] = dict.fromkeys(spans, 0)
        if spans and not all(name in schema.names for name in _COLUMNS):
            counts = dict.fromkeys(spans)
        elif spans:
            live = await self._live.of(table)
            for _, found in await self._places(table, live, spans):
                for span, places in found.items():
                    counts[span] = (counts[span] or 0) + len(places)
        return [_with_rows(step, counts.get((step.topic, int(step.key.partition)), 0)) for step in steps]

    async def _places(
        self, table: LoadedTable, live: Live, spans: Mapping[tuple[str, int], tuple[int, int]]
    ) -> list[tuple[Entry, dict[tuple[str, int], Places]]]:
        """By data file and partition of the log: the places of live rows inside the spans. Equality deletes are not looked at."""
        wanted = key_columns(arrow_schema(table), _COLUMNS)
        field_id = next(int(field["id"]) for field in current_schema(table.metadata)["fields"] if field["name"] == _COLUMNS[2])
        low, high = min(low for low, _ in spans.values()), max(high for _, high in spans.values())
        dead = await self._live.dead(live.deletes)
        deps = self._committer.deps
        result = []
        for entry in live.data:
            if not _may_hold(entry.file, field_id, low, high):
                continue
            sparse = await read_sparse(deps.objects, self._committer.locations.key_of(entry.file.path), entry.file, wanted)
            rows = await deps.offload.run(lambda sparse=sparse, path=entry.file.path: read_by_id(sparse, wanted, path))  # type: ignore[misc]
            result.append((entry, _inside(rows, spans, dead.get(entry.file.path))))
        return result

    async def _deletes(self, outlook: Outlook) -> tuple[DataFile, ...]:
        """Position deletes of every row that will be read again."""
        steps = [step for step in outlook.steps if step.rows]
        spans = {(step.topic, int(step.key.partition)): (step.then, step.now) for step in steps if step.now is not None}
        if not spans:
            return ()
        live = await self._live.of(outlook.table)
        if live.of_content(EQUALITY):
            raise Refused(f"table {self._spec.table} has equality deletes, which say nothing about places; rewrite it first")
        groups: dict[tuple[int, tuple[Any, ...]], dict[str, Places]] = {}
        for entry, found in await self._places(outlook.table, live, spans):
            if found:
                group = groups.setdefault((entry.file.spec_id, tuple(entry.file.partition)), {})
                group[entry.file.path] = _sorted(list(found.values()))
        writer = DeleteWriter(self._committer.deps)
        return tuple(
            [
                await writer.positions(outlook.table, places, Place(spec_id=spec_id, partition=partition))
                for (spec_id, partition), places in groups.items()
            ]
        )


def describe_steps(steps: Sequence[Step]) -> str:
    """``topic[partition] now → then, …``, of a bounded length."""
    text = ", ".join(f"{step.topic}[{step.key.partition}] {'none' if step.now is None else step.now} to {step.then}" for step in steps)
    return text if len(text) <= 1_000 else f"{len(steps)} partitions: {text[:960]}…"


async def apply_anew(resetter: Resetter, goals: Goals, *, delete_rows: bool, allow_duplicates: bool) -> Outlook:
    """Looks and applies until both are about the same table: landing may be at work. Raises as ``Resetter`` does."""
    for _ in range(_TRIES_MAX):
        outlook = await resetter.look(goals)
        if await resetter.apply(outlook, delete_rows=delete_rows, allow_duplicates=allow_duplicates):
            return outlook
    raise RetryLater(f"the table was changed {_TRIES_MAX} times meanwhile; pause its landing, and try again")


_TRIES_MAX: Final = 20


def _check_named(goals: Goals, states: Sequence[PartitionState]) -> None:
    known = {(state.topic, int(state.key.partition)): state for state in states}
    for (topic, partition), mark in goals.named.items():
        state = known.get((topic, partition))
        if state is None:
            raise Refused(f"the table's log has no partition {topic}:{partition}")
        if mark.offset is not None and mark.offset and not state.bounds.start <= mark.offset <= state.bounds.end:
            raise Refused(f"{topic}:{partition} holds offsets {state.bounds.start} to {state.bounds.end}, not {mark.offset}")


def _with_rows(step: Step, rows: int | None) -> Step:
    return Step(key=step.key, topic=step.topic, start=step.start, now=step.now, then=step.then, rows=rows)


def _may_hold(file: DataFile, field_id: int, low: int, high: int) -> bool:
    lowest, highest = file.lower_bounds.get(field_id), file.upper_bounds.get(field_id)
    above = lowest is not None and int.from_bytes(lowest, "little", signed=True) >= high
    below = highest is not None and int.from_bytes(highest, "little", signed=True) < low
    return not above and not below


def _inside(rows: pa.Table, spans: Mapping[tuple[str, int], tuple[int, int]], dead: Places) -> dict[tuple[str, int], Places]:
    """The places of the rows of each span, without those that are deleted already."""
    places = pa.array(range(rows.num_rows), pa.int64())
    alive = None if dead is None else _compute.invert(_compute.is_in(places, value_set=dead))
    found: dict[tuple[str, int], Places] = {}
    for (topic, partition), (low, high) in spans.items():
        offsets = rows.column("_offset")
        mask = _compute.and_(_compute.greater_equal(offsets, low), _compute.less(offsets, high))
        mask = _compute.and_(mask, _compute.equal(rows.column("_topic"), topic))
        mask = _compute.and_(mask, _compute.equal(rows.column("_kafka_partition"), partition))
        mask = mask if alive is None else _compute.and_(mask, alive)
        kept = places.filter(_compute.fill_null(mask, False).combine_chunks())  # noqa: FBT003
        if len(kept):
            found[topic, partition] = kept
    return found


def _sorted(places: list[Places]) -> Places:
    joined: Any = pa.concat_arrays(places)
    return joined.take(_compute.sort_indices(joined))
