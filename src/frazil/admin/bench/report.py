"""What a run measured."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One side of a run; times in milliseconds, None when there is none."""

    name: str
    records: int
    bytes: int
    """Of the records' values; for consuming alone, of the batches as they are stored."""
    seconds: float
    p50_ms: float | None = None
    p99_ms: float | None = None
    p999_ms: float | None = None
    max_ms: float | None = None

    @property
    def records_per_s(self) -> float:
        """Records per second."""
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def mb_per_s(self) -> float:
        """Megabytes (10^6) per second."""
        return self.bytes / 1e6 / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchReport:
    """A run. ``errors`` are batches that were refused, ``missing`` records that were acknowledged and not read."""

    phases: tuple[Phase, ...]
    errors: int
    first_error: str
    missing: int


def phase(name: str, *, records: int, size: int, seconds: float, latencies_s: Sequence[float] = ()) -> Phase:
    """A phase with the quantiles of its latencies (one per batch; each batch has as many records as the others)."""
    ordered = array("d", sorted(latencies_s))
    if not ordered:
        return Phase(name=name, records=records, bytes=size, seconds=seconds)
    return Phase(
        name=name,
        records=records,
        bytes=size,
        seconds=seconds,
        p50_ms=quantile(ordered, 0.50) * 1000,
        p99_ms=quantile(ordered, 0.99) * 1000,
        p999_ms=quantile(ordered, 0.999) * 1000,
        max_ms=ordered[-1] * 1000,
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of the values do not exceed."""
    at = -(-share * len(ordered) // 1)
    return ordered[max(0, min(len(ordered) - 1, int(at) - 1))]
