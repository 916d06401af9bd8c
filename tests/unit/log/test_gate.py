"""The bound on unanswered bytes: holds, serves in order, survives cancellation."""

from __future__ import annotations

import asyncio
import random

import pytest
from tests.simulation.loop import run_virtual

from frazil.log.gate import Gate


def test_nobody_overtakes_one_who_was_let_in_but_has_not_run() -> None:
    async def main() -> None:
        gate, order = Gate(100), []

        async def pass_through(name: str, size: int) -> None:
            await gate.enter(size)
            order.append(name)

        await gate.enter(100)
        first = asyncio.ensure_future(pass_through("first", 50))
        await asyncio.sleep(0)
        gate.leave(100)  # first may enter now, but runs only in the next turn
        await pass_through("second", 50)
        await first
        assert order == ["first", "second"]

    run_virtual(main())


def test_larger_than_the_gate_passes_alone() -> None:
    async def main() -> None:
        gate = Gate(100)
        await gate.enter(1000)
        small = asyncio.ensure_future(gate.enter(1))
        await asyncio.sleep(1)
        assert not small.done()
        gate.leave(1000)
        await small
        assert gate.held_bytes == 1

    run_virtual(main())


@pytest.mark.parametrize("seed", range(20))
def test_bound_and_order_hold_under_cancellation(seed: int) -> None:
    async def main() -> None:
        rng = random.Random(seed)
        gate, entered = Gate(100), []

        async def visitor(number: int) -> None:
            size = rng.randrange(1, 60)
            await gate.enter(size)
            entered.append(number)
            assert gate.held_bytes <= 100
            try:
                await asyncio.sleep(rng.uniform(0, 1))
            finally:
                gate.leave(size)

        tasks = []
        for number in range(200):
            tasks.append(asyncio.ensure_future(visitor(number)))
            if rng.random() < 0.3:
                await asyncio.sleep(rng.uniform(0, 0.2))
            if rng.random() < 0.2:
                rng.choice(tasks).cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert gate.held_bytes == 0
        assert entered == sorted(entered)

    run_virtual(main())
