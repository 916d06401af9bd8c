"""ByteShares: the bound holds, the line is fair, nothing is lost by a cancellation at any moment."""

from __future__ import annotations

import asyncio

from frazil.kit.shares import ByteShares


def test_shares_up_to_the_bound_are_given_at_once_and_more_waits() -> None:
    async def run() -> None:
        memory = ByteShares(100)
        order: list[str] = []

        async def hold(name: str, size: int, gate: asyncio.Event) -> None:
            async with memory.share(size):
                order.append(name)
                assert memory.held_bytes <= 100
                await gate.wait()

        gates = [asyncio.Event() for _ in range(4)]
        tasks = [asyncio.ensure_future(hold(name, size, gate)) for name, size, gate in zip("abcd", (60, 40, 90, 5), gates, strict=True)]
        await asyncio.sleep(0)
        assert order == ["a", "b"]
        gates[1].set()
        await asyncio.sleep(0.001)
        assert order == ["a", "b"], "the small one must not overtake the large one for ever"
        gates[0].set()
        await asyncio.sleep(0.001)
        assert order == ["a", "b", "c", "d"]
        for gate in gates:
            gate.set()
        await asyncio.gather(*tasks)
        assert memory.held_bytes == 0

    asyncio.run(run())


def test_a_share_larger_than_the_bound_takes_all_of_it() -> None:
    async def run() -> None:
        memory = ByteShares(10)
        async with memory.share(1_000):
            assert memory.held_bytes == 10
        assert memory.held_bytes == 0

    asyncio.run(run())


def test_a_cancelled_waiter_gives_its_place_and_its_share_back() -> None:
    async def run() -> None:
        memory = ByteShares(10)

        async def hold() -> None:
            async with memory.share(10):
                await asyncio.sleep(0)

        async with memory.share(10):
            first, second = asyncio.ensure_future(hold()), asyncio.ensure_future(hold())
            await asyncio.sleep(0)
            first.cancel()
            await asyncio.sleep(0)
        second.cancel()  # its share was given in this very turn
        await asyncio.gather(first, second, return_exceptions=True)
        assert memory.held_bytes == 0
        await hold()

    asyncio.run(run())
