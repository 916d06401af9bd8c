"""Chance as a port: seeded in tests, from the system in production. Also ULIDs, which need time and chance."""

from __future__ import annotations

import random
from typing import Protocol

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class Chance(Protocol):
    """Where product code takes random numbers from. ``random.Random`` fits."""

    def random(self) -> float:
        """Uniform in [0, 1)."""
        ...

    def getrandbits(self, k: int, /) -> int:
        """A uniform integer of ``k`` bits."""
        ...

    def lognormvariate(self, mu: float, sigma: float) -> float:
        """A log-normal deviate."""
        ...


def system_chance() -> Chance:
    """Chance from the operating system."""
    return random.SystemRandom()


def seeded_chance(seed: int) -> Chance:
    """Chance that is the same for the same seed: for models and measurements."""
    return random.Random(seed)


class UlidSource:
    """Makes ULIDs (26 Crockford characters) that strictly increase within one process."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._last = 0

    def next(self, now_ms: int) -> str:
        """A ULID at ``now_ms``, above every one made before by this source."""
        value = ((now_ms & ((1 << 48) - 1)) << 80) | self._chance.getrandbits(80)
        if value <= self._last:
            value = self._last + 1
        self._last = value
        return ulid_text(value)


def ulid_text(value: int) -> str:
    """128-bit integer → 26 characters, order kept."""
    return "".join(_CROCKFORD[(value >> shift) & 31] for shift in range(125, -1, -5))


def ulid_at(time_ms: int) -> str:
    """The lowest ULID of a millisecond; everything made before ``time_ms`` is below it."""
    return ulid_text((time_ms & ((1 << 48) - 1)) << 80)
