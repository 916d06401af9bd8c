"""A second request when the first is slow: when, how many, and who wins."""

from __future__ import annotations

import asyncio

import pytest
from tests.simulation.loop import run_virtual

from frazil.kit.clock import LoopClock
from frazil.kit.hedge import Hedge, hedged


def warm(hedge: Hedge, *, each_ms: float = 10.0, count: int = 100) -> None:
    for n in range(count):
        hedge.note(each_ms * 10 if n % 25 == 0 else each_ms)


def test_nothing_is_sent_twice_before_the_usual_time_is_known() -> None:
    hedge = Hedge()
    for _ in range(31):
        assert hedge.wait_ms() is None
        hedge.note(10)
    hedge.note(10)
    assert hedge.wait_ms() == 11


def test_the_wait_is_the_95th_percentile_of_the_last_256() -> None:
    hedge = Hedge()
    warm(hedge, each_ms=1000, count=256)
    warm(hedge, each_ms=10, count=256)
    assert hedge.wait_ms() == 11  # 4 % take 100 ms; what was long ago is forgotten


def test_r25_at_most_a_twentieth_is_sent_twice() -> None:
    async def main() -> None:
        hedge, clock = Hedge(share=0.05), LoopClock()
        warm(hedge)
        sent = 0

        async def always_slow(number: int) -> int:
            nonlocal sent
            sent += 1
            await asyncio.sleep(0.5)
            return number

        for _ in range(1000):
            await hedged(hedge, clock, always_slow)
            if hedge.wait_ms() != 11:
                hedge._took_ms[:] = [10.0] * 256  # as if only now it had become slow
                hedge._wait_ms = 11.0
        assert 1000 < sent <= 1000 + 50 + 4

    run_virtual(main())


def test_the_faster_counts_and_the_other_is_cancelled() -> None:
    async def main() -> None:
        hedge, clock = Hedge(), LoopClock()
        warm(hedge)
        ended: list[str] = []

        async def attempt(number: int) -> int:
            try:
                await asyncio.sleep(5 if number == 0 else 0.02)
            except asyncio.CancelledError:
                ended.append(f"cancelled {number}")
                raise
            return number

        started = clock.monotonic_ms()
        assert await hedged(hedge, clock, attempt) == 1
        assert clock.monotonic_ms() - started == pytest.approx(31)
        assert ended == ["cancelled 0"]
        assert (hedge.hedged, hedge.won) == (1, 1)

    run_virtual(main())


def test_a_failed_attempt_leaves_the_other_running_and_two_failures_raise_the_first() -> None:
    async def main() -> None:
        hedge, clock = Hedge(), LoopClock()
        warm(hedge)

        async def first_fails(number: int) -> int:
            await asyncio.sleep(0.02 if number == 0 else 0.1)
            if number == 0:
                raise ValueError("first")
            return number

        async def both_fail(number: int) -> int:
            await asyncio.sleep(0.05)
            raise ValueError(str(number))

        async def at_once(number: int) -> int:
            raise KeyError(number)

        assert await hedged(hedge, clock, first_fails) == 1
        warm(hedge)
        with pytest.raises(ValueError, match="0"):
            await hedged(hedge, clock, both_fail)
        with pytest.raises(KeyError):
            await hedged(hedge, clock, at_once)

    run_virtual(main())


def test_cancelling_the_call_ends_both_attempts() -> None:
    async def main() -> None:
        hedge, clock = Hedge(), LoopClock()
        warm(hedge)
        running = 0

        async def attempt(number: int) -> int:
            nonlocal running
            running += 1
            try:
                await asyncio.sleep(60)
            finally:
                running -= 1
            return number

        task = asyncio.create_task(hedged(hedge, clock, attempt))
        await asyncio.sleep(1)
        assert running == 2
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert running == 0

    run_virtual(main())
