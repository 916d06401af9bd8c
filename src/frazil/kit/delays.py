"""What the faulty wrappers of the ports share: latency as a distribution, and the choice among faults."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from frazil.kit.chance import Chance

T = TypeVar("T")

_P99_DEVIATIONS = 2.3263478740408408  # the 99th percentile of a normal distribution, in standard deviations


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """A log-normal latency given by its median and its 99th percentile, in milliseconds."""

    p50_ms: float
    p99_ms: float

    def draw_ms(self, chance: Chance) -> float:
        """One latency."""
        if self.p50_ms <= 0:
            return 0.0
        sigma = max(0.0, math.log(self.p99_ms / self.p50_ms)) / _P99_DEVIATIONS
        return chance.lognormvariate(math.log(self.p50_ms), sigma)


NO_DELAY = Delay(p50_ms=0.0, p99_ms=0.0)


def pick(chance: Chance, odds: Sequence[tuple[T, float]]) -> T | None:
    """One of the faults with its probability, or None; takes exactly one number from ``chance``."""
    drawn = chance.random()
    for fault, probability in odds:
        if drawn < probability:
            return fault
        drawn -= probability
    return None
