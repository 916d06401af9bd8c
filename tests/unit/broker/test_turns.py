"""Order on one connection (R03): nobody overtakes who stands in line, not even between a release and the next turn."""

from __future__ import annotations

import asyncio

from frazil.broker.turns import Turns


def test_r03_a_newcomer_never_overtakes_the_line() -> None:
    async def main() -> list[str]:
        turns = Turns()
        order: list[str] = []
        opened = asyncio.Event()

        async def pass_through(name: str) -> None:
            if name == "first" or turns.busy:
                async with turns:
                    if name == "first":
                        await opened.wait()
            order.append(name)

        tasks = [asyncio.create_task(pass_through(name)) for name in ("first", "second", "third")]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        opened.set()
        tasks += [asyncio.create_task(pass_through(name)) for name in ("fourth", "fifth")]
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(pass_through("sixth")))
        await asyncio.gather(*tasks)
        assert not turns.busy
        return order

    assert asyncio.run(main()) == ["first", "second", "third", "fourth", "fifth", "sixth"]
