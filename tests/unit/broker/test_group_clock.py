"""A group timer whose remainder is below what the clock can tell must not stop the world (virtual time moves only by waiting)."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.broker.harness import Stage, play


def test_a_remainder_of_rounding_is_waited_for() -> None:
    async def scene(on: Stage) -> None:
        groups: Any = on.parts.broker._groups
        loop = asyncio.get_running_loop()
        await asyncio.sleep(100.1)
        groups._timers.append((groups._now_ms() + 1.5e-11, 0, "nobody"))
        groups._wake.set()
        began = loop.time()
        await asyncio.sleep(1)
        assert not groups._timers
        assert loop.time() - began == 1

    play(scene)
