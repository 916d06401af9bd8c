"""An object store with seeded latency and faults over any other: a model of S3 on a bad day.

It works under virtual time and takes every decision from its ``chance``, so one seed is one history.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from frazil.kit.chance import Chance
from frazil.kit.delays import NO_DELAY, Delay, pick
from frazil.kit.errors import Conflict, FrazilError, Missing, OutcomeUnknown, RetryLater
from frazil.kit.tasks import spawn
from frazil.objects.keys import Data, buffers
from frazil.objects.port import ObjectInfo, ObjectStore


class ObjectFault(StrEnum):
    """What can happen to a call, in the words of docs/proof.md."""

    S_503 = "S-503"
    """Any verb: RetryLater, nothing done."""
    S_404 = "S-404"
    """get: Missing, though the object is there."""
    S_412 = "S-412"
    """put: Conflict, though the object is new; nothing stored."""
    S_CUT_N = "S-cut/n"
    """put, delete: OutcomeUnknown, not applied."""
    S_CUT_A = "S-cut/a"
    """put, delete: OutcomeUnknown, applied."""
    S_LATE = "S-late"
    """put: OutcomeUnknown, applied only some time later."""
    S_SHORT = "S-short"
    """put: success is answered, but only the first half of the bytes is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectFaults:
    """The plan: latencies per verb, and the probability of each fault."""

    put_delay: Delay = NO_DELAY
    get_delay: Delay = NO_DELAY
    list_delay: Delay = NO_DELAY
    delete_delay: Delay = NO_DELAY
    bytes_per_s: float = 0.0
    """What all transfers together may take of the link, one after the other; 0: no limit."""
    connection_bytes_per_s: float = 0.0
    """What one transfer may take; 0: no limit."""
    s_503: float = 0.0
    s_404: float = 0.0
    s_412: float = 0.0
    s_cut_n: float = 0.0
    s_cut_a: float = 0.0
    s_late: float = 0.0
    late_ms: float = 5000.0
    s_short: float = 0.0


NO_FAULTS = ObjectFaults()
S3_STANDARD = ObjectFaults(
    put_delay=Delay(p50_ms=60, p99_ms=300),
    get_delay=Delay(p50_ms=30, p99_ms=150),
    list_delay=Delay(p50_ms=30, p99_ms=150),
    delete_delay=Delay(p50_ms=30, p99_ms=150),
)
"""S3 Standard in one region as clients see it: time to first byte; the transfer comes on top."""


class FaultyObjects(ObjectStore):
    """``store`` with the faults of ``plan``; the plan may be replaced at any time."""

    def __init__(self, store: ObjectStore, chance: Chance, plan: ObjectFaults = NO_FAULTS) -> None:
        self.plan = plan
        self._store = store
        self._chance = chance
        self._forced: defaultdict[str, deque[ObjectFault | None]] = defaultdict(deque)
        self._late: set[asyncio.Task[None]] = set()
        self._link_free_s = 0.0

    def force(self, verb: str, *faults: ObjectFault | None) -> None:
        """The next calls of ``verb`` (put, get, list, delete) get these faults, one each (None: none), whatever the plan says."""
        self._forced[verb].extend(faults)

    async def late_puts(self) -> None:
        """Waits until every late put has been tried."""
        while self._late:
            await asyncio.gather(*self._late)

    def uri(self, key: str) -> str:
        """The address of the store below."""
        return self._store.uri(key)

    async def put_if_absent(self, key: str, data: Data) -> None:
        """See ``ObjectStore.put_if_absent``."""
        plan = self.plan
        odds = (
            (ObjectFault.S_503, plan.s_503),
            (ObjectFault.S_412, plan.s_412),
            (ObjectFault.S_CUT_N, plan.s_cut_n),
            (ObjectFault.S_CUT_A, plan.s_cut_a),
            (ObjectFault.S_LATE, plan.s_late),
            (ObjectFault.S_SHORT, plan.s_short),
        )
        delay_ms = plan.put_delay.draw_ms(self._chance)
        fault = self._fault("put", odds)
        await _sleep(delay_ms / 2)
        await self._transfer(sum(len(view) for view in buffers(data)))
        self._refuse(fault, key)
        if fault is ObjectFault.S_412:
            raise Conflict(f"injected: object {key} exists")
        if fault is ObjectFault.S_LATE:
            task = spawn("late-put", self._put_late(key, b"".join(buffers(data))))
            self._late.add(task)
            task.add_done_callback(self._late.discard)
            raise OutcomeUnknown(f"injected: put {key} gave no answer")
        if fault is ObjectFault.S_SHORT:
            whole = b"".join(buffers(data))
            data = whole[: len(whole) // 2]
        await self._store.put_if_absent(key, data)
        await _sleep(delay_ms / 2)
        if fault is ObjectFault.S_CUT_A:
            raise OutcomeUnknown(f"injected: the answer to put {key} was lost")

    async def get(self, key: str, *, start: int = 0, end: int | None = None) -> bytes:
        """See ``ObjectStore.get``."""
        plan = self.plan
        delay_ms = plan.get_delay.draw_ms(self._chance)
        fault = self._fault("get", ((ObjectFault.S_503, plan.s_503), (ObjectFault.S_404, plan.s_404)))
        await _sleep(delay_ms / 2)
        self._refuse(fault, key)
        if fault is ObjectFault.S_404:
            raise Missing(f"injected: no object {key}")
        data = await self._store.get(key, start=start, end=end)
        await _sleep(delay_ms / 2)
        await self._transfer(len(data))
        return data

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        """See ``ObjectStore.list``; latency and fault come before the first object."""
        await _sleep(self.plan.list_delay.draw_ms(self._chance))
        self._refuse(self._fault("list", ((ObjectFault.S_503, self.plan.s_503),)), prefix)
        async for info in self._store.list(prefix):
            yield info

    async def delete(self, keys: Sequence[str]) -> None:
        """See ``ObjectStore.delete``."""
        plan = self.plan
        odds = ((ObjectFault.S_503, plan.s_503), (ObjectFault.S_CUT_N, plan.s_cut_n), (ObjectFault.S_CUT_A, plan.s_cut_a))
        delay_ms = plan.delete_delay.draw_ms(self._chance)
        fault = self._fault("delete", odds)
        await _sleep(delay_ms)
        self._refuse(fault, f"{len(keys)} keys")
        await self._store.delete(keys)
        if fault is ObjectFault.S_CUT_A:
            raise OutcomeUnknown(f"injected: the answer to delete of {len(keys)} keys was lost")

    async def _transfer(self, size: int) -> None:
        """The time that ``size`` bytes take on the link; transfers queue for it in the order they came."""
        plan, now_s = self.plan, asyncio.get_running_loop().time()
        done_s = now_s
        if plan.bytes_per_s > 0:
            done_s = self._link_free_s = max(now_s, self._link_free_s) + size / plan.bytes_per_s
        if plan.connection_bytes_per_s > 0:
            done_s = max(done_s, now_s + size / plan.connection_bytes_per_s)
        await _sleep((done_s - now_s) * 1000)

    def _fault(self, verb: str, odds: Sequence[tuple[ObjectFault, float]]) -> ObjectFault | None:
        drawn = pick(self._chance, odds)
        forced = self._forced[verb]
        return forced.popleft() if forced else drawn

    def _refuse(self, fault: ObjectFault | None, what: str) -> None:
        if fault is ObjectFault.S_503:
            raise RetryLater(f"injected: 503 for {what}", after_ms=50)
        if fault is ObjectFault.S_CUT_N:
            raise OutcomeUnknown(f"injected: no answer for {what}")

    async def _put_late(self, key: str, data: bytes) -> None:
        await _sleep(self.plan.late_ms)
        try:
            await self._store.put_if_absent(key, data)
        except FrazilError:
            return  # its caller has been told that it may not happen


async def _sleep(delay_ms: float) -> None:
    if delay_ms > 0:
        await asyncio.sleep(delay_ms / 1000)
