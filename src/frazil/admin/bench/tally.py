"""What producers and consumers of one run write down."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from frazil.admin.bench.cluster import Spot


@dataclass(slots=True)
class Tally:
    """Times are seconds of the loop's clock. Only what began at ``begin`` or later counts."""

    begin: float
    sent_records: int = 0
    """Begun inside the window: what ``records`` of a plan limits."""
    forgotten_records: int = 0
    """Sent with acks 0, those of the warm-up too."""
    acked_records: int = 0
    acked_at: float = 0.0
    latencies_s: array[float] = field(default_factory=lambda: array("d"))
    errors: int = 0
    first_error: str = ""
    begun: dict[tuple[Spot, int], float] = field(default_factory=dict)
    """By partition and base offset of each batch: when it was begun."""
    arrived: dict[tuple[Spot, int], float] = field(default_factory=dict)
    """The same key: when a consumer had it."""
    read_records: int = 0
    read_bytes: int = 0
    """As batches on the wire."""
    read_at: float = 0.0
    reached: dict[Spot, int] = field(default_factory=dict)
    """The next offset of each partition that is read."""

    def fail(self, why: str) -> None:
        """One batch more that was not taken."""
        self.errors += 1
        self.first_error = self.first_error or why

    def end_to_end_s(self) -> list[float]:
        """From begun to arrived, per batch of the window that was read."""
        return [self.arrived[key] - begun for key, begun in self.begun.items() if begun >= self.begin and key in self.arrived]
