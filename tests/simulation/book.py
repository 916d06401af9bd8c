"""What clients sent, what they were told, and what they saw. Contradictions among these are violations on the spot."""

from __future__ import annotations

from dataclasses import dataclass, field

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(slots=True)
class Sent:
    """One record a producer wants in the log. ``value`` is unlike every other."""

    value: bytes
    place: Place
    attempts: int = 0
    offsets: set[int] = field(default_factory=set)
    """Where acknowledgements said it is."""
    acked: bool = False
    idempotent: bool = False


@dataclass(frozen=True, slots=True)
class Accepted:
    """An acknowledged batch: on which of the lane's connections, and where."""

    connection: int
    base: int
    values: list[bytes]


@dataclass(frozen=True, slots=True)
class Order:
    """What one producer got into one partition, in the order it was sent."""

    lane: str
    place: Place
    idempotent: bool
    taken: list[list[bytes]]
    """Every batch, in the order the producer was given them."""
    accepted: list[Accepted]


class Book:
    """One per world."""

    def __init__(self) -> None:
        self.sent: dict[bytes, Sent] = {}
        self.at: dict[Place, dict[int, bytes]] = {}
        """Every offset whose value anybody knows."""
        self.times: dict[Place, dict[int, int]] = {}
        """Timestamps by offset, of records that were read."""
        self.acked_end: dict[Place, int] = {}
        self.seen_end: dict[Place, int] = {}
        self.told_start: dict[Place, int] = {}
        """The highest log start anybody was told."""
        self.out_of_range: list[tuple[Place, int, int, str]] = []
        """(place, offset asked for, start told, who): judged when the final start is known."""
        self.orders: list[Order] = []
        self.violations: list[str] = []
        self.acked_records = 0
        self.seen_records = 0

    def fail(self, what: str) -> None:
        """A promise is broken."""
        self.violations.append(what)

    def know(self, place: Place, offset: int, value: bytes, who: str) -> None:
        """``value`` is at ``offset``, says ``who``: nobody may ever say otherwise."""
        log = self.at.setdefault(place, {})
        known = log.setdefault(offset, value)
        if known != value:
            self.fail(f"{who}: {place} offset {offset} is {value!r}, but it was {known!r} before")

    def ack(self, place: Place, base: int, values: list[bytes], who: str) -> None:
        """The broker says that the batch is in the log from ``base`` on; -1: somewhere (a duplicate too old to be placed)."""
        for at, value in enumerate(values):
            sent = self.sent[value]
            sent.acked = True
            if base >= 0:
                sent.offsets.add(base + at)
                self.know(place, base + at, value, f"ack to {who}")
        self.acked_records += len(values)
        if base >= 0:
            self.times: dict[Place, dict[int, int]] = {}
        """Timestamps by offset, of records that were read."""
        self.acked_end[place] = max(self.acked_end.get(place, 0), base + len(values))

    def see(self, place: Place, offset: int, value: bytes, at_ms: int, who: str) -> None:
        """A consumer read a record."""
        self.times.setdefault(place, {})[offset] = at_ms
        if value not in self.sent:
            self.fail(f"{who}: {place} offset {offset} holds {value!r}, which nobody sent")
        self.know(place, offset, value, who)
        self.seen_records += 1
        self.seen_end[place] = max(self.seen_end.get(place, 0), offset + 1)
