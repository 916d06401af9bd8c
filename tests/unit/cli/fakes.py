"""The two admin ports in memory, and a way to run a command against them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from click.testing import CliRunner, Result

import frazil.assembly.tables
import frazil.assembly.verbs
from frazil.admin.port import (
    ConsumePlan,
    GroupDetail,
    GroupRow,
    IncomingRecord,
    KafkaAdmin,
    NewTable,
    OutgoingRecord,
    PartitionRow,
    ResetRow,
    ResetWish,
    SqlAnswer,
    TableAdmin,
    TableDetail,
    TableRow,
    TopicDetail,
    TopicRow,
)
from frazil.cli import main
from frazil.kit.errors import Missing


@dataclass
class FakeKafka:
    """One broker's worth of topics and groups."""

    topics: dict[str, TopicDetail] = field(default_factory=dict)
    groups: dict[str, GroupDetail] = field(default_factory=dict)
    records: list[IncomingRecord] = field(default_factory=list)
    produced: list[OutgoingRecord] = field(default_factory=list)
    plans: list[ConsumePlan] = field(default_factory=list)
    resets: list[tuple[str, ResetWish]] = field(default_factory=list)
    changes: list[tuple[str, object]] = field(default_factory=list)

    async def list_topics(self) -> tuple[TopicRow, ...]:
        return tuple(TopicRow(name=t.name, partitions=len(t.partitions), topic_id=t.topic_id) for t in self.topics.values())

    async def describe_topic(self, name: str) -> TopicDetail:
        if name not in self.topics:
            raise Missing(f"there is no topic {name!r}")
        return self.topics[name]

    async def create_topic(self, name: str, *, partitions: int, configs: Mapping[str, str]) -> TopicDetail:
        self.topics[name] = topic(name, [(0, 0)] * partitions, configs)
        return self.topics[name]

    async def delete_topic(self, name: str) -> None:
        del self.topics[name]

    async def add_partitions(self, name: str, total: int) -> None:
        self.changes.append((name, total))

    async def alter_topic(self, name: str, changes: Mapping[str, str | None]) -> None:
        self.changes.append((name, dict(changes)))

    async def list_groups(self) -> tuple[GroupRow, ...]:
        return tuple(GroupRow(group=g.group, state=g.state, protocol_type="consumer") for g in self.groups.values())

    async def describe_group(self, group: str) -> GroupDetail:
        return self.groups[group]

    async def delete_group(self, group: str) -> None:
        del self.groups[group]

    async def plan_reset(self, group: str, wish: ResetWish) -> tuple[ResetRow, ...]:
        self.resets.append((group, wish))
        return (ResetRow(topic="t", partition=0, committed_offset=None, new_offset=5),)

    async def reset(self, group: str, rows: Sequence[ResetRow]) -> None:
        self.changes.append((group, tuple(rows)))

    async def produce(self, topic: str, records: Sequence[OutgoingRecord], *, codec: str) -> int:
        self.produced += records
        return len(records)

    async def consume(self, plan: ConsumePlan) -> AsyncIterator[IncomingRecord]:
        self.plans.append(plan)
        for record in self.records:
            yield record


@dataclass
class FakeTables:
    """Tables whose progress moves by one record with each look."""

    rows: list[TableRow] = field(default_factory=list)
    details: dict[str, TableDetail] = field(default_factory=dict)
    answer: SqlAnswer = field(default_factory=lambda: SqlAnswer(columns=(), rows=()))
    wishes: list[NewTable] = field(default_factory=list)
    changes: list[tuple[str, dict[str, str | None], int | None]] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)

    async def status(self) -> tuple[TableRow, ...]:
        return tuple(self.rows)

    async def describe(self, table: str) -> TableDetail:
        if table not in self.details:
            raise Missing(f"no table {table}")
        detail = self.details[table]
        moved = tuple((topic_id, partition, offset + 1) for topic_id, partition, offset in detail.progress)
        self.details[table] = replace(detail, progress=moved)
        return detail

    async def create(self, wish: NewTable) -> None:
        self.wishes.append(wish)

    async def alter(self, table: str, changes: Mapping[str, str | None], *, commit_interval_ms: int | None) -> None:
        self.changes.append((table, dict(changes), commit_interval_ms))

    async def drop(self, table: str, *, purge: bool) -> None:
        self.rows = [row for row in self.rows if row.table != table]

    async def sql(self, question: str) -> SqlAnswer:
        self.questions.append(question)
        return self.answer


@dataclass
class Rig:
    """The ports behind the command line, and what commands asked for: broker addresses and data directories."""

    kafka: FakeKafka = field(default_factory=FakeKafka)
    tables: FakeTables = field(default_factory=FakeTables)
    addresses: list[tuple[str, int]] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)

    def run(self, *arguments: str, stdin: str | bytes | None = None) -> Result:
        """Runs ``frazil`` with these arguments; stdout and stderr are apart in the result."""
        return CliRunner().invoke(main, list(arguments), input=stdin)


def connect(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts the fakes where commands open the ports, and takes away variables of the machine."""

    @asynccontextmanager
    async def open_kafka(host: str, port: int, *, patience_s: float, notice: Callable[[str], None]) -> AsyncIterator[KafkaAdmin]:
        rig.addresses.append((host, port))
        yield rig.kafka

    @asynccontextmanager
    async def open_tables(settings: frazil.assembly.tables.FrazilSettings) -> AsyncIterator[TableAdmin]:
        rig.directories.append(settings.data_dir)
        yield rig.tables

    monkeypatch.setattr(frazil.assembly.verbs, "open_kafka", open_kafka)
    monkeypatch.setattr(frazil.assembly.tables, "open_tables", open_tables)


def topic(name: str, ranges: Sequence[tuple[int, int]], configs: Mapping[str, str] | None = None) -> TopicDetail:
    """A topic whose partitions hold these ranges of offsets."""
    rows = tuple(PartitionRow(partition=i, start_offset=start, end_offset=end, leader=0) for i, (start, end) in enumerate(ranges))
    return TopicDetail(name=name, topic_id=f"id-of-{name}", partitions=rows, configs=configs or {})


def table_row(table: str, topics: str, *, state: str = "idle", dead_letters: int | None = 0) -> TableRow:
    """A table as ``land status`` sees it."""
    return TableRow(table=table, topics=topics, state=state, freshness_ms=5, lag_records=0, stage="", reason="", dead_letters=dead_letters)


def table_detail(table: str, progress: Sequence[tuple[str, int, int]]) -> TableDetail:
    """A table with this progress."""
    return TableDetail(table=table, metadata_location="file:///w/m.json", columns=(("id", "long"),), snapshots=(), progress=tuple(progress))
