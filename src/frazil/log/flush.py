"""What waits to be appended: requests, their parts, and the flush that takes many of them into one bundle. No I/O."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple, TypeAlias

from frazil.kit.errors import OutcomeUnknown
from frazil.kit.names import PartitionKey, TopicId
from frazil.log.shards import topic_hash
from frazil.records import Batch
from frazil.segments.bundles import BundleRun, build_bundle


class FaultKind(Enum):
    """Why a run was not appended."""

    OUT_OF_ORDER_SEQUENCE = auto()
    INVALID_PRODUCER_EPOCH = auto()
    DUPLICATE_SEQUENCE = auto()
    """In the log, but so long ago that its offset is not remembered."""
    RETRY = auto()
    """Not appended; the same run may be sent again."""


class AppendRun(NamedTuple):
    """Batches of one partition from one request: ``batches`` are what ``split_batches(data)`` found.

    ``apart``: they come from several requests of one connection, in order, and each gets a verdict of its own.
    """

    key: PartitionKey
    data: bytes | bytearray | memoryview
    batches: Sequence[Batch]
    apart: bool = False


class Appended(NamedTuple):
    """The run is in the log from ``base_offset`` on. ``log_append_time_ms`` is -1 unless the broker stamped the batches."""

    base_offset: int
    log_start_offset: int
    log_append_time_ms: int


class AppendFault(NamedTuple):
    """The run is not in the log because of ``kind``."""

    kind: FaultKind
    why: str


class Apart(NamedTuple):
    """What became of each batch of a run whose batches are ``apart`` and were not all appended one after the other."""

    outcomes: tuple[Appended | AppendFault, ...]


Outcome: TypeAlias = Appended | AppendFault | Apart
Answer: TypeAlias = tuple[Outcome, ...] | OutcomeUnknown
"""Of one ``append`` call: outcomes in the order of its runs; OutcomeUnknown when the appender ended before they were decided."""
Suspects: TypeAlias = set[tuple[PartitionKey, int]]
"""(partition, producer id) whose later runs must not overtake a failed one (R03); -1 stands for all without an id."""


class Request:
    """One ``append`` call: as many parts as it has runs, one answer for all (R32)."""

    __slots__ = ("done", "left", "outcomes", "parts", "reply", "size_bytes")

    def __init__(
        self, runs: Sequence[AppendRun], size_bytes: int, done: Callable[[Request, Answer], None], reply: Callable[[Answer], None]
    ) -> None:
        self.parts = [Part(self, at, run) for at, run in enumerate(runs)]
        self.outcomes: list[Outcome | None] = [None] * len(runs)
        self.left = len(runs)
        self.size_bytes = size_bytes
        self.done = done
        """Called once, as soon as the last outcome is there; it passes the answer on to ``reply``. Neither may raise."""
        self.reply = reply

    def settle(self, at: int, outcome: Outcome) -> None:
        """Outcome of run ``at``; the last one gives the answer."""
        if self.outcomes[at] is not None:
            return
        self.outcomes[at] = outcome
        self.left -= 1
        if not self.left:
            self.parts = []  # parts and request refer to each other: the payload must not wait for the garbage collector
            self.done(self, tuple(found for found in self.outcomes if found is not None))

    def abandon(self, why: OutcomeUnknown) -> None:
        """Nothing will be decided any more."""
        self.left = 0
        self.parts = []
        self.done(self, why)


class Part:
    """One run of a request and, once cut, where its bytes are in the bundle."""

    __slots__ = ("at", "dropped", "group", "position", "request", "run")

    def __init__(self, request: Request, at: int, run: AppendRun) -> None:
        self.request = request
        self.at = at
        self.run = run
        self.position = -1
        self.dropped = False
        self.group: Group | None = None

    @property
    def settled(self) -> bool:
        """True once the run has its answer."""
        return self.request.outcomes[self.at] is not None

    def settle(self, outcome: Outcome) -> None:
        """Answers this run."""
        self.group = None
        self.request.settle(self.at, outcome)

    def producers(self) -> set[int]:
        """Producer ids of its batches; -1 for those without."""
        return {batch.producer_id for batch in self.run.batches}

    def drop(self, outcome: Outcome) -> None:
        """Answers this run and keeps it out of the log, though its bytes may be in the bundle already."""
        self.dropped = True
        if self.group is not None:
            self.group.by_batch = True
        self.settle(outcome)


class Group:
    """The parts of one partition in one flush, in the order they came, and their run in the bundle."""

    __slots__ = ("batches", "by_batch", "key", "parts", "run")

    def __init__(self, key: PartitionKey) -> None:
        self.key = key
        self.parts: list[Part] = []
        self.run: BundleRun | None = None
        self.batches = 0
        self.by_batch = False
        """True when each batch is looked at: some have a producer id, or a part was dropped."""

    def place(self, run: BundleRun) -> None:
        """Takes the group's run in the bundle."""
        self.run = run
        position = run.position
        for part in self.parts:
            part.position = position
            position += len(part.run.data)


@dataclass(slots=True)
class Flush:
    """Requests that share one bundle. ``why_failed`` is set when its PUT failed for good."""

    ulid: str
    created_ms: int
    requests: list[Request]
    groups: dict[int, list[Group]]
    """By shard; sorted by partition inside."""
    data: bytes
    """The bundle; empty when there is nothing to append."""
    chunk: int = 0
    """Number of the next commit record of this bundle."""
    stored: asyncio.Task[None] | None = None
    why_failed: str = ""


def gather(requests: list[Request], *, ulid: str, created_ms: int, shards: int) -> Flush:
    """One flush of all ``requests``; parts dropped meanwhile are left out. ``data`` is empty when nothing is left.

    The bundle is joined once: store, cache and the check after a lost answer then share one buffer.
    """
    groups: dict[tuple[bytes, int], Group] = {}
    for request in requests:
        for part in request.parts:
            if part.dropped:
                continue
            key, _, batches, _ = part.run
            place = (key.topic_id, key.partition)
            group = groups.get(place)
            if group is None:
                group = groups[place] = Group(key)
            group.parts.append(part)
            part.group = group
            group.batches += len(batches)
            if not group.by_batch:
                for batch in batches:
                    if batch.producer_id >= 0:
                        group.by_batch = True
                        break
    ordered = [groups[place] for place in sorted(groups)]
    bundle = build_bundle([_run_of(group) for group in ordered]) if ordered else None
    by_shard: dict[int, list[Group]] = {}
    topic_id, hashed = TopicId(b""), 0
    for group, run in zip(ordered, bundle.directory if bundle is not None else (), strict=True):
        group.place(run)
        if run.topic_id != topic_id:
            topic_id, hashed = run.topic_id, topic_hash(run.topic_id)
        by_shard.setdefault((hashed + run.partition) % shards, []).append(group)
    data = b"" if bundle is None else b"".join(bundle.chunks)
    return Flush(ulid=ulid, created_ms=created_ms, requests=requests, groups=by_shard, data=data)


def drop_suspects(parts: Iterable[Part], suspects: Suspects, why: str) -> None:
    """Fails, retriably, every part with a suspect producer (R03); its other producers become suspects too."""
    for part in parts:
        if part.settled:
            continue
        key = part.run.key
        here = {(key, producer_id) for producer_id in part.producers()}
        if here.isdisjoint(suspects):
            continue
        suspects |= here
        part.drop(AppendFault(FaultKind.RETRY, why))


def _run_of(group: Group) -> tuple[PartitionKey, list[bytes | bytearray | memoryview], Sequence[Batch]]:
    parts = group.parts
    if len(parts) == 1:
        run = parts[0].run
        return group.key, [run.data], run.batches
    batches: list[Batch] = []
    for part in parts:
        batches += part.run.batches
    return group.key, [part.run.data for part in parts], batches
