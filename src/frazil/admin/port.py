"""The verbs of an operator as protocols and the values they answer with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """One topic as listed."""

    name: str
    partitions: int
    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """One partition: offsets it holds, and its leader."""

    partition: int
    start_offset: int
    end_offset: int
    leader: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDetail:
    """A topic with partitions and the configuration that differs from defaults or not."""

    name: str
    topic_id: str
    partitions: tuple[PartitionRow, ...]
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """One consumer group as listed."""

    group: str
    state: str
    protocol_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffsetRow:
    """Committed offset of a group in one partition."""

    topic: str
    partition: int
    committed_offset: int
    end_offset: int

    @property
    def lag(self) -> int:
        """Records not yet consumed."""
        return self.end_offset - self.committed_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    """One member of a group."""

    member_id: str
    client_id: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDetail:
    """A group with members and offsets."""

    group: str
    state: str
    protocol: str
    members: tuple[MemberRow, ...]
    offsets: tuple[GroupOffsetRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingRecord:
    """A record to produce; partition −1: by hash of the key, or round robin without one."""

    key: bytes | None
    value: bytes | None
    partition: int = -1
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingRecord:
    """A consumed record."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumePlan:
    """What to consume: from ``earliest``, ``latest`` or an offset; stop at the end or go on."""

    topic: str
    start: str = "earliest"
    start_ms: int | None = None
    """Not None: from the first record of this time (Unix milliseconds) or later, instead of ``start``."""
    partitions: tuple[int, ...] = ()
    records_max: int | None = None
    follow: bool = False
    group: str = ""
    """Not empty: start at this group's committed offsets and commit what was handed out (KIP-free simple consumer, generation -1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetWish:
    """Where a group shall go on: ``to`` is earliest, latest or an offset; ``to_ms``, when not None, a time instead.

    ``topics``: none means every topic the group has offsets of.
    """

    topics: tuple[str, ...] = ()
    to: str = "earliest"
    to_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetRow:
    """One partition of a reset. ``committed_offset`` None: the group has none there."""

    topic: str
    partition: int
    committed_offset: int | None
    new_offset: int


class KafkaAdmin(Protocol):
    """Verbs that are asked of a broker in the Kafka protocol."""

    async def list_topics(self) -> tuple[TopicRow, ...]:
        """All topics."""
        ...

    async def describe_topic(self, name: str) -> TopicDetail:
        """One topic; Missing when there is none."""
        ...

    async def create_topic(self, name: str, *, partitions: int, configs: Mapping[str, str]) -> TopicDetail:
        """Creates a topic."""
        ...

    async def delete_topic(self, name: str) -> None:
        """Deletes a topic and its data."""
        ...

    async def add_partitions(self, name: str, total: int) -> None:
        """Raises the number of partitions to ``total``."""
        ...

    async def alter_topic(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Sets topic settings; None sets one back to its default."""
        ...

    async def list_groups(self) -> tuple[GroupRow, ...]:
        """All consumer groups."""
        ...

    async def describe_group(self, group: str) -> GroupDetail:
        """Members and offsets of one group."""
        ...

    async def delete_group(self, group: str) -> None:
        """Deletes an empty group."""
        ...

    async def plan_reset(self, group: str, wish: ResetWish) -> tuple[ResetRow, ...]:
        """What a reset would commit; Refused while the group has members. Changes nothing."""
        ...

    async def reset(self, group: str, rows: Sequence[ResetRow]) -> None:
        """Commits these offsets for a group without members."""
        ...

    async def produce(self, topic: str, records: Sequence[OutgoingRecord], *, codec: str) -> int:
        """Produces the records with acks=all; the number acknowledged."""
        ...

    def consume(self, plan: ConsumePlan) -> AsyncIterator[IncomingRecord]:
        """Records in offset order per partition."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One landed table and how it is doing."""

    table: str
    topics: str
    state: str
    freshness_ms: int | None
    lag_records: int | None
    stage: str
    reason: str
    dead_letters: int | None = None
    """Rows of its dead-letter table; None: the catalog did not say."""
    feeds: tuple[str, ...] = ()
    """Of a route: the tables its records go to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRow:
    """One snapshot of a table."""

    snapshot_id: int
    at_ms: int
    operation: str
    added_records: int
    total_records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FedTable:
    """A table of a route. ``value``: whose records it is named for; None: the route's options name it."""

    table: str
    value: str | None
    rows: int | None
    """None: the catalog did not say, or there is no such table yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDetail:
    """An Iceberg table: schema, place, snapshots, and what it knows of its sources."""

    table: str
    metadata_location: str
    columns: tuple[tuple[str, str], ...]
    snapshots: tuple[SnapshotRow, ...]
    progress: tuple[tuple[str, int, int], ...]
    feeds: tuple[FedTable, ...] = ()
    """Of a route, whose own table is that of its dead letters and its progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """A wish: land these topics in this table."""

    table: str
    topics: tuple[str, ...]
    value: str
    columns: tuple[str, ...]
    metadata_columns: bool
    commit_interval_ms: int | None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlAnswer:
    """Column names and rows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the doctor: ``level`` is ok, note or problem."""

    level: str
    about: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRow:
    """What a restore does to one partition. ``lost``: ranges of offsets that nothing holds any more."""

    topic: str
    partition: int
    head: int
    new_head: int
    log_start: int
    new_log_start: int
    adopted: int
    sealed: int
    lost: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreAnswer:
    """A restore, as it would be or was done. ``notes`` are sentences for a person; ``older``: what says that metadata is an older copy."""

    older: str
    rows: tuple[RestoreRow, ...]
    notes: tuple[str, ...]


class TableAdmin(Protocol):
    """Verbs over landed tables; joined from metadata, catalogs and query in ``assembly``."""

    async def status(self) -> tuple[TableRow, ...]:
        """Every table that is or should be landed."""
        ...

    async def describe(self, table: str) -> TableDetail:
        """One table; Missing when there is none."""
        ...

    async def create(self, wish: NewTable) -> None:
        """Records the wish; landing acts on it within seconds."""
        ...

    async def alter(self, table: str, changes: Mapping[str, str | None], *, commit_interval_ms: int | None) -> None:
        """Changes options (None takes one away) and the interval of a landing; Missing when there is none."""
        ...

    async def drop(self, table: str, *, purge: bool) -> None:
        """Stops landing into a table; with ``purge`` drops it from the catalog too."""
        ...

    async def sql(self, question: str) -> SqlAnswer:
        """Answers one SQL question over landed tables."""
        ...
