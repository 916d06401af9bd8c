"""One table's loop: progress → plan → read → decode → convert → write → dead letters → commit → pin.

``step`` does one slice and may be stopped anywhere: rows and progress are one commit, so a slice that was not committed is
simply done again, and one that was is not seen again (docs/landing-path.md). Only the owner task of the table calls it.
"""

from __future__ import annotations

from collections.abc import Sequence

from frazil.catalogs.commit import Lost
from frazil.catalogs.port import LoadedTable
from frazil.catalogs.progress import read_progress
from frazil.kit.chance import UlidSource
from frazil.kit.shares import ByteShares
from frazil.landing.commit import Pinner, Work, commit_slice, drop_orphans
from frazil.landing.convert import convert
from frazil.landing.deadletter import Burial, Graveyard
from frazil.landing.decode import Decoded, decode_slices
from frazil.landing.discover import dead_table
from frazil.landing.gauges import holes, waiting, waiting_bytes
from frazil.landing.lake import Lake, within
from frazil.landing.ledger import Ledger
from frazil.landing.limits import Appetite
from frazil.landing.plan import Loss, PartitionState, SlicePlan, check_ends, find_losses, plan_slice
from frazil.landing.read import Patience, SliceReader
from frazil.landing.settings import LandingDeps, LandingSettings
from frazil.landing.status import Board
from frazil.landing.target import Target
from frazil.landing.write import write_rows
from frazil.metadata.landings import LandingSpec

SHAPES = 5
"""A slice is in memory as read, as values, as columns, as a file, and what allocators keep of the one before: measured, each as large."""


class TablePipeline:
    """What the owner task of one table holds."""

    def __init__(self, spec: LandingSpec, lake: Lake, deps: LandingDeps, settings: LandingSettings, memory: ByteShares) -> None:
        self.board = Board(table=spec.table, topics=spec.topics, interval_ms=max(settings.commit_interval_min_ms, spec.commit_interval_ms))
        self.ledger = Ledger(deps.source, deps.naming)
        self._spec, self._lake, self._deps, self._settings, self._memory = spec, lake, deps, settings, memory
        self._target = Target(spec, lake, deps, settings)
        patience = Patience(joint_ms=settings.read_patience_ms, single_ms=settings.call_deadline_ms, pause_ms=settings.backoff_min_ms)
        self._reader = SliceReader(deps.reader, patience)
        self._graveyard = Graveyard(ident=dead_table(spec.table), lake=lake, deadline_ms=settings.call_deadline_ms)
        self._pinner = Pinner(store=None if deps.naming else deps.store, table=deps.label + spec.table)
        self._appetite = Appetite(settings)
        self._attempts = UlidSource(deps.chance)
        self._table: LoadedTable | None = None
        self._states: list[PartitionState] = []
        self._loaded_at_ms = float("-inf")

    async def step(self) -> bool:
        """One slice. True when more was waiting than the slice could take. Raises what stopped it; ``board`` knows the stage."""
        table, states = await self._discover()
        self._enter("plan")
        check_ends(states)
        plan = plan_slice(states, self._appetite.budget, after=self._appetite.last_key)
        self.board.see_lag(plan.lag_records, self._deps.clock.monotonic_ms())
        if not (plan.wants or plan.losses or self._held_is_due()):
            self.board.bad_partitions = holes(states, self._deps.index)
            return False
        self._enter("memory")
        async with self._memory.share(self._share()):
            return await self._slice(table, states, plan)

    async def _slice(self, table: LoadedTable | None, states: list[PartitionState], plan: SlicePlan) -> bool:
        """Reads and lands what was planned. See ``step``."""
        self._enter("read")
        read = await self._reader.read(plan.wants, {state.key: state.topic for state in states})
        if not self.ledger.recognises(want.key for want in plan.wants):
            self._loaded_at_ms = float("-inf")
            return True

        self._enter("decode")
        limits = self._appetite.limits()
        decoded = await self._deps.offload.run(lambda: decode_slices(read.reads, limits))
        self._appetite.learn(decoded)
        self.board.bad_partitions = read.bad_partitions + decoded.bad_partitions + holes(states, self._deps.index)
        if self._worth_a_commit(decoded, plan, table):
            if not await self._land(table, decoded, plan.losses):
                return True  # somebody else moved the table's progress: plan again from where it is now
            self._enter("pin")
            await self._pin(states)
            self._deps.faults.reach("P7")
        return bool(decoded.consumed) and self._left(states) > 0

    def _share(self) -> int:
        """Bytes the slice may take in all its shapes: no more than waits for it, so that quiet tables do not queue for whole slices."""
        most = self._settings.slice_bytes_max
        return SHAPES * min(most, int(self._appetite.growth * self.waiting_bytes(most)))

    async def _land(self, table: LoadedTable | None, decoded: Decoded, losses: Sequence[Loss]) -> bool:
        """Rows, dead letters, progress: all of it in the table and its dead-letter table when this returns True."""
        if self._target.asks_registry:
            self._enter("registry")
            await self._target.learn(decoded.rows.records)
        self._enter("convert")
        shape = self._target.shape(table)
        converted = await self._deps.offload.run(lambda: convert(decoded, shape))
        self._deps.faults.reach("P1")

        self._enter("write")
        deadline_ms = self._settings.call_deadline_ms
        table = table or await self._target.create(converted.values)
        written = await write_rows(self._lake, table, converted.rows, deadline_ms=deadline_ms)
        self._deps.faults.reach("P3")

        attempt = self._attempts.next(self._deps.clock.now_ms())
        if converted.letters:
            self._enter("deadletter")
            burial = Burial(target_uuid=table.uuid, attempt=attempt, now_ms=self._deps.clock.now_ms())
            await self._graveyard.bury(converted.letters, burial)

        self._enter("commit")
        begun_ms = self._deps.clock.monotonic_ms()
        moves = self.ledger.moves(decoded.consumed, losses)
        outcome = await commit_slice(self._lake, Work(base=table, written=written, moves=moves, losses=losses, attempt=attempt))
        if isinstance(outcome, Lost):
            await drop_orphans(self._lake, outcome, deadline_ms=deadline_ms)
            return False
        self._table = outcome.table
        self.ledger.load(outcome.progress)
        took_ms = self._deps.clock.monotonic_ms() - begun_ms
        self.board.note_commit(outcome.snapshot_id, rows=converted.rows.num_rows, rejected=len(converted.letters))
        self.board.note_times(self._deps.clock.now_ms(), took_ms=int(took_ms), losses=losses)
        return True

    def look(self) -> None:
        """Brings the board's numbers up to date from memory."""
        now_ms = self._deps.clock.now_ms()
        seen = waiting(self._states, self.ledger, self._deps.index)
        self.board.freshness_ms = 0 if seen.oldest_ms is None else max(0, now_ms - seen.oldest_ms)
        self.board.waiting_partition = seen.partition
        self.board.see_lag(seen.records, self._deps.clock.monotonic_ms())

    def waiting_bytes(self, enough: int) -> int:
        """Bytes that wait for the next slice, counted up to ``enough``."""
        return waiting_bytes(self._states, self.ledger, self._deps.index, enough=enough)

    async def close(self) -> None:
        """Ends what runs beside the steps."""
        await self._reader.close()

    async def _discover(self) -> tuple[LoadedTable | None, list[PartitionState]]:
        """Topics, log bounds, and the table with its own progress. An idle table is not loaded at every interval."""
        self._enter("discover")
        deadline_ms = self._settings.call_deadline_ms
        await within(self._deps.index.refresh(), deadline_ms, "reading metadata")  # topics are kept fresh by the process
        topics = [record for name in self._spec.topics if (record := self._deps.topics.get(name)) is not None]
        self.board.absent = tuple(sorted(set(self._spec.topics) - {topic.name for topic in topics}))
        pinned = await within(self._pinner.load(), deadline_ms, "reading the pin")
        states = self._states = self.ledger.states(topics, self._deps.index, pinned)
        now_ms = self._deps.clock.monotonic_ms()
        idle = not any(state.lag or _is_ahead(state) for state in states) and not find_losses(states)
        if idle and now_ms - self._loaded_at_ms < self._settings.progress_idle_ms:
            return self._table, states
        self._table = await self._target.load() or await self._target.create_declared()
        progress = await within(read_progress(self._lake.objects, self._table), deadline_ms, "reading progress") if self._table else {}
        self._loaded_at_ms = now_ms
        self.ledger.load(progress)
        states = self.ledger.states(topics, self._deps.index, pinned)
        if any(map(_is_ahead, states)):
            # Another process has landed what came after our look at the log; a table that is still ahead then is a matter for check_ends.
            await within(self._deps.index.refresh(), deadline_ms, "reading metadata")
            states = self.ledger.states(topics, self._deps.index, pinned)
        self._states = states
        await self._pin(states)
        return self._table, states

    async def _pin(self, states: Sequence[PartitionState]) -> None:
        """What the table still needs, from before its first commit on (F10)."""
        offsets = {state.key: state.needed if (at := self.ledger.table_offset(state.key)) is None else at for state in states}
        await self._pinner.pin(offsets, self._deps.clock.now_ms())

    def _worth_a_commit(self, decoded: Decoded, plan: SlicePlan, table: LoadedTable | None) -> bool:
        """Rows, dead letters and losses are committed at once; progress without rows waits for company (R06)."""
        if len(decoded.rows) or decoded.bad_batches or plan.losses:
            return True
        self.ledger.hold(decoded.consumed, self._deps.clock.monotonic_ms())
        return table is not None and self._held_is_due()

    def _held_is_due(self) -> bool:
        return self.ledger.held_too_long(self._deps.clock.monotonic_ms(), self._settings.progress_idle_ms)

    def _left(self, states: Sequence[PartitionState]) -> int:
        """Records that were there when the slice was planned and are not landed, without partitions that cannot be read now."""
        bad = {bad.key for bad in self.board.bad_partitions}
        return sum(
            max(0, state.bounds.end - (self.ledger.next_offset(state.key) or state.start)) for state in states if state.key not in bad
        )

    def _enter(self, stage: str) -> None:
        self.board.enter(stage, self._deps.clock.monotonic_ms())


def _is_ahead(state: PartitionState) -> bool:
    return state.next_offset is not None and state.next_offset > state.bounds.end
