"""What one landing reads and how far it is: discover → plan → read → decode, and the pin. The same for a table and for a route.

Only the owner task of the landing calls it. ``home`` is the table whose own progress says how far the landing is (R06, R07).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from frazil.catalogs.port import LoadedTable
from frazil.catalogs.progress import read_progress
from frazil.kit.names import PartitionKey
from frazil.landing.commit import Pinner
from frazil.landing.decode import BadPartition, Decoded, decode_slices
from frazil.landing.extent import extent_of
from frazil.landing.gauges import holes, waiting, waiting_bytes
from frazil.landing.isolation import Isolation
from frazil.landing.lake import Lake, within
from frazil.landing.ledger import Ledger
from frazil.landing.limits import Appetite
from frazil.landing.plan import PartitionState, SlicePlan, check_ends, find_losses, plan_slice
from frazil.landing.read import Patience, SliceReader
from frazil.landing.settings import LandingDeps, LandingSettings
from frazil.landing.status import OVERDUE_MIN_MS, Board
from frazil.metadata.landings import LandingSpec
from frazil.metadata.topics import TopicRecord

SHAPES = 5
"""A slice is in memory as read, as values, as columns, as a file, and what allocators keep of the one before: measured, each as large."""
_LOOK_SHARE = 50
"""Looking takes at most one part in so many of the time: with tens of thousands of partitions it is done less often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """One way of reading on: how much at once, and the transactions it waits for. A landing has one; a route's stragglers have another."""

    appetite: Appetite
    isolation: Isolation


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reached:
    ledger: Ledger
    reached: Mapping[PartitionKey, int]

    def next_offset(self, key: PartitionKey) -> int | None:
        """See ``gauges.Reach``."""
        return self.reached.get(key, self.ledger.next_offset(key))


class SliceSource:
    """The log as one landing sees it. Stages are told to ``board``."""

    def __init__(self, spec: LandingSpec, lake: Lake, deps: LandingDeps, settings: LandingSettings) -> None:
        self.board = Board(table=spec.table, topics=spec.topics, interval_ms=max(settings.commit_interval_min_ms, spec.commit_interval_ms))
        self.ledger = Ledger(deps.source, deps.naming)
        self.states: list[PartitionState] = []
        self.home: LoadedTable | None = None
        """As loaded or committed last."""
        self._extent = extent_of(spec.options)
        self._ends: Mapping[PartitionKey, int] = {}
        self._spec, self._lake, self._deps, self._settings = spec, lake, deps, settings
        self.cursor = self.new_cursor()
        self._reader = SliceReader(
            deps.reader, Patience(joint_ms=settings.read_patience_ms, single_ms=settings.call_deadline_ms, pause_ms=settings.backoff_min_ms)
        )
        self._pinner = Pinner(store=None if deps.naming else deps.store, table=deps.label + spec.table)
        self.decided = False
        """The last slice found the end of a transaction that was waited for, or there is more to look through: no pause is due."""
        self._loaded_at_ms = float("-inf")
        self._look_again_ms = float("-inf")

    def new_cursor(self) -> Cursor:
        """Another way of reading on, that begins without knowledge."""
        isolation = Isolation(self._spec, patience_ms=max(2 * self.board.interval_ms, OVERDUE_MIN_MS))
        return Cursor(appetite=Appetite(self._settings), isolation=isolation)

    async def discover(self, load: Callable[[], Awaitable[LoadedTable | None]]) -> list[PartitionState]:
        """Topics, log bounds, and the home table with its own progress. When nothing waits it is not loaded at every interval."""
        self.enter("discover")
        deadline_ms = self._settings.call_deadline_ms
        await within(self._deps.index.refresh(), deadline_ms, "reading metadata")  # topics are kept fresh by the process
        topics = [record for name in self._spec.topics if (record := self._deps.topics.get(name)) is not None]
        self.board.absent = tuple(sorted(set(self._spec.topics) - {topic.name for topic in topics}))
        pinned = await within(self._pinner.load(), deadline_ms, "reading the pin")
        states = self.states = await self._look(topics, pinned)
        now_ms = self._deps.clock.monotonic_ms()
        idle = not any(state.lag or _is_ahead(state) for state in states) and not find_losses(states)
        if idle and now_ms - self._loaded_at_ms < self._settings.progress_idle_ms:
            return states
        self.home = await load()
        progress = await within(read_progress(self._lake.objects, self.home), deadline_ms, "reading progress") if self.home else {}
        self._loaded_at_ms = now_ms
        before = {state.key: self.ledger.table_offset(state.key) for state in states}
        if self.ledger.load(progress):
            states = await self._look(topics, pinned)
        self.board.note_reset([(state, before.get(state.key)) for state in states])
        if any(map(_is_ahead, states)):
            # Another process has landed what came after our look at the log; a table that is still ahead then is a matter for check_ends.
            await within(self._deps.index.refresh(), deadline_ms, "reading metadata")
            states = await self._look(topics, pinned)
        self.states = states
        await self.pin()
        return states

    def doubt(self) -> None:
        """Somebody else moved the table: it is loaded anew before the next slice, also when nothing seems to wait."""
        self._loaded_at_ms = float("-inf")

    async def _look(self, topics: Sequence[TopicRecord], pinned: Mapping[PartitionKey, int]) -> list[PartitionState]:
        """The states of all partitions as the landing wants them (options ``from`` and ``to``)."""
        states = self.ledger.states(topics, self._deps.index, pinned)
        resolving = self._extent.resolve(states, self._deps.reader.find_time)
        await within(resolving, self._settings.call_deadline_ms, "finding the offsets of a time")
        self._ends = self._extent.limits(states)
        return self._extent.narrowed(states)

    def plan(self, states: Sequence[PartitionState]) -> SlicePlan:
        """What to read next over ``states``."""
        self.enter("plan")
        check_ends(states)
        plan = self.next_slice(states, self.cursor)
        self.board.see_lag(plan.lag_records, self._deps.clock.monotonic_ms())
        self.board.done = self._extent.is_done(states)
        if not (plan.wants or plan.losses):
            self.board.bad_partitions = self._troubles(())
        return plan

    def next_slice(self, states: Sequence[PartitionState], cursor: Cursor) -> SlicePlan:
        """What ``cursor`` reads next over ``states``."""
        appetite, index = cursor.appetite, self._deps.index
        ahead = {key: max(at, index.past_lost(key, at)) for key, at in cursor.isolation.ahead(states).items()}
        return plan_slice(states, appetite.budget, after=appetite.last_key, ahead=ahead)

    def share(self) -> int:
        """Bytes the slice may take in all its shapes: no more than waits for it, so that quiet tables do not queue for whole slices."""
        most = self._settings.slice_bytes_max
        return SHAPES * min(most, int(self.cursor.appetite.growth * self.waiting_bytes(most)))

    async def read(self, plan: SlicePlan, cursor: Cursor) -> Decoded | None:
        """The records that were planned; None when the log was made anew meanwhile, and all must be looked at again."""
        self.enter("read")
        read = await self._reader.read(plan.wants, {state.key: state.topic for state in self.states})
        if not self.ledger.recognises(want.key for want in plan.wants):
            self.doubt()
            return None
        self.enter("decode")
        isolation = cursor.isolation
        limits = cursor.appetite.limits(isolation, self._ends)
        decoded = await self._deps.offload.run(lambda: decode_slices(read.reads, limits))
        cursor.appetite.learn(decoded)
        self.decided = isolation.learn(decoded.held, self._deps.clock.monotonic_ms())
        self.decided |= any(not (held.decided or isolation.waits(key, self._end(key))) for key, held in decoded.held.items())
        self.board.bad_partitions = self._troubles(read.bad_partitions + decoded.bad_partitions)
        return decoded

    def _troubles(self, found: tuple[BadPartition, ...]) -> tuple[BadPartition, ...]:
        """Partitions that cannot go on: those just found, holes of the log, and transactions that nobody ends (R34)."""
        waits = self.cursor.isolation.troubles(self.states, self._deps.clock.monotonic_ms())
        return found + holes(self.states, self._deps.index) + waits

    def hold_is_due(self) -> bool:
        """Progress without rows has waited long enough for company (R06)."""
        return self.ledger.held_too_long(self._deps.clock.monotonic_ms(), self._settings.progress_idle_ms)

    async def pin(self) -> None:
        """What the landing still needs, from before its first commit on (F10)."""
        offsets = {state.key: state.needed if (at := self.ledger.table_offset(state.key)) is None else at for state in self.states}
        await self._pinner.pin(offsets, self._deps.clock.now_ms())

    def look(self) -> None:
        """Brings the board's numbers up to date from memory."""
        begun_ms = self._deps.clock.monotonic_ms()
        if begun_ms < self._look_again_ms:
            return
        now_ms = self._deps.clock.now_ms()
        seen = waiting(self.states, self.ledger, self._deps.index, self._ends)
        self.board.freshness_ms = 0 if seen.oldest_ms is None else max(0, now_ms - seen.oldest_ms)
        self.board.waiting_partition = seen.partition
        ended_ms = self._deps.clock.monotonic_ms()
        self.board.see_lag(seen.records, ended_ms)
        self._look_again_ms = ended_ms + _LOOK_SHARE * (ended_ms - begun_ms)

    def waiting_bytes(self, enough: int, reached: Mapping[PartitionKey, int] | None = None) -> int:
        """Bytes that wait for the next slice, counted up to ``enough``. ``reached``: partitions that are read from further on."""
        reach = _Reached(ledger=self.ledger, reached=reached) if reached else self.ledger
        return waiting_bytes(self.states, reach, self._deps.index, self._ends, enough=enough)

    def left(self, states: Sequence[PartitionState]) -> int:
        """Records that were there when the slice was planned and are not landed, without partitions that cannot go on now."""
        bad = {bad.key for bad in self.board.bad_partitions}
        return sum(
            max(0, state.bounds.end - (self.ledger.next_offset(state.key) or state.start))
            for state in states
            if state.key not in bad and not self.cursor.isolation.waits(state.key, state.bounds.end)
        )

    def _end(self, key: PartitionKey) -> int:
        return next(state.bounds.end for state in self.states if state.key == key)

    def enter(self, stage: str) -> None:
        """The landing begins ``stage``."""
        self.board.enter(stage, self._deps.clock.monotonic_ms())

    async def close(self) -> None:
        """Ends what runs beside the steps."""
        await self._reader.close()


def _is_ahead(state: PartitionState) -> bool:
    return state.next_offset is not None and state.next_offset > state.bounds.end
