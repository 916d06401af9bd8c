"""One route's loop: home mark → plan → read → decode → route → each table's part → home mark → pin (R07, docs/routing.md).

The home table's progress is the route's low-water mark: it is committed last, and reading restarts there. A table's own progress only
tells which rows it has already. Tables that fail are left behind (``stragglers``) and brought up afterwards by a second cursor, which
reads again from the first record they miss. Only the owner task of the route calls ``step``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from frazil.catalogs.commit import Lost
from frazil.catalogs.port import CreateTable, LoadedTable
from frazil.kit.chance import UlidSource
from frazil.kit.names import PartitionKey
from frazil.kit.shares import ByteShares
from frazil.landing.columns import ICEBERG_NAMES
from frazil.landing.commit import Work, commit_slice
from frazil.landing.convert import DeadLetter, batch_letters, record_letters
from frazil.landing.deadletter import DEAD_SCHEMA, Burial, Graveyard
from frazil.landing.decode import Consumed, Decoded, Rows
from frazil.landing.identity import ROUTE_PROPERTY, NamedTable
from frazil.landing.lake import Lake, within
from frazil.landing.plan import Loss, PartitionState, find_losses
from frazil.landing.prepare import Bench
from frazil.landing.routeplaces import RoutePlaces
from frazil.landing.routeround import Round, RouteTables, letters_of
from frazil.landing.routesplit import Sorted, first_offsets, rows_at, sort_rows, values_of
from frazil.landing.routevalues import reader_of
from frazil.landing.settings import LandingDeps, LandingSettings
from frazil.landing.source import SliceSource
from frazil.landing.stragglers import Stragglers
from frazil.landing.thresholds import thresholds_of
from frazil.landing.write import Written
from frazil.metadata.landings import LandingSpec, dead_table
from frazil.schemas import DecodeOptions
from frazil.schemas.framing import ids_of

ROUND_MS: Final = 30_000
"""A round that takes longer is told, with the number of tables that would fit (F70)."""
_TRIES_MAX: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """A decoded slice by table, and the letters of records that no table takes."""

    decoded: Decoded
    parts: Mapping[str, Rows]
    letters: Sequence[DeadLetter]

    @property
    def ends(self) -> dict[PartitionKey, int]:
        """Where the slice ends, by partition."""
        return {done.key: done.end for done in self.decoded.consumed}


class RoutePipeline:
    """What the owner task of one route holds."""

    def __init__(
        self, spec: LandingSpec, lake: Lake, deps: LandingDeps, settings: LandingSettings, *, memory: ByteShares, places: RoutePlaces
    ) -> None:
        self.source = SliceSource(spec, lake, deps, settings)
        self.board = self.source.board
        self._spec, self._lake, self._deps, self._settings, self._memory = spec, lake, deps, settings, memory
        self._places = places
        self._reader = reader_of(places.route, spec.value, DecodeOptions(reserved=ICEBERG_NAMES, use_kernel=settings.use_kernel))
        self._ident = dead_table(spec.table)
        self._home = NamedTable(self._ident, spec, lake, deps, settings, marks={ROUTE_PROPERTY: spec.table})
        self._graveyard = Graveyard(ident=self._ident, lake=lake, deadline_ms=settings.call_deadline_ms)
        self._tables = RouteTables(spec, Bench(lake=lake, deps=deps, settings=settings, enter=self.source.enter), self.source.ledger)
        self._thresholds = thresholds_of(spec.options)
        self._counted = False
        self._attempts = UlidSource(deps.chance)
        self._stragglers = Stragglers()
        self._behind = self.source.new_cursor()
        self._reached: dict[PartitionKey, int] = {}
        """Where reading goes on in partitions in which some table is behind: above the home mark."""
        self._marks: dict[PartitionKey, int] = {}
        """The home mark as seen last."""
        self._snapshots: dict[str, int] = {}
        self._slow = ""

    async def step(self) -> bool:
        """One slice, and one for the tables that are behind. True when more was waiting. Raises what stopped all of them."""
        states = await self.source.discover(self._load)
        await self._places.load()
        self._reconcile(states)
        await self._tell()
        more = await self._ahead(states)
        more = await self._catch_up(states) or more
        await self._tell()
        return more

    # --- reading on, for all tables that keep up ---------------------------------------------------------------------

    async def _ahead(self, states: list[PartitionState]) -> bool:
        source = self.source
        plan = source.plan([self._where(state) for state in states])
        losses = find_losses(states)
        if not (plan.wants or losses or source.hold_is_due()):
            return False
        source.enter("memory")
        async with self._memory.share(source.share()):
            decoded = await source.read(plan, source.cursor)
            if decoded is None:
                return True
            if losses:
                self._lose(losses)
            if not (len(decoded.rows) or decoded.bad_batches or losses) and not self._stragglers:
                source.ledger.hold(decoded.consumed, self._deps.clock.monotonic_ms())
                if not source.hold_is_due():
                    return source.decided or (bool(decoded.consumed) and self._left(states) > 0)
            begun_ms = self._deps.clock.monotonic_ms()
            parts = await self._route(decoded)
            await self._deliver(parts)
            await self._move_home(losses)
            self._time(len(parts.parts), self._deps.clock.monotonic_ms() - begun_ms)
        return source.decided or (bool(decoded.consumed) and self._left(states) > 0)

    async def _deliver(self, parts: _Parts) -> None:
        """Everything of the slice is in its table or its dead letter is, but for the tables that are behind now."""
        mine: dict[str, Rows] = {}
        firsts = {table: first_offsets(rows) for table, rows in parts.parts.items()}
        for table, rows in parts.parts.items():
            if table in self._stragglers:
                self._stragglers.miss(table, firsts[table], len(rows))
            else:
                mine[table] = rows
        result = await self._round(mine, parts, self._settings.route_patience_ms)
        for table, setback in result.setbacks.items():
            self._stragglers.fail(table, setback, self._due_ms(0))
            self._stragglers.miss(table, firsts[table], len(mine[table]))
        self._reached |= parts.ends

    # --- reading again, for tables that are behind -------------------------------------------------------------------

    async def _catch_up(self, states: list[PartitionState]) -> bool:
        """One slice for the tables that are to be tried now. True when they are to go on at once."""
        due = {one.table: one for one in self._stragglers.due(self._deps.clock.monotonic_ms())}
        if not due:
            return False
        low: dict[PartitionKey, int] = {}
        for one in due.values():
            for key, at in one.needs.items():
                low[key] = min(at, low.get(key, at))
        source = self.source
        plan = source.next_slice([replace(state, next_offset=low[state.key]) for state in states if state.key in low], self._behind)
        if not plan.wants:
            return False
        before, decided = self.board.bad_partitions, source.decided
        source.enter("memory")
        async with self._memory.share(source.share()):
            decoded = await source.read(plan, self._behind)
            self.board.bad_partitions, source.decided = tuple(dict.fromkeys((*before, *self.board.bad_partitions))), decided
            if decoded is None:
                return True
            parts = await self._route(decoded)
            mine = {table: rows for table, rows in parts.parts.items() if table in due}
            tries = min(_TRIES_MAX, max(one.tries for one in due.values()))
            result = await self._round(mine, replace(parts, letters=()), self._settings.route_patience_ms * 2**tries)
            for table, one in due.items():
                setback = result.setbacks.get(table)
                if setback is not None:
                    self._stragglers.fail(table, setback, self._due_ms(one.tries + 1))
                elif decoded.consumed:
                    count = len(mine[table]) if table in mine else 0
                    self._stragglers.delivered(table, parts.ends, self._reach(states), count)
            await self._move_home(())
        return bool(decoded.consumed) and len(result.setbacks) < len(due) and any(table in self._stragglers for table in due)

    # --- one slice ---------------------------------------------------------------------------------------------------

    async def _route(self, decoded: Decoded) -> _Parts:
        """Which rows go where. Tables are claimed for their values before anybody writes there."""
        self.source.enter("route")
        rows, reader, offload = decoded.rows, self._reader, self._deps.offload
        if reader.asks_registry and self._deps.registry is not None:
            values: Any = rows.records.column("value")
            ids = await offload.run(lambda: ids_of(values))
            schemas = await within(self._deps.registry.find(ids), self._settings.call_deadline_ms, "asking the schema registry")
            reader.learn(schemas)
        texts = await offload.run(lambda: reader.read(rows))
        await self._places.claim(values_of(texts))

        def divide() -> tuple[Sorted, dict[str, Rows]]:
            found = sort_rows(texts, self._places.places)
            return found, {table: rows_at(rows, at) for table, at in found.at.items()}

        found, parts = await offload.run(divide)
        return _Parts(decoded=decoded, parts=parts, letters=(*record_letters(rows, found.letters), *batch_letters(decoded)))

    async def _round(self, mine: Mapping[str, Rows], parts: _Parts, patience_ms: float) -> Round:
        """The tables' parts, and before them the dead letters of all of them."""
        self.source.enter("convert")
        ready, setbacks = await self._tables.prepare(mine, self._places.values, parts.ends, patience_ms)
        attempt = self._attempts.next(self._deps.clock.now_ms())
        letters = [*parts.letters, *letters_of(ready)]
        if letters:
            await self._bury(letters, attempt)
            self.board.note_commit(self.board.snapshot_id, rows=0, rejected=len(letters))
        self.source.enter("commit")
        result = await self._tables.commit(ready, attempt, patience_ms)
        self._snapshots |= result.snapshots
        if result.snapshots:  # a round in which every table was left behind is none, or the stall would be silent (F26)
            self.board.note_commit(self.board.snapshot_id, rows=result.rows, rejected=0)
        return replace(result, setbacks={**setbacks, **result.setbacks})

    async def _bury(self, letters: Sequence[DeadLetter], attempt: str) -> None:
        self.source.enter("deadletter")
        home = self.source.home
        assert home is not None
        burial = Burial(target_uuid=home.uuid, attempt=attempt, now_ms=self._deps.clock.now_ms(), target_name=self._spec.table)
        await self._graveyard.bury(letters, burial, lambda before, new: self._thresholds.check(self._spec.table, before, new))
        self.source.home = self._graveyard.table or home
        self._counted = False

    # --- the home mark -----------------------------------------------------------------------------------------------

    async def _move_home(self, losses: Sequence[Loss]) -> None:
        """Raises the mark to where every table has everything. Nothing happens in memory that a restart would need."""
        source, home = self.source, self.source.home
        assert home is not None
        done = []
        for state in source.states:
            reached = self._reached.get(state.key)
            if reached is None:
                continue
            floor = self._stragglers.floor(state.key)
            end = reached if floor is None else min(reached, floor)
            if end > (source.ledger.table_offset(state.key) or state.start):
                done.append(Consumed(key=state.key, topic=state.topic, first=state.start, end=end))
        moves = source.ledger.moves(done, losses)
        if not moves:
            return
        source.enter("home")
        begun_ms = self._deps.clock.monotonic_ms()
        attempt = self._attempts.next(self._deps.clock.now_ms())
        nothing = Written(files=(), change=None)
        outcome = await commit_slice(self._lake, Work(base=home, written=nothing, moves=moves, losses=losses, attempt=attempt))
        if isinstance(outcome, Lost):
            source.doubt()
            return  # somebody else moved the mark: the next step sees where it is
        source.home = outcome.table
        source.ledger.load(outcome.progress)
        self._snapshots[self._ident] = outcome.snapshot_id
        self.board.note_commit(outcome.snapshot_id, rows=0, rejected=0)
        took_ms = int(self._deps.clock.monotonic_ms() - begun_ms)
        self.board.note_times(self._deps.clock.now_ms(), took_ms=took_ms, losses=losses)
        self._forget_reached()
        source.enter("pin")
        await source.pin()
        self._deps.faults.reach("P7")

    def _reconcile(self, states: Sequence[PartitionState]) -> None:
        """Brings what is only in memory in line with the home mark as it was just read."""
        marks = {state.key: at for state in states if (at := self.source.ledger.table_offset(state.key)) is not None}
        if any(marks.get(key, 0) < at for key, at in self._marks.items()):
            self._reached.clear()  # the home table was rolled back: what came after is looked at again, dead letters too
        self._marks = marks
        self._forget_reached()
        self._stragglers.raise_to(marks, self._reach(states))

    def _forget_reached(self) -> None:
        ledger = self.source.ledger
        self._marks |= {key: at for key in self._reached if (at := ledger.table_offset(key)) is not None}
        self._reached = {key: at for key, at in self._reached.items() if at > (ledger.next_offset(key) or 0)}

    def _lose(self, losses: Sequence[Loss]) -> None:
        """What retention took is needed by nobody any more; the home commit records it."""
        ends = {loss.key: loss.end for loss in losses}
        self._reached |= {key: max(end, self._reached.get(key, 0)) for key, end in ends.items()}
        self._stragglers.raise_to(ends, self._reach(self.source.states))

    def _where(self, state: PartitionState) -> PartitionState:
        return replace(state, next_offset=self._reached[state.key]) if state.key in self._reached else state

    def _reach(self, states: Sequence[PartitionState]) -> dict[PartitionKey, int]:
        """Where the route has got to in every partition, without regard to tables that are behind."""
        return {state.key: self._where(state).start for state in states}

    def _left(self, states: Sequence[PartitionState]) -> int:
        bad = {bad.key for bad in self.board.bad_partitions}
        waits = self.source.cursor.isolation.waits
        return sum(
            max(0, state.bounds.end - max(self._where(state).start, self.source.ledger.next_offset(state.key) or 0))
            for state in states
            if state.key not in bad and not waits(state.key, state.bounds.end)
        )

    # --- what is told ------------------------------------------------------------------------------------------------

    async def _tell(self) -> None:
        """The board's words about tables that are behind, values without table, slow rounds and too many dead letters."""
        if self._thresholds.alert is not None and not self._counted:
            self.board.alarm = self._thresholds.alarm(await self._graveyard.count())
            self._counted = True
        worst = self._stragglers.worst()
        self.board.behind = self._stragglers.story()
        if worst is not None:
            self.board.behind_stage, self.board.behind_may_pass = worst.setback.stage, worst.setback.may_pass
        self.board.notes = tuple(filter(None, (*self._places.refusals(), self._slow)))

    def _time(self, tables: int, took_ms: float) -> None:
        """Notes how many tables a round would have time for, when there are too many."""
        most_ms = max(ROUND_MS, self.board.interval_ms)
        if tables and took_ms > most_ms:
            fit, most_s = max(1, int(tables * most_ms / took_ms)), most_ms / 1000
            self._slow = f"a round over {tables} tables takes {took_ms / 1000:.0f} s: at this pace {fit} tables fit into {most_s:.0f} s"
        elif tables:
            self._slow = ""

    def _due_ms(self, tries: int) -> float:
        settings = self._settings
        pause_ms = float(min(settings.backoff_max_ms, settings.backoff_min_ms * 2 ** min(tries, 20)))
        return self._deps.clock.monotonic_ms() + pause_ms * (0.5 + self._deps.chance.random())

    def look(self) -> None:
        """Brings the board's numbers up to date from memory."""
        self.source.look()

    def trouble(self) -> str | None:
        """What keeps a commit from being through, None when nothing does."""
        committer = self._lake.committer
        return committer.trouble(self._ident) or next(filter(None, map(committer.trouble, self._snapshots)), None)

    def cared(self) -> Mapping[str, int]:
        """Tables to be cared for and the snapshot each got last."""
        return dict(self._snapshots)

    def waiting_bytes(self, enough: int) -> int:
        """Bytes that wait for the next slice, counted up to ``enough``; what only tables that are behind wait for is none of them."""
        return self.source.waiting_bytes(enough, self._reached)

    async def close(self) -> None:
        """Ends what runs beside the steps."""
        await self._stragglers.close()
        await self.source.close()

    async def _load(self) -> LoadedTable:
        """The home table, made before the first record is."""
        home = await self._home.load()
        if home is None:
            about = "records that a route could not land, with their bytes and the reason; its progress is the route's"
            properties = {"comment": about, "frazil.source": self._deps.source, "frazil.topics": ",".join(self._spec.topics)}
            home = await self._home.create(CreateTable(schema=DEAD_SCHEMA, properties=properties))
        return home
