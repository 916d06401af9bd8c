"""Every metadata back-end, as a way to open several handles ("processes") on one fresh store."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Callable
from dataclasses import dataclass

from frazil.kit.clock import Clock
from frazil.kit.delays import Delay
from frazil.kit.tasks import InlineOffload
from frazil.metadata.faulty import NO_FAULTS, FaultyMetadata, MetadataFaults
from frazil.metadata.port import MetadataStore
from frazil.metadata.stores.memory import MemoryMetadata, MemoryState
from frazil.metadata.stores.sqlite import SqliteMetadata

Opener = Callable[[], MetadataStore]

WEATHER = MetadataFaults(
    range_delay=Delay(p50_ms=1, p99_ms=20),
    commit_delay=Delay(p50_ms=2, p99_ms=50),
    unavailable=0.05,
    lost_applied=0.15,
    lost_unapplied=0.1,
    lost_late=0.1,
    late_ms=40,
    hint_dropped=0.5,
    hint_doubled=0.2,
    hint_late=0.2,
    hint_late_ms=300,
)


@dataclass(frozen=True)
class Backend:
    name: str
    opener: Callable[[pathlib.Path, Clock], Opener]
    virtual: bool
    """May run on the loop with virtual time."""

    def __str__(self) -> str:
        return self.name


def memory(directory: pathlib.Path, clock: Clock) -> Opener:
    state = MemoryState()
    return lambda: MemoryMetadata(state, clock)


def sqlite(directory: pathlib.Path, clock: Clock) -> Opener:
    return lambda: SqliteMetadata(directory / "metadata.db", clock)


def sqlite_inline(directory: pathlib.Path, clock: Clock) -> Opener:
    return lambda: SqliteMetadata(directory / "metadata.db", clock, offload=InlineOffload())


def faulty(below: Callable[[pathlib.Path, Clock], Opener], plan: MetadataFaults) -> Callable[[pathlib.Path, Clock], Opener]:
    def opener(directory: pathlib.Path, clock: Clock) -> Opener:
        open_below = below(directory, clock)
        chance = random.Random(20240607)
        return lambda: FaultyMetadata(open_below(), chance, plan)

    return opener


CALM = (
    Backend("memory", memory, True),
    Backend("sqlite", sqlite, False),
    Backend("faulty-memory-without-faults", faulty(memory, NO_FAULTS), True),
    Backend("faulty-sqlite-without-faults", faulty(sqlite, NO_FAULTS), False),
)
ALL = (
    *CALM,
    Backend("faulty-memory", faulty(memory, WEATHER), True),
    Backend("faulty-sqlite", faulty(sqlite_inline, WEATHER), True),
)
