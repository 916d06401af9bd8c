"""Waiting before a retry."""

from __future__ import annotations

import asyncio

from frazil.kit.chance import Chance


async def pause(after_ms: float, chance: Chance) -> None:
    """Sleeps for half to one and a half times ``after_ms``, so that those who lost together do not come back together (R11)."""
    await asyncio.sleep(after_ms * (0.5 + chance.random()) / 1000)
