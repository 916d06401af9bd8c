"""One table's loop: progress → plan → read → decode → convert → write → dead letters → commit → pin.

``step`` does one slice and may be stopped anywhere: rows and progress are one commit, so a slice that was not committed is
simply done again, and one that was is not seen again (docs/landing-path.md). Only the owner task of the table calls it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from frazil.catalogs.commit import Lost
from frazil.catalogs.port import LoadedTable
from frazil.kit.chance import UlidSource
from frazil.kit.errors import RetryLater
from frazil.kit.shares import ByteShares
from frazil.landing.commit import Work, commit_slice, drop_orphans
from frazil.landing.convert import DeadLetter
from frazil.landing.crew import Crew, Shift, joined
from frazil.landing.deadletter import Burial, Graveyard
from frazil.landing.decode import Decoded
from frazil.landing.discover import dead_table
from frazil.landing.handover import Handover
from frazil.landing.lake import Lake
from frazil.landing.plan import Loss, PartitionState, SlicePlan
from frazil.landing.prepare import Bench, prepare
from frazil.landing.settings import LandingDeps, LandingSettings
from frazil.landing.source import SliceSource
from frazil.landing.target import Target
from frazil.landing.thresholds import thresholds_of
from frazil.metadata.landings import LandingSpec


class TablePipeline:
    """What the owner task of one table holds."""

    def __init__(
        self, spec: LandingSpec, lake: Lake, deps: LandingDeps, settings: LandingSettings, memory: ByteShares, *, crew: Crew | None = None
    ) -> None:
        """``crew``: how other processes help with a huge topic; None: nobody does."""
        self.source = SliceSource(spec, lake, deps, settings)
        self.board = self.source.board
        self.ledger = self.source.ledger
        self._spec, self._lake, self._deps, self._settings, self._memory = spec, lake, deps, settings, memory
        self._target = Target(spec, lake, deps, settings)
        self._bench = Bench(lake=lake, deps=deps, settings=settings, enter=self.source.enter)
        self._graveyard = Graveyard(ident=dead_table(spec.table), lake=lake, deadline_ms=settings.call_deadline_ms)
        self._thresholds = thresholds_of(spec.options)
        self._counted = False
        self._attempts = UlidSource(deps.chance)
        self._crew = crew

    async def step(self) -> bool:
        """One slice. True when more was waiting than the slice could take. Raises what stopped it; ``board`` knows the stage."""
        source = self.source
        states = await source.discover(self._load)
        await self._count_letters()
        plan = source.plan(states)
        if not (plan.wants or plan.losses or source.hold_is_due()):
            return False
        source.enter("memory")
        async with self._memory.share(source.share()):
            return await self._slice(states, plan)

    async def _slice(self, states: list[PartitionState], plan: SlicePlan) -> bool:
        """Reads and lands what was planned. See ``step``."""
        source = self.source
        shift = await self._divide(states)
        if shift.orders:
            plan = replace(source.next_slice(shift.own, source.cursor), losses=plan.losses)
        decoded = await source.read(plan, source.cursor)
        if decoded is None:
            return True
        if shift.orders or self._worth_a_commit(decoded, plan, source.home):
            if not await self._land(source.home, decoded, plan.losses, shift):
                source.doubt()
                return True  # somebody else moved the table's progress: plan again from where it is now
            source.enter("pin")
            await source.pin()
            self._deps.faults.reach("P7")
        return source.decided or (bool(decoded.consumed) and source.left(states) > 0)

    async def _divide(self, states: list[PartitionState]) -> Shift:
        """What this process reads of the slice, and what others are asked for."""
        if self._crew is None:
            return Shift(own=tuple(states))
        slices = self.waiting_bytes(4 * self._settings.slice_bytes_max) / self._settings.slice_bytes_max
        number = self._attempts.next(self._deps.clock.now_ms())
        return await self._crew.divide(self.source.home, states, number, spec=self._spec, slices=slices)

    async def _land(self, table: LoadedTable | None, decoded: Decoded, losses: Sequence[Loss], shift: Shift) -> bool:
        """Rows, dead letters, progress: all of it in the table and its dead-letter table when this returns True."""
        ready = await prepare(self._target, table, decoded, self._bench)
        attempt = self._attempts.next(self._deps.clock.now_ms())
        if ready.letters:
            self.source.enter("deadletter")
            now_ms = self._deps.clock.now_ms()
            burial = Burial(target_uuid=ready.table.uuid, attempt=attempt, now_ms=now_ms, target_name=self._spec.table)
            await self._graveyard.bury(ready.letters, burial, self._check_letters)
            self._counted = False

        handed: tuple[Handover, ...] = ()
        if self._crew is not None and shift.orders:
            self.source.enter("help")
            handed = await self._crew.gather(shift, ready, self._lake)
            ready = joined(ready, handed)

        self.source.enter("commit")
        begun_ms = self._deps.clock.monotonic_ms()
        consumed = (*decoded.consumed, *(done for one in handed for done in one.consumed))
        moves = self.ledger.moves(consumed, losses)
        if not (moves or ready.written.files or losses):
            return True  # nothing came of it, here or elsewhere: no snapshot for that (R06)
        work = Work(base=ready.table, written=ready.written, moves=moves, losses=losses, attempt=attempt)
        outcome = await commit_slice(self._lake, work)
        if isinstance(outcome, Lost):
            await drop_orphans(self._lake, outcome, deadline_ms=self._settings.call_deadline_ms)
            return False
        self.source.home = outcome.table
        self.ledger.load(outcome.progress)
        took_ms = self._deps.clock.monotonic_ms() - begun_ms
        self.board.note_commit(outcome.snapshot_id, rows=ready.rows, rejected=len(ready.letters))
        self.board.advice = ready.advice
        self.board.note_times(self._deps.clock.now_ms(), took_ms=int(took_ms), losses=losses)
        return True

    def _check_letters(self, before: int, letters: Sequence[DeadLetter]) -> None:
        """Raises Refused when these new letters are too many beside those that are there; progress does not pass them then."""
        self._thresholds.check(self._spec.table, before, letters)

    async def _count_letters(self) -> None:
        """The board's alarm, by the letters there are now: once in the life of the process, and after more came."""
        if self._thresholds.alert is not None and not self._counted:
            self.board.alarm = self._thresholds.alarm(await self._graveyard.count())
            self._counted = True

    def look(self) -> None:
        """Brings the board's numbers up to date from memory."""
        self.source.look()

    def trouble(self) -> str | None:
        """What keeps a commit from being through, None when nothing does."""
        return self._lake.committer.trouble(self._spec.table)

    def cared(self) -> Mapping[str, int]:
        """Tables to be cared for and the snapshot each got last, 0 for none."""
        return {self._spec.table: self.board.snapshot_id}

    def waiting_bytes(self, enough: int) -> int:
        """Bytes that wait for the next slice, counted up to ``enough``."""
        return self.source.waiting_bytes(enough)

    async def close(self) -> None:
        """Ends what runs beside the steps."""
        await self.source.close()
        if self._crew is not None:
            try:
                await self._crew.close()
            except RetryLater:
                return  # what is still offered ends with our lease

    async def _load(self) -> LoadedTable | None:
        return await self._target.load() or await self._target.create_declared()

    def _worth_a_commit(self, decoded: Decoded, plan: SlicePlan, table: LoadedTable | None) -> bool:
        """Rows, dead letters and losses are committed at once; progress without rows waits for company (R06)."""
        if len(decoded.rows) or decoded.bad_batches or plan.losses:
            return True
        self.ledger.hold(decoded.consumed, self._deps.clock.monotonic_ms())
        return table is not None and self.source.hold_is_due()
