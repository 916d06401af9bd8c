"""The write side: requests wait together, become one bundle, and get their offsets in one transaction (DESIGN D1, R03, R13).

Three kinds of task, all owned by ``Appender.run``: one cuts flushes, one per flush stores its bundle, one sequences stored
flushes strictly in the order they were cut. A slot is held from cut to sequenced, so slow storage and slow metadata both make
the next flush larger instead of making more of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from frazil.kit.chance import Chance, UlidSource
from frazil.kit.clock import Clock
from frazil.kit.errors import Bug, Conflict, Missing, OutcomeUnknown, Refused, RetryLater
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.hedge import Hedge, hedged
from frazil.log.cache import BlockCache
from frazil.log.commit import BundleLost, CommitCounts, Sequencer, SequencerDeps, refusal
from frazil.log.flush import (
    Answer,
    Apart,
    Appended,
    AppendFault,
    AppendRun,
    FaultKind,
    Flush,
    Outcome,
    Request,
    Suspects,
    drop_suspects,
    gather,
)
from frazil.log.gate import Gate
from frazil.log.index import LogIndex
from frazil.log.pause import pause
from frazil.log.producers import EXPIRY_MS
from frazil.metadata.port import MetadataStore
from frazil.metadata.topics import Topics
from frazil.objects.port import ObjectStore
from frazil.segments.keys import bundle_key

__all__ = ["Answer", "Apart", "AppendDeps", "AppendFault", "AppendRun", "Appended", "Appender", "FaultKind", "FlushPolicy", "Outcome"]

BATCHES_MAX: Final = 3072
"""Batches per flush, so that its producer deltas fit a transaction (R10)."""
EXPIRE_EVERY_MS: Final = 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushPolicy:
    """When to cut and how hard to try (R13). Defaults are those of file and memory stores; S3 balanced is 40 ms × 4."""

    interval_ms: int = 0
    """Least time between two cuts."""
    inflight: int = 2
    """Flushes between cut and sequenced."""
    bytes_max: int = 8 * 1024 * 1024
    """A flush this large is cut before its time; a larger one is cut only for one larger request."""
    buffer_bytes_max: int = 64 * 1024 * 1024
    """Bytes accepted and not answered; above it ``append`` waits."""
    put_tries: int = 5
    put_deadline_ms: int = 10_000
    """For one try."""
    hedge_share: float = 0.0
    """So many of the PUTs may be sent a second time when they are slower than 95 % of the last ones (R25). For cloud stores."""
    hedge_enough: int = 32
    """PUTs that are timed before that begins."""
    commit_deadline_ms: int = 20_000
    """After it runs that are surely not in the log are given up. One whose fate is unknown is never given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendDeps:
    """What an appender works with. With ``cache``, fresh bundles can be read from memory; with ``topics``, nothing is appended
    to a topic that is gone, however old the view of whoever asks."""

    store: MetadataStore
    objects: ObjectStore
    index: LogIndex
    clock: Clock
    chance: Chance
    faults: FaultPoints
    cache: BlockCache | None = None
    topics: Topics | None = None


class Appender:
    """One per broker. ``run`` must be running for ``append`` to return."""

    def __init__(self, deps: AppendDeps, policy: FlushPolicy) -> None:
        self._deps = deps
        self._policy = policy
        self._ulids = UlidSource(deps.chance)
        self._sequencer = Sequencer(
            SequencerDeps(
                store=deps.store,
                index=deps.index,
                topics=deps.topics,
                clock=deps.clock,
                chance=deps.chance,
                faults=deps.faults,
                replace=self._replace,
                deadline_ms=policy.commit_deadline_ms,
            )
        )
        self.puts = Hedge(share=policy.hedge_share, enough=policy.hedge_enough)
        """How long bundle PUTs take, and how many were sent twice."""
        self._buffer: deque[Request] = deque()
        self._buffered_bytes = 0
        self._gate = Gate(policy.buffer_bytes_max)
        self._queue: deque[Flush] = deque()
        self._deciding: list[Flush] = []
        self._slots = policy.inflight
        self._last_cut_ms = -1e18
        self._expired_ms = 0
        self._work = asyncio.Event()
        self._news = asyncio.Event()
        self._closing = False
        self._open = 0
        """Requests taken and not answered."""
        self._idle = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None

    @property
    def counts(self) -> CommitCounts:
        """What the sequencer did so far."""
        return self._sequencer.counts

    @property
    def unanswered(self) -> int:
        """Requests that were taken and have no answer."""
        return len(self._unanswered())

    async def append(self, runs: Sequence[AppendRun]) -> tuple[Outcome, ...]:
        """Appends ``runs`` and returns their outcomes, in order, when each is durable and has its offset, or is refused.

        Waits first while ``buffer_bytes_max`` bytes are unanswered. Cancelling the call does not take the runs back. Raises
        OutcomeUnknown when ``run`` ends in the middle.
        """
        return await (await self.enter(runs))

    async def enter(self, runs: Sequence[AppendRun]) -> asyncio.Future[tuple[Outcome, ...]]:
        """The first half of ``append``: returns when the runs have their place in the order. The future has the outcomes."""
        answer: asyncio.Future[tuple[Outcome, ...]] = asyncio.get_running_loop().create_future()
        if not runs:
            answer.set_result(())
            return answer
        size = sum(len(run.data) for run in runs)
        await self._gate.enter(size)
        if self._closing:
            self._gate.leave(size)
            answer.set_result(tuple(refusal("this broker is stopping") for _ in runs))
        else:
            self._take(runs, size, lambda found: _fulfil(answer, found))
        return answer

    def offer(self, runs: Sequence[AppendRun], done: Callable[[Answer], None]) -> bool:
        """``append`` without waiting: False when it would have to wait, or this broker is stopping.

        ``done`` gets the answer, in the turn in which it is decided; it must not raise.
        """
        size = 0
        for run in runs:
            size += len(run.data)
        if not runs or not self.admits(size):
            return False
        self._gate.pass_through(size)
        self._take(runs, size, done)
        return True

    def admits(self, size: int) -> bool:
        """True when ``size`` bytes may be offered now: nobody waits, they fit, and this broker is not stopping."""
        return not self._closing and self._gate.is_open(size)

    def _take(self, runs: Sequence[AppendRun], size: int, done: Callable[[Answer], None]) -> None:
        self._buffer.append(Request(runs, size, self._answered, done))
        self._buffered_bytes += size
        self._open += 1
        self._work.set()

    def _answered(self, request: Request, answer: Answer) -> None:
        self._open -= 1
        self._gate.leave(request.size_bytes)
        if self._closing and not self._open:
            self._idle.set()
        request.reply(answer)

    async def run(self) -> None:
        """Cuts, stores and sequences until ``close``; raises what makes that impossible (Corrupt, Bug, an armed fault)."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._tasks.create_task(self._cut_all(), name="log-cut")
                self._tasks.create_task(self._sequence_all(), name="log-sequence")
        finally:
            self._closing = True
            self._abandon()

    async def close(self) -> None:
        """Takes no more runs and waits until those taken are answered; then ``run`` returns."""
        self._closing = True
        self._work.set()
        self._news.set()
        if self._open:
            await self._idle.wait()

    async def _cut_all(self) -> None:
        while not (self._closing and not self._buffer):
            await self._until_due()
            if not self._buffer:
                continue
            flush = self._cut()
            if not flush.data:
                continue
            self._slots -= 1
            self._queue.append(flush)
            flush.stored = self._spawn(flush)
        self._news.set()

    async def _until_due(self) -> None:
        """Until there is something to cut, a slot to do it, and the interval is over or the flush is full (R13)."""
        while True:
            self._work.clear()
            wait_ms = self._last_cut_ms + self._policy.interval_ms - self._deps.clock.monotonic_ms()
            due = wait_ms <= 0 or self._buffered_bytes >= self._policy.bytes_max or self._closing
            if (self._buffer and self._slots > 0 and due) or (self._closing and not self._buffer):
                return
            if self._buffer and self._slots > 0:
                await _wait(self._work, wait_ms)
            else:
                await self._work.wait()

    def _cut(self) -> Flush:
        requests: list[Request] = []
        size = batches = 0
        while self._buffer:
            request = self._buffer[0]
            count = sum(len(part.run.batches) for part in request.parts)
            if requests and (size + request.size_bytes > self._policy.bytes_max or batches + count > BATCHES_MAX):
                break
            requests.append(self._buffer.popleft())
            size += request.size_bytes
            batches += count
        self._buffered_bytes -= size
        self._last_cut_ms = self._deps.clock.monotonic_ms()
        now_ms = self._deps.clock.now_ms()
        return gather(requests, ulid=self._new_ulid(), created_ms=now_ms, shards=len(self._deps.index.state.shards))

    def _new_ulid(self, floor_ms: int = 0) -> str:
        """Above every one before and, so that a slow clock cannot hold us below it for ever, above the horizon (R01)."""
        return self._ulids.next(max(self._deps.clock.now_ms(), self._sequencer.horizon_ms + 1, floor_ms + 1))

    def _spawn(self, flush: Flush) -> asyncio.Task[None]:
        if self._tasks is None:
            raise Bug("a flush was cut while the appender does not run")
        task = self._tasks.create_task(self._store(flush), name=f"log-store-{flush.ulid}")
        task.add_done_callback(lambda _: self._news.set())
        return task

    async def _store(self, flush: Flush) -> None:
        try:
            await self._put(flush)
        except BundleLost as error:
            flush.why_failed = str(error)

    async def _put(self, flush: Flush) -> None:
        """Stores the bundle; raises BundleLost when that is given up. Deadline and retries are ours (R25)."""
        self._deps.faults.reach("B1")
        unknown = False
        for tried in range(self._policy.put_tries):
            key = bundle_key(flush.ulid)
            try:
                async with asyncio.timeout(self._policy.put_deadline_ms / 1000):
                    flush.ulid = await hedged(self.puts, self._deps.clock, lambda number: self._send(flush, number))
                    break
            except Conflict:
                if unknown and await self._is_ours(key, flush):
                    break
                flush.ulid = self._new_ulid()
                unknown = False
            except (OutcomeUnknown, TimeoutError) as error:
                unknown = True
                await self._before_retry(tried, error)
            except RetryLater as error:
                await self._before_retry(tried, error)
            except Refused as error:
                raise BundleLost(f"the object store refuses the bundle: {error}") from error
        else:
            raise BundleLost(f"the bundle could not be stored in {self._policy.put_tries} tries")
        if self._deps.cache is not None:
            self._deps.cache.keep(bundle_key(flush.ulid), flush.data)

    async def _send(self, flush: Flush, number: int) -> str:
        """Puts the bundle and returns its id. A second PUT, when the first is slow, has an id of its own, so the two never meet.

        What the loser may leave behind is a bundle that nobody committed; the collector removes such.
        """
        ulid = flush.ulid if number == 0 else self._new_ulid()
        await self._deps.objects.put_if_absent(bundle_key(ulid), flush.data)
        return ulid

    async def _before_retry(self, tried: int, error: Exception) -> None:
        if tried + 1 < self._policy.put_tries:
            await pause(error.after_ms if isinstance(error, RetryLater) else 1, self._deps.chance)

    async def _is_ours(self, key: str, flush: Flush) -> bool:
        """After a lost answer: is the object that is there the one we sent?"""
        try:
            return await self._deps.objects.get(key) == flush.data
        except (RetryLater, Missing):
            return False  # a new ULID is always right; this bundle is then an orphan

    async def _replace(self, flush: Flush, floor_ms: int) -> None:
        """R01: the horizon has passed the bundle; the same bytes go to a new place."""
        flush.ulid = self._new_ulid(floor_ms)
        await self._put(flush)

    async def _sequence_all(self) -> None:
        while True:
            ready = self._deciding = self._take_ready()
            if ready:
                await self._decide(ready)
            elif self._closing and not self._queue and not self._buffer:
                return
            else:
                self._news.clear()
                await self._news.wait()

    def _take_ready(self) -> list[Flush]:
        """The stored flushes at the front of the queue: nothing overtakes an undecided one (R03). A failed one comes alone."""
        ready: list[Flush] = []
        while self._queue:
            flush = self._queue[0]
            if flush.stored is None or not flush.stored.done() or (ready and flush.why_failed):
                break
            ready.append(self._queue.popleft())
            if flush.why_failed:
                break
        return ready

    async def _decide(self, ready: list[Flush]) -> None:
        if ready[0].why_failed:
            suspects = self._sequencer.give_up(ready, ready[0].why_failed)
        else:
            self._deps.faults.reach("B3")
            suspects = await self._sequencer.decide(ready)
        if suspects:
            self._fail_followers(suspects)
        self._expire_producers()
        self._deciding = []
        self._slots += len(ready)
        self._work.set()

    def _expire_producers(self) -> None:
        now_ms = self._deps.clock.now_ms()
        if now_ms - self._expired_ms >= EXPIRE_EVERY_MS:
            self._deps.index.state.expire_producers(now_ms - EXPIRY_MS)
            self._sequencer.forget_failures(now_ms - EXPIRE_EVERY_MS)
            self._expired_ms = now_ms

    def _fail_followers(self, suspects: Suspects) -> None:
        """R03: what waits behind a failed run of the same producer fails with it, retriably."""
        parts = [part for flush in self._queue for request in flush.requests for part in request.parts]
        parts += [part for request in self._buffer for part in request.parts]
        drop_suspects(parts, suspects, "an earlier run of this producer failed")

    def _abandon(self) -> None:
        """The end, by close or by force: callers without an answer learn that they get none."""
        for request in self._unanswered():
            request.abandon(OutcomeUnknown("the appender stopped before the run was decided"))
        self._buffer.clear()

    def _unanswered(self) -> list[Request]:
        waiting = [request for flush in (*self._deciding, *self._queue) for request in flush.requests]
        return [request for request in (*waiting, *self._buffer) if request.left]


def _fulfil(future: asyncio.Future[tuple[Outcome, ...]], answer: Answer) -> None:
    if future.done():  # the caller is gone
        return
    if isinstance(answer, OutcomeUnknown):
        future.set_exception(answer)
        future.exception()  # seen: the caller may be gone
    else:
        future.set_result(answer)


async def _wait(event: asyncio.Event, timeout_ms: float) -> None:
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await event.wait()
    except TimeoutError:
        return
