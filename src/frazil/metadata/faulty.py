"""A metadata store with seeded latency and faults over any other: commits whose answer is lost, hints that do not come.

It works under virtual time and takes every decision from its ``chance``, so one seed is one history.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from frazil.kit.chance import Chance
from frazil.kit.delays import NO_DELAY, Delay, pick
from frazil.kit.errors import FrazilError, OutcomeUnknown, RetryLater
from frazil.kit.tasks import spawn
from frazil.metadata.port import START, Check, Committed, MetadataStore, Moved, Range, RangeDelete, Revision, Write


class CommitFault(StrEnum):
    """What can happen to a commit."""

    UNAVAILABLE = "unavailable"
    """RetryLater, surely not applied."""
    LOST_APPLIED = "lost-applied"
    """Applied, but OutcomeUnknown (R02)."""
    LOST_UNAPPLIED = "lost-unapplied"
    """OutcomeUnknown, and not applied."""
    LOST_LATE = "lost-late"
    """OutcomeUnknown, and tried only some time later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataFaults:
    """The plan: latencies, and the probability of each fault."""

    range_delay: Delay = NO_DELAY
    commit_delay: Delay = NO_DELAY
    unavailable: float = 0.0
    """Of any call but ``watch``."""
    lost_applied: float = 0.0
    lost_unapplied: float = 0.0
    lost_late: float = 0.0
    late_ms: float = 1000.0
    hint_dropped: float = 0.0
    hint_doubled: float = 0.0
    hint_late: float = 0.0
    hint_late_ms: float = 500.0


NO_FAULTS = MetadataFaults()


class FaultyMetadata(MetadataStore):
    """``store`` with the faults of ``plan``; the plan may be replaced at any time."""

    def __init__(self, store: MetadataStore, chance: Chance, plan: MetadataFaults = NO_FAULTS) -> None:
        self.plan = plan
        self._store = store
        self._chance = chance
        self._forced: deque[CommitFault | None] = deque()
        self._late: set[asyncio.Task[None]] = set()

    def force(self, *faults: CommitFault | None) -> None:
        """The next commits get these faults, one each (None: none), whatever the plan says."""
        self._forced.extend(faults)

    async def late_commits(self) -> None:
        """Waits until every late commit has been tried."""
        while self._late:
            await asyncio.gather(*self._late)

    async def range(self, start: str, end: str, *, after: Revision = START) -> Range:
        """See ``MetadataStore.range``; RetryLater is its only fault."""
        delay_ms = self.plan.range_delay.draw_ms(self._chance)
        await _sleep(delay_ms / 2)
        self._stumble("range")
        found = await self._store.range(start, end, after=after)
        await _sleep(delay_ms / 2)
        return found

    async def commit(
        self, checks: Sequence[Check], writes: Sequence[Write], range_deletes: Sequence[RangeDelete] = ()
    ) -> Committed | Moved:
        """See ``MetadataStore.commit``."""
        delay_ms = self.plan.commit_delay.draw_ms(self._chance)
        fault = self._commit_fault()
        await _sleep(delay_ms / 2)
        if fault is CommitFault.UNAVAILABLE:
            raise RetryLater("injected: commit not applied", after_ms=10)
        if fault is CommitFault.LOST_UNAPPLIED:
            raise OutcomeUnknown("injected: no answer, not applied", after_ms=10)
        if fault is CommitFault.LOST_LATE:
            task = spawn("late-commit", self._commit_late(tuple(checks), tuple(writes), tuple(range_deletes)))
            self._late.add(task)
            task.add_done_callback(self._late.discard)
            raise OutcomeUnknown("injected: no answer, applied later", after_ms=10)
        answer = await self._store.commit(checks, writes, range_deletes)
        await _sleep(delay_ms / 2)
        if fault is CommitFault.LOST_APPLIED:
            raise OutcomeUnknown("injected: answer lost", after_ms=10)
        return answer

    def watch(self, prefix: str) -> AsyncIterator[None]:
        """See ``MetadataStore.watch``; hints are dropped, doubled and delayed, the first one too."""
        return _FaultyHints(self._store.watch(prefix), self)

    async def grant_lease(self, ttl_ms: int) -> int:
        """See ``MetadataStore.grant_lease``."""
        await _sleep(self.plan.commit_delay.draw_ms(self._chance))
        self._stumble("grant_lease")
        return await self._store.grant_lease(ttl_ms)

    async def renew_lease(self, lease: int) -> bool:
        """See ``MetadataStore.renew_lease``."""
        await _sleep(self.plan.commit_delay.draw_ms(self._chance))
        self._stumble("renew_lease")
        return await self._store.renew_lease(lease)

    def hint_fault(self) -> str | None:
        """What happens to the next hint: drop, double, late or nothing."""
        plan = self.plan
        return pick(self._chance, (("drop", plan.hint_dropped), ("double", plan.hint_doubled), ("late", plan.hint_late)))

    async def close(self) -> None:
        """Lets late commits happen, then closes the store below."""
        await self.late_commits()
        await self._store.close()

    def _commit_fault(self) -> CommitFault | None:
        plan = self.plan
        odds = (
            (CommitFault.UNAVAILABLE, plan.unavailable),
            (CommitFault.LOST_APPLIED, plan.lost_applied),
            (CommitFault.LOST_UNAPPLIED, plan.lost_unapplied),
            (CommitFault.LOST_LATE, plan.lost_late),
        )
        drawn = pick(self._chance, odds)
        return self._forced.popleft() if self._forced else drawn

    async def _commit_late(self, checks: Sequence[Check], writes: Sequence[Write], range_deletes: Sequence[RangeDelete]) -> None:
        await _sleep(self.plan.late_ms)
        try:
            await self._store.commit(checks, writes, range_deletes)
        except FrazilError:
            return  # its caller has been told that it may not happen

    def _stumble(self, verb: str) -> None:
        if self._chance.random() < self.plan.unavailable:
            raise RetryLater(f"injected: {verb} not done", after_ms=10)


class _FaultyHints(AsyncIterator[None]):
    def __init__(self, hints: AsyncIterator[None], owner: FaultyMetadata) -> None:
        self._hints = hints
        self._owner = owner
        self._again = False

    async def __anext__(self) -> None:
        if self._again:
            self._again = False
            return
        while True:
            await anext(self._hints)
            fault = self._owner.hint_fault()
            if fault == "drop":
                continue
            if fault == "late":
                await _sleep(self._owner.plan.hint_late_ms)
            self._again = fault == "double"
            return

    async def aclose(self) -> None:
        close = getattr(self._hints, "aclose", None)
        if close is not None:
            await close()


async def _sleep(delay_ms: float) -> None:
    if delay_ms > 0:
        await asyncio.sleep(delay_ms / 1000)
