"""Each fault does what its word says, and one seed is one history."""

from __future__ import annotations

import asyncio
import random

import pytest
from tests.simulation.loop import run_virtual

from frazil.kit.clock import LoopClock
from frazil.kit.delays import Delay
from frazil.kit.errors import Conflict, Missing, OutcomeUnknown, RetryLater
from frazil.objects.faulty import FaultyObjects, ObjectFault, ObjectFaults
from frazil.objects.stores.memory import MemoryBucket, MemoryObjects


def pair(plan: ObjectFaults | None = None, seed: int = 1) -> tuple[FaultyObjects, MemoryObjects]:
    below = MemoryObjects(MemoryBucket(), LoopClock())
    return FaultyObjects(below, random.Random(seed), plan or ObjectFaults()), below


async def exists(store: MemoryObjects, key: str) -> bool:
    try:
        await store.get(key)
    except Missing:
        return False
    return True


@pytest.mark.parametrize(
    ("fault", "error", "stored"),
    [
        (ObjectFault.S_503, RetryLater, False),
        (ObjectFault.S_412, Conflict, False),
        (ObjectFault.S_CUT_N, OutcomeUnknown, False),
        (ObjectFault.S_CUT_A, OutcomeUnknown, True),
        (ObjectFault.S_LATE, OutcomeUnknown, False),
    ],
)
def test_f87_faults_of_put(fault: ObjectFault, error: type[Exception], stored: bool) -> None:
    async def main() -> None:
        store, below = pair()
        store.force("put", fault)
        with pytest.raises(error) as caught:
            await store.put_if_absent("a", [b"01", b"23"])
        assert type(caught.value) is error
        assert await exists(below, "a") is stored
        await store.late_puts()
        assert await exists(below, "a") is (stored or fault is ObjectFault.S_LATE)
        await store.put_if_absent("b", b"")  # only the one call

    run_virtual(main())


def test_short_put_is_answered_with_success() -> None:
    async def main() -> None:
        store, below = pair()
        store.force("put", ObjectFault.S_SHORT)
        await store.put_if_absent("a", [b"01", b"23"])
        assert await below.get("a") == b"01"

    run_virtual(main())


def test_faults_of_the_other_verbs() -> None:
    async def main() -> None:
        store, below = pair()
        await below.put_if_absent("a", b"x")
        store.force("get", ObjectFault.S_404, ObjectFault.S_503, None)
        with pytest.raises(Missing):
            await store.get("a")
        with pytest.raises(RetryLater):
            await store.get("a")
        assert await store.get("a") == b"x"
        store.force("list", ObjectFault.S_503)
        with pytest.raises(RetryLater):
            await anext(store.list(""))
        store.force("delete", ObjectFault.S_CUT_N, ObjectFault.S_CUT_A)
        with pytest.raises(OutcomeUnknown):
            await store.delete(["a"])
        assert await exists(below, "a")
        with pytest.raises(OutcomeUnknown):
            await store.delete(["a"])
        assert not await exists(below, "a")

    run_virtual(main())


def test_latency_has_the_median_and_the_tail_it_was_given() -> None:
    async def main() -> None:
        store, _ = pair(ObjectFaults(put_delay=Delay(p50_ms=40, p99_ms=400)))
        loop = asyncio.get_running_loop()
        took = []
        for n in range(2000):
            start = loop.time()
            await store.put_if_absent(f"{n}", b"")
            took.append((loop.time() - start) * 1000)
        took.sort()
        assert 36 < took[1000] < 44
        assert 300 < took[1980] < 520

    run_virtual(main())


def test_one_seed_is_one_history() -> None:
    async def history(seed: int) -> list[str]:
        store, _ = pair(ObjectFaults(put_delay=Delay(p50_ms=5, p99_ms=50), s_503=0.2, s_cut_a=0.2, s_412=0.2, s_late=0.2), seed)
        events = []
        for n in range(50):
            try:
                await store.put_if_absent(f"{n}", b"")
                events.append("ok")
            except Exception as error:
                events.append(type(error).__name__)
            events.append(f"{asyncio.get_running_loop().time():.6f}")
        return events

    assert run_virtual(history(3)) == run_virtual(history(3))
    assert run_virtual(history(3)) != run_virtual(history(4))
