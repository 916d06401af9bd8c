"""The sequencer of one process: flushes in the order they were cut → metadata transactions, until each is decided.

Each transaction asserts the version of every head it moves, the collection horizon, that its commit keys do not exist, and
that no topic was deleted since the view by which its topics were found to exist.
Three answers need care:

* lost (OutcomeUnknown): the commit key is read; present = applied. Absent = the *identical* transaction is sent again, so
  that of all tries at most one can be applied, however late it arrives (R02);
* conflict (Moved): the commit key is looked at first, for the same reason; only then somebody else was first. The feed is
  read, everything is planned again on the new state, after two losses the contended shards go alone (R11);
* the horizon has passed the bundle: it is stored again under a new ULID (R01).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from frazil.kit.chance import Chance
from frazil.kit.clock import Clock
from frazil.kit.errors import OutcomeUnknown, RetryLater
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.names import PartitionKey
from frazil.log.attempt import Attempt
from frazil.log.commitrecord import CommitRecord, encode_commit
from frazil.log.flush import Appended, AppendFault, FaultKind, Flush, Suspects, drop_suspects
from frazil.log.head import encode_head
from frazil.log.horizon import NO_HORIZON, Horizon, horizon_of, ulid_ms
from frazil.log.index import LogIndex
from frazil.log.pause import pause
from frazil.log.sequence import Plan, sequence
from frazil.log.shards import HEAD, HORIZON, commit_key, head_key
from frazil.metadata import read_one
from frazil.metadata.port import START, Check, Entry, MetadataStore, Moved, Revision, Write
from frazil.metadata.topics import DELETION_MARK, Topics

LOSSES_MAX: Final = 2
EXPECTED_MAX: Final = 10_000


class BundleLost(Exception):
    """A bundle had to be stored again and could not be: the flush fails for good."""


@dataclass(slots=True)
class CommitCounts:
    """What the sequencer did so far; conflicts per commit is the number to watch (R11)."""

    commits: int = 0
    conflicts: int = 0
    unknown: int = 0
    replaced: int = 0
    parts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SequencerDeps:
    """``replace`` stores a flush's bundle again under a new ULID later than the given millisecond; raises BundleLost."""

    store: MetadataStore
    index: LogIndex
    clock: Clock
    chance: Chance
    faults: FaultPoints
    replace: Callable[[Flush, int], Awaitable[None]]
    deadline_ms: int
    topics: Topics | None = None


class Sequencer:
    """Used by one task only: at any time at most one transaction of a process is under way (R03)."""

    def __init__(self, deps: SequencerDeps) -> None:
        self._deps = deps
        self._horizon: Horizon = NO_HORIZON
        self._expected: dict[tuple[PartitionKey, int], tuple[int, int, int]] = {}
        self.counts = CommitCounts()

    @property
    def horizon_ms(self) -> int:
        """Bundles must be younger than this, as far as known here."""
        return ulid_ms(self._horizon.ulid)

    async def decide(self, flushes: Sequence[Flush]) -> Suspects:
        """Sequences ``flushes``, which are stored, and answers their parts. Returns when nothing of them is undecided.

        The result names the producers of runs that were given up. Raises Corrupt when metadata is damaged.
        """
        attempt = Attempt(flushes, deadline_ms=self._deps.clock.monotonic_ms() + self._deps.deadline_ms)
        while attempt.pending:
            try:
                await self._step(attempt)
            except BundleLost as error:
                return self.give_up(attempt.undecided(), str(error))
            except RetryLater as error:
                if self._deps.clock.monotonic_ms() > attempt.deadline_ms:
                    return self.give_up(attempt.undecided(), str(error))
                await pause(error.after_ms, self._deps.chance)
        return set()

    def give_up(self, flushes: Sequence[Flush], why: str) -> Suspects:
        """Fails the unanswered parts of ``flushes``, none of which is or can get into the log, and names their producers (R03)."""
        parts = [part for flush in flushes for groups in flush.groups.values() for group in groups for part in group.parts]
        left = [part for part in parts if not part.settled]
        suspects = {(part.run.key, producer_id) for part in left for producer_id in part.producers()}
        for part in left:
            for batch in part.run.batches:
                if batch.producer_id >= 0:
                    self._remember(part.run.key, batch.producer_id, batch.producer_epoch, batch.base_sequence)
        drop_suspects(left, suspects, why)
        return suspects

    async def _step(self, attempt: Attempt) -> None:
        """One transaction, or one thing that has to come before it."""
        for flush in attempt.undecided():
            if self._is_closed(flush):
                await self._deps.replace(flush, self.horizon_ms)
                flush.chunk = 0
                self.counts.replaced += 1
        self._drop_gone(attempt)
        plan = sequence(attempt.choose(self._deps.index.state.shards), self._deps.index.state, self._expected)
        if self._needs_refresh(plan, attempt):
            await self._deps.index.refresh()
            attempt.fresh = True
            return
        if plan.records:
            answer = await self._commit(plan)
            if isinstance(answer, Moved):
                await self._lose(answer, attempt)
                return
            self._deps.index.fold_own(plan.records, answer)
            self._deps.faults.reach("B4")
        self._answer(plan, attempt)

    def _drop_gone(self, attempt: Attempt) -> None:
        """Fails, retriably, what was meant for a topic that was deleted meanwhile: its name may mean another topic now (F03)."""
        topics = self._deps.topics
        if topics is None:
            return
        for piece in attempt.pending:
            for group in piece.groups:
                if topics.by_id(group.key.topic_id) is None:
                    for part in group.parts:
                        part.dropped = True
                        part.settle(refusal("the topic was deleted"))

    def _needs_refresh(self, plan: Plan, attempt: Attempt) -> bool:
        """A sequence that looks wrong may only look so here: another broker may have taken the batches before it (R08)."""
        return plan.doubtful and not attempt.fresh

    def _is_closed(self, flush: Flush) -> bool:
        """R01: a bundle at or below the horizon may be gone already."""
        return flush.ulid <= self._horizon.ulid

    async def _commit(self, plan: Plan) -> Revision | Moved:
        """The revision at which the plan was applied, or Moved when it surely was not and never will be.

        Raises RetryLater when it surely was not applied.
        """
        checks, writes, own = self._transaction(plan)
        unknown = False
        while True:
            try:
                answer = await self._deps.store.commit(checks, writes)
            except OutcomeUnknown as error:
                self.counts.unknown += 1
                unknown = True
                found = await self._look(own)
                if found.version:
                    return found.version
                await pause(error.after_ms, self._deps.chance)
            except RetryLater as error:
                if not unknown:
                    raise
                await pause(error.after_ms, self._deps.chance)
            else:
                if not isinstance(answer, Moved):
                    return answer.revision
                mine = self._find_own(answer, own)
                if mine is not None:
                    return mine.version
                if unknown:
                    self._refuse_forgotten(plan, answer)
                return answer

    def _refuse_forgotten(self, plan: Plan, moved: Moved) -> None:
        """R02 over a long pause: once the horizon has passed the bundle, an absent commit key may have been sealed and dropped.

        Then nobody knows whether the lost answer was a yes, and to append again could double the records: the flush is given up.
        """
        closed = next((horizon_of(entry).ulid for entry in moved.entries if entry.key == HORIZON), self._horizon.ulid)
        if any(record.ulid <= closed for record in plan.records):
            raise BundleLost("the answer to its commit was lost for longer than commit records are kept; it may be in the log")

    async def _look(self, own: str) -> Entry:
        while True:
            try:
                return await read_one(self._deps.store, own)
            except RetryLater as error:
                await pause(error.after_ms, self._deps.chance)

    def _find_own(self, moved: Moved, own: str) -> Entry | None:
        """R02: a conflict is our own success when our commit key is there; the store reads it together with the heads."""
        return next((entry for entry in moved.entries if entry.key == own and entry.version), None)

    async def _lose(self, moved: Moved, attempt: Attempt) -> None:
        """Somebody else was first: learn what moved; from the third try on contended shards go alone."""
        self.counts.conflicts += 1
        heads = [entry for entry in moved.entries if entry.key.startswith(HEAD)]
        for entry in moved.entries:
            if entry.key == HORIZON:
                self._horizon = horizon_of(entry)
            if entry.key == DELETION_MARK and self._deps.topics is not None:
                await self._deps.topics.refresh()
        attempt.losses += bool(heads)
        if attempt.losses >= LOSSES_MAX:
            attempt.alone.update((int(entry.key[len(HEAD) :]), None) for entry in heads)
            await pause(min(attempt.losses, 8), self._deps.chance)
        await self._deps.index.refresh()
        attempt.fresh = True

    def _transaction(self, plan: Plan) -> tuple[list[Check], list[Write], str]:
        """Checks, writes, and the first commit key, which stands for all of them."""
        shards = self._deps.index.state.shards
        checks = [Check(key=head_key(number), version=shards[number].entry_version) for number in plan.heads]
        writes = [Write(key=head_key(number), value=encode_head(mark, nexts)) for number, (mark, nexts) in plan.heads.items()]
        commits = self._commit_writes(plan.records)
        checks += [Check(key=write.key, version=START) for write in commits]
        checks.append(Check(key=HORIZON, version=self._horizon.version))
        if self._deps.topics is not None:
            checks.append(Check(key=DELETION_MARK, version=self._deps.topics.deletions))
        return checks, writes + commits, commit_key(plan.records[0].ulid, plan.records[0].chunk)

    def _commit_writes(self, records: Sequence[CommitRecord]) -> list[Write]:
        return [Write(key=commit_key(record.ulid, record.chunk), value=encode_commit(record)) for record in records]

    def _answer(self, plan: Plan, attempt: Attempt) -> None:
        """The plan is true now: answers go out, the pieces are done."""
        written = {record.ulid for record in plan.records}
        for flush in attempt.undecided():
            flush.chunk += flush.ulid in written
        self.counts.commits += bool(plan.records)
        self.counts.parts += len(plan.answers)
        for part, outcome in plan.answers:
            if self._expected and isinstance(outcome, Appended):
                for producer_id in part.producers():
                    self._expected.pop((part.run.key, producer_id), None)
            part.settle(outcome)
        attempt.done(plan.pieces)

    def forget_failures(self, before_ms: int) -> None:
        """Producers do not come back for a run that failed so long ago."""
        for place in [place for place, (_, _, at_ms) in self._expected.items() if at_ms < before_ms]:
            del self._expected[place]

    def _remember(self, key: PartitionKey, producer_id: int, epoch: int, sequence: int) -> None:
        """A producer whose first run fails here has no state that would stop its second run; this stops it (R03)."""
        log = self._deps.index.state.find(key)
        known = self._expected.get((key, producer_id))
        if (log is not None and producer_id in log.producers) or (known is not None and known[0] >= epoch):
            return
        self._expected[key, producer_id] = (epoch, sequence, self._deps.clock.now_ms())
        if len(self._expected) > EXPECTED_MAX:
            del self._expected[next(iter(self._expected))]


def refusal(why: str) -> AppendFault:
    """Nothing was appended; send it again."""
    return AppendFault(FaultKind.RETRY, why)
