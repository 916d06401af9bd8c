"""The shell around the group machines: time, waiting requests, claims, and what is stored when (R19, F80).

One lock per group; inside it one event runs through the machine, then what changed is stored under the claim, then the
replies leave. If the record turns out to belong to somebody else, the group is dropped and everybody waiting hears
NOT_COORDINATOR, which makes clients look for the new coordinator. Heartbeats store nothing.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from frazil.broker.cluster import LiveBrokers
from frazil.broker.counters import BrokerCounters
from frazil.broker.groups.claim import Claim, claim_group, store_record
from frazil.broker.groups.machine import GroupMachine
from frazil.broker.groups.offsets import write_offsets
from frazil.broker.groups.record import StoredOffset, record_of, restore
from frazil.broker.groups.values import (
    Answer,
    GroupLimits,
    GroupState,
    JoinAnswer,
    JoinRequest,
    Leaver,
    Step,
    SyncAnswer,
    SyncRequest,
    Waiter,
)
from frazil.kit.chance import Chance
from frazil.kit.clock import Clock
from frazil.kit.errors import Conflict, Refused, RetryLater
from frazil.kit.names import PartitionKey
from frazil.kit.tasks import spawn
from frazil.metadata.port import Check, MetadataStore
from frazil.wire.errors import ErrorCode

log = logging.getLogger(__name__)

_TICK_S = 1.0
_FORGET_MS = 300_000
"""An empty group nobody asks for leaves memory after this long; its record and offsets stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeps:
    """What coordination needs."""

    store: MetadataStore
    clock: Clock
    chance: Chance
    brokers: LiveBrokers
    counters: BrokerCounters
    limits: GroupLimits


@dataclass(slots=True, kw_only=True)
class Group:
    """One group in this broker's memory. ``machine`` is None until the record has been claimed."""

    name: str
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    claim: Claim | None = None
    machine: GroupMachine | None = None
    waiting: dict[Waiter, asyncio.Future[Answer]] = field(default_factory=dict)
    armed_ms: float | None = None
    """When the timer looks at this group next."""
    used_ms: float = 0.0


class NotHere(Exception):
    """This broker cannot answer for the group now; ``code`` is what the client hears."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


Answered = TypeVar("Answered")


class Groups:
    """All groups this broker coordinates."""

    def __init__(self, deps: GroupDeps) -> None:
        self._deps = deps
        self._clock = deps.clock
        self._groups: dict[str, Group] = {}
        self._waiters = 0
        self._timers: list[tuple[float, int, str]] = []
        self._timer_count = 0
        self._wake = asyncio.Event()
        self._expiries: dict[asyncio.Task[None], None] = {}
        self._seen = (0, 0)
        self._closed = False

    # ── requests ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def join(self, group: str, request: JoinRequest) -> JoinAnswer:
        """JoinGroup; returns when the rebalance is over."""
        try:
            held = await self._hold(group, create=not request.member_id)
        except NotHere as error:
            return JoinAnswer(error=error.code, member_id=request.member_id)
        new_id = f"{request.instance_id or request.client_id}-{self._deps.chance.getrandbits(128):032x}"
        waiter, future = self._waiter(held)
        try:
            if held.machine is None:
                return JoinAnswer(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=request.member_id)
            await self._finish(held, held.machine.join(request, waiter, new_id=new_id, now_ms=self._now_ms()))
        finally:
            held.lock.release()
        answer = await future
        if not isinstance(answer, JoinAnswer):
            return JoinAnswer(error=answer.error, member_id=request.member_id)
        return answer

    async def sync(self, group: str, request: SyncRequest) -> SyncAnswer:
        """SyncGroup; returns when the leader has assigned."""
        try:
            held = await self._hold(group)
        except NotHere as error:
            return SyncAnswer(error=error.code)
        waiter, future = self._waiter(held)
        try:
            if held.machine is None:
                return SyncAnswer(error=ErrorCode.UNKNOWN_MEMBER_ID)
            await self._finish(held, held.machine.sync(request, waiter, now_ms=self._now_ms()))
        finally:
            held.lock.release()
        answer = await future
        return answer if isinstance(answer, SyncAnswer) else SyncAnswer(error=answer.error)

    async def heartbeat(self, group: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Heartbeat."""
        try:
            held = await self._hold(group)
        except NotHere as error:
            return error.code
        try:
            if held.machine is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            return held.machine.heartbeat(member_id, instance_id, generation, now_ms=self._now_ms())
        finally:
            held.lock.release()

    async def leave(self, group: str, leavers: Sequence[Leaver]) -> ErrorCode | list[ErrorCode]:
        """LeaveGroup; a code for the whole request, or one per leaver."""
        try:
            held = await self._hold(group)
        except NotHere as error:
            return error.code
        try:
            if held.machine is None:
                return [ErrorCode.UNKNOWN_MEMBER_ID for _ in leavers]
            step, codes = held.machine.leave(leavers, now_ms=self._now_ms())
            await self._finish(held, step)
            return codes if held.machine is not None else ErrorCode.NOT_COORDINATOR
        finally:
            held.lock.release()

    async def commit(
        self, group: str, member: tuple[str, str | None, int], offsets: Mapping[PartitionKey, StoredOffset]
    ) -> ErrorCode:
        """OffsetCommit by ``member`` (member id, instance id, generation); all offsets are stored under the claim."""
        member_id, instance_id, generation = member
        try:
            held = await self._hold(group, create=generation < 0)
        except NotHere as error:
            return error.code
        try:
            if held.machine is None or held.claim is None:
                return ErrorCode.ILLEGAL_GENERATION
            error_code = held.machine.commit_error(member_id, instance_id, generation, now_ms=self._now_ms())
            if error_code is not ErrorCode.NONE or not offsets:
                return error_code
            if await write_offsets(self._deps.store, group, held.claim.guard(), offsets):
                return ErrorCode.NONE
            self._lose(held)
            return ErrorCode.NOT_COORDINATOR
        except RetryLater as error:
            log.warning("offsets of group %r not stored: %s", group, error)
            return ErrorCode.REQUEST_TIMED_OUT
        finally:
            held.lock.release()

    async def look(self, group: str, question: Callable[[GroupMachine, Check], Answered]) -> Answered | None:
        """``question`` about the group as it stands and the guard of its record; None when there is no such group. Raises NotHere."""
        held = await self._hold(group)
        try:
            return question(held.machine, held.claim.guard()) if held.machine is not None and held.claim is not None else None
        finally:
            held.lock.release()

    def coordinates(self, group: str) -> bool:
        """This broker answers for ``group`` now."""
        return not self._closed and self._deps.brokers.coordinates(group)

    def loaded(self, group: str) -> GroupMachine | None:
        """The group's machine if it is in memory."""
        held = self._groups.get(group)
        return held.machine if held is not None else None

    def emptied_ms(self, group: str) -> int:
        """Unix time since when the group in memory has no members; 0 while it has, or when it is not in memory."""
        held = self._groups.get(group)
        return held.claim.record.emptied_ms if held is not None and held.claim is not None else 0

    def forget(self, group: str) -> None:
        """Drops the group from memory: its record is gone."""
        held = self._groups.get(group)
        if held is not None:
            self._lose(held, ErrorCode.GROUP_ID_NOT_FOUND)

    # ── holding, storing, losing ────────────────────────────────────────────────────────────────────────────────────

    async def _hold(self, name: str, *, create: bool = False) -> Group:
        """The group with its lock held and its record claimed; ``machine`` is None when there is no such group. Raises NotHere."""
        if not name:
            raise NotHere(ErrorCode.INVALID_GROUP_ID)
        while True:
            self._check_coordination(name)
            held = self._groups.get(name)
            if held is None:
                held = self._groups[name] = Group(name=name)
            await held.lock.acquire()
            try:
                if self._groups.get(name) is not held:
                    held.lock.release()
                    continue
                self._check_coordination(name)
                held.used_ms = self._now_ms()
                if held.machine is None:
                    await self._load(held, create=create)
            except BaseException:
                held.lock.release()
                raise
            return held

    def _check_coordination(self, name: str) -> None:
        self._reconcile()
        try:
            ours = self._deps.brokers.coordinates(name)
        except RetryLater as error:
            raise NotHere(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error
        if self._closed or not ours:
            raise NotHere(ErrorCode.NOT_COORDINATOR)

    async def _load(self, held: Group, *, create: bool) -> None:
        deps = self._deps
        try:
            claim = await claim_group(
                deps.store, held.name, coordinator=deps.brokers.me.broker_id, create=create, now_ms=self._clock.now_ms()
            )
        except RetryLater as error:
            log.warning("group %r not claimed: %s", held.name, error)
            raise NotHere(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error
        if self._groups.get(held.name) is not held:
            raise NotHere(ErrorCode.NOT_COORDINATOR)  # the view changed while we claimed
        if claim is None:
            del self._groups[held.name]
            return
        held.claim = claim
        held.machine = restore(claim.record, deps.limits, now_ms=self._now_ms())
        self._arm(held)

    async def _finish(self, held: Group, step: Step) -> None:
        """Stores what must survive, then lets the replies go. The group's lock is held."""
        if step.persist and held.machine is not None and held.claim is not None:
            record = record_of(held.machine, held.claim.record, now_ms=self._clock.now_ms())
            try:
                held.claim = await store_record(self._deps.store, held.claim, record)
            except Conflict:
                self._deps.counters.group_records_lost += 1
                log.warning("group %r has been claimed by another broker", held.name)
                self._lose(held)
            except Refused as error:
                log.error("group %r cannot be stored: %s", held.name, error)
                self._lose(held, ErrorCode.GROUP_MAX_SIZE_REACHED)
            except RetryLater as error:
                log.warning("group %r not stored: %s", held.name, error)
                self._lose(held, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            except asyncio.CancelledError:
                self._lose(held)  # memory is ahead of the record now
                raise
        for reply in step.replies:
            future = held.waiting.pop(reply.waiter, None)
            if future is not None and not future.done():
                future.set_result(reply.answer)
        if held.machine is not None:
            self._arm(held)

    def _lose(self, held: Group, code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """Drops the group from memory; everybody who waits hears ``code``."""
        if self._groups.get(held.name) is held:
            del self._groups[held.name]
        held.machine = held.claim = None
        waiting, held.waiting = held.waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_result(JoinAnswer(error=code, member_id=""))

    def _reconcile(self) -> None:
        """After a change of the cluster: groups that are not ours any more are dropped; after a lapsed lease, all."""
        brokers = self._deps.brokers
        now = (brokers.changes, brokers.registrations)
        if now == self._seen:
            return
        lapsed = now[1] != self._seen[1]
        self._seen = now
        for held in list(self._groups.values()):
            if lapsed or not brokers.coordinates(held.name):
                self._lose(held)

    def _waiter(self, held: Group) -> tuple[Waiter, asyncio.Future[Answer]]:
        self._waiters += 1
        waiter = Waiter(self._waiters)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        held.waiting[waiter] = future
        return waiter, future

    # ── time ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _now_ms(self) -> float:
        return self._clock.monotonic_ms()

    def _arm(self, held: Group) -> None:
        deadline_ms = held.machine.next_deadline_ms() if held.machine is not None else None
        if deadline_ms is not None and (held.armed_ms is None or deadline_ms < held.armed_ms):
            held.armed_ms = deadline_ms
            self._timer_count += 1
            heapq.heappush(self._timers, (deadline_ms, self._timer_count, held.name))
            self._wake.set()

    async def run(self) -> None:
        """Task: lets sessions and rebalances end in time, and follows changes of the cluster."""
        while True:
            self._reconcile()
            self._fire()
            self._forget_idle()
            self._wake.clear()
            pause_s = _TICK_S
            if self._timers:
                pause_s = min(pause_s, max(0.0, (self._timers[0][0] - self._now_ms()) / 1000))
            try:
                async with asyncio.timeout(pause_s):  # wait_for of Python 3.11 can lose a cancellation
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _fire(self) -> None:
        now_ms = self._now_ms()
        while self._timers and self._timers[0][0] <= now_ms:
            deadline_ms, _, name = heapq.heappop(self._timers)
            held = self._groups.get(name)
            if held is not None and held.armed_ms == deadline_ms:
                held.armed_ms = None
                task = spawn(f"expire group {name}", self._expire(held))
                self._expiries[task] = None
                task.add_done_callback(self._expired)

    def _expired(self, task: asyncio.Task[None]) -> None:
        self._expiries.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            log.error("expiry of a group failed", exc_info=task.exception())

    async def _expire(self, held: Group) -> None:
        async with held.lock:
            if not self.coordinates(held.name):
                self._lose(held)  # members could not reach us, so their silence proves nothing
            if held.machine is not None:
                await self._finish(held, held.machine.expire(now_ms=self._now_ms()))

    def _forget_idle(self) -> None:
        old_ms = self._now_ms() - _FORGET_MS
        for held in list(self._groups.values()):
            machine = held.machine
            idle = machine is not None and machine.state is GroupState.EMPTY and not machine.pending
            if idle and held.used_ms < old_ms and not held.lock.locked():
                self._lose(held)

    async def close(self) -> None:
        """Everybody who waits is sent to another coordinator; no request is answered any more."""
        self._closed = True
        for held in list(self._groups.values()):
            self._lose(held)
        for task in list(self._expiries):
            task.cancel()
        await asyncio.gather(*self._expiries, return_exceptions=True)
