"""One slice of a route into its tables: prepare all, dead letters of all in one commit, commit all (R07, R15, F70).

Tables do not wait for each other. What one of them meets is its own setback; only the home table, where the dead letters go, is
everybody's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from frazil.catalogs.commit import Committed, Lost
from frazil.catalogs.progress import Move, SourcePartition, read_progress
from frazil.kit.errors import FrazilError, RetryLater
from frazil.kit.names import PartitionKey
from frazil.landing.commit import Work, commit_slice, drop_orphans
from frazil.landing.convert import DeadLetter
from frazil.landing.crowd import Crowd, end_tasks, run_crowd
from frazil.landing.decode import Decoded, Rows
from frazil.landing.identity import ROUTE_PROPERTY, ROUTE_VALUE_PROPERTY
from frazil.landing.ledger import Ledger
from frazil.landing.prepare import Bench, Prepared, prepare
from frazil.landing.routesplit import above, first_offsets
from frazil.landing.routing import DETAILS, OPTION
from frazil.landing.stragglers import Setback
from frazil.landing.target import Target
from frazil.metadata.landings import LandingSpec

_LOG = logging.getLogger("frazil.landing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A table's part of a slice, and the change of the table's own progress that comes with it."""

    prepared: Prepared
    moves: Mapping[SourcePartition, Move]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What became of a slice. Tables that are in neither mapping had all of it already."""

    snapshots: Mapping[str, int]
    setbacks: Mapping[str, Setback]
    rows: int


class RouteTables:
    """The tables that a route has met, each with its decoder and its stage in the slice under way."""

    def __init__(self, spec: LandingSpec, bench: Bench, ledger: Ledger) -> None:
        options = {name: value for name, value in spec.options.items() if name != OPTION and name not in DETAILS}
        self._route = spec.table
        self._spec = replace(spec, options=options)
        self._bench = bench
        self._ledger = ledger
        self._targets: dict[str, Target] = {}
        self._stages: dict[str, str] = {}

    async def prepare(
        self, parts: Mapping[str, Rows], values: Mapping[str, str | None], ends: Mapping[PartitionKey, int], patience_ms: float
    ) -> tuple[dict[str, Ready], dict[str, Setback]]:
        """Files of all tables, waiting for their commits. ``values``: whose records a table is named for; ``ends``: of the slice."""
        jobs = {table: partial(self._prepare, table, values.get(table), rows, ends) for table, rows in parts.items()}
        crowd = await run_crowd(jobs, at_once=self._bench.settings.route_tables_at_once, patience_ms=patience_ms)
        await end_tasks(crowd.slow.values())
        setbacks = self._setbacks(crowd)
        for table in crowd.slow:
            setbacks[table] = Setback(stage=self._stages[table], why=f"stage {self._stages[table]} takes longer than {patience_ms:.0f} ms")
        return {table: ready for table, ready in crowd.done.items() if ready is not None}, setbacks

    async def commit(self, ready: Mapping[str, Ready], attempt: str, patience_ms: float) -> Round:
        """Rows and own progress of each table in one snapshot of it; tables without rows have none."""
        some = {table: one for table, one in ready.items() if one.prepared.rows}
        jobs = {table: partial(self._commit, table, one, attempt) for table, one in some.items()}
        crowd = await run_crowd(jobs, at_once=self._bench.settings.route_tables_at_once, patience_ms=patience_ms)
        setbacks = self._setbacks(crowd)
        for table, task in crowd.slow.items():
            task.add_done_callback(_seen)
            trouble = self._bench.lake.committer.trouble(table) or f"the commit takes longer than {patience_ms:.0f} ms"
            setbacks[table] = Setback(stage="commit", why=trouble, running=task)
        for table, outcome in crowd.done.items():
            if isinstance(outcome, Lost):
                setbacks[table] = Setback(stage="commit", why="")
        snapshots = {table: one.snapshot_id for table, one in crowd.done.items() if isinstance(one, Committed)}
        return Round(snapshots=snapshots, setbacks=setbacks, rows=sum(some[table].prepared.rows for table in snapshots))

    async def _prepare(self, table: str, value: str | None, rows: Rows, ends: Mapping[PartitionKey, int]) -> Ready | None:
        """None: the table has all of the rows."""
        deps, lake = self._bench.deps, self._bench.lake
        self._stages[table] = "discover"
        target = self._target(table, value)
        loaded = await target.load() or await target.create_declared()
        own = await read_progress(lake.objects, loaded) if loaded else {}
        places = {origin.key: self._ledger.place(origin.key) for origin in rows.origins}
        marks = {key: own[place] for key, place in places.items() if place in own}
        missing = await deps.offload.run(lambda: above(rows, marks))
        if not len(missing):
            return None
        bench = replace(self._bench, enter=partial(self._stages.__setitem__, table))
        prepared = await prepare(target, loaded, _alone(missing), bench)
        moves = {places[key]: Move(before=own.get(places[key]), after=ends[key]) for key in first_offsets(missing)}
        return Ready(prepared=prepared, moves=moves)

    async def _commit(self, table: str, ready: Ready, attempt: str) -> Committed | Lost:
        self._stages[table] = "commit"
        prepared = ready.prepared
        work = Work(base=prepared.table, written=prepared.written, moves=ready.moves, losses=(), attempt=attempt)
        outcome = await commit_slice(self._bench.lake, work)
        if isinstance(outcome, Lost):
            await drop_orphans(self._bench.lake, outcome, deadline_ms=self._bench.settings.call_deadline_ms)
        return outcome

    def _target(self, table: str, value: str | None) -> Target:
        target = self._targets.get(table)
        if target is None:
            marks = {ROUTE_PROPERTY: self._route} | ({} if value is None else {ROUTE_VALUE_PROPERTY: value})
            bench = self._bench
            target = Target(replace(self._spec, table=table), bench.lake, bench.deps, bench.settings, marks=marks)
            self._targets[table] = target
        return target

    def _setbacks(self, crowd: Crowd[Ready | None] | Crowd[Committed | Lost]) -> dict[str, Setback]:
        found = {}
        for table, error in crowd.failed.items():
            stage = self._stages[table]
            if not isinstance(error, FrazilError):
                _LOG.error("table %s, stage %s", table, stage, exc_info=error)
            why = str(error) if isinstance(error, FrazilError) else f"{type(error).__name__}: {error}"
            found[table] = Setback(stage=stage, why=why or type(error).__name__, may_pass=isinstance(error, RetryLater))
        return found


def letters_of(ready: Mapping[str, Ready]) -> list[DeadLetter]:
    """The dead letters of all tables, each with the table that could not take it."""
    return [
        replace(letter, target_uuid=one.prepared.table.uuid, target_name=table)
        for table, one in sorted(ready.items())
        for letter in one.prepared.letters
    ]


def count_rows(parts: Sequence[Rows]) -> int:
    """Rows of some parts."""
    return sum(map(len, parts))


def _alone(rows: Rows) -> Decoded:
    """A slice that is nothing but these rows."""
    return Decoded(rows=rows, consumed=(), bad_batches=(), bad_partitions=(), bytes_read=0, bytes_held=0, cut=False)


def _seen(task: asyncio.Task[Committed | Lost]) -> None:
    """An outcome nobody waits for any more: the table itself tells it."""
    if not task.cancelled():
        task.exception()
