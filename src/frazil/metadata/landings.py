"""Landings: what is to be written to which table, and how it goes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from frazil.kit.errors import Missing, Refused
from frazil.kit.names import is_topic_name
from frazil.metadata.change import settle
from frazil.metadata.opening import prefix_end, read_one
from frazil.metadata.port import Entry, MetadataStore, Write
from frazil.metadata.values import decode, encode

PREFIX: Final = "landings/"
STATUS_PREFIX: Final = "landing-status/"
VALUE_KINDS: Final = ("json", "json-schema", "avro", "protobuf", "raw", "string", "int", "long", "float", "double")
STATES: Final = ("running", "paused", "stalled", "failed", "idle", "alert")
_TABLE: Final = re.compile(r"[^./\x00-\x1f]+(\.[^./\x00-\x1f]+)+")


DEAD_SUFFIX: Final = "_dead"


def dead_table(table: str) -> str:
    """The dead-letter table of a table, and the home of a route (R15, R07)."""
    return table + DEAD_SUFFIX


def check_table(table: str) -> None:
    """Raises Refused for what is not the name of a table."""
    if not _TABLE.fullmatch(table) or len(table.encode()) > 500:
        raise Refused(f"table {table[:200]!r}: write namespace.name")


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingSpec:
    """Topics → one table. An empty ``columns`` means: infer the schema from the values."""

    table: str
    topics: tuple[str, ...]
    value: str = "json"
    columns: tuple[str, ...] = ()
    metadata_columns: bool = True
    commit_interval_ms: int = 1_000
    commit_bytes: int = 128 * 1024 * 1024
    options: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Raises Refused when the spec cannot work, whatever the cluster holds."""
        check_table(self.table)
        if not self.topics:
            raise Refused(f"landing {self.table}: name at least one topic")
        for topic in self.topics:
            if not is_topic_name(topic):
                raise Refused(f"landing {self.table}: {topic[:260]!r} is not a topic name")
        if len(set(self.topics)) != len(self.topics):
            raise Refused(f"landing {self.table}: a topic is named twice")
        if self.value not in VALUE_KINDS:
            raise Refused(f"landing {self.table}: value {self.value!r}; use one of {', '.join(VALUE_KINDS)}")
        if self.commit_interval_ms < 1 or self.commit_bytes < 1:
            raise Refused(f"landing {self.table}: commit interval and commit bytes must be positive")

    def encode(self) -> bytes:
        """The value of ``landings/{table}``."""
        return encode(
            {
                "table": self.table,
                "topics": list(self.topics),
                "value": self.value,
                "columns": list(self.columns),
                "metadata_columns": self.metadata_columns,
                "commit_interval_ms": self.commit_interval_ms,
                "commit_bytes": self.commit_bytes,
                "options": dict(self.options),
            }
        )

    @classmethod
    def decode(cls, value: bytes, *, where: str) -> LandingSpec:
        """Reads ``encode``'s bytes. Raises Corrupt or Refused."""
        fields = decode(value, where=where)
        return cls(
            table=fields.text("table"),
            topics=fields.texts("topics"),
            value=fields.text("value"),
            columns=fields.texts("columns"),
            metadata_columns=fields.flag("metadata_columns"),
            commit_interval_ms=fields.number("commit_interval_ms"),
            commit_bytes=fields.number("commit_bytes"),
            options=fields.text_map("options"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingStatus:
    """How one landing goes. ``partition`` -1 and empty texts mean: nothing particular; a stall names all of them (LOUD)."""

    table: str
    state: str
    stage: str = ""
    reason: str = ""
    topic: str = ""
    partition: int = -1
    freshness_ms: int = 0
    behind_records: int = 0
    rows_landed: int = 0
    rows_rejected: int = 0
    updated_ms: int = 0
    last_commit_ms: int = 0
    snapshot_id: int = 0

    def encode(self) -> bytes:
        """The value of ``landing-status/{table}``."""
        return encode({name: getattr(self, name) for name in (*_STATUS_TEXTS, *_STATUS_NUMBERS)})

    @classmethod
    def decode(cls, value: bytes, *, where: str) -> LandingStatus:
        """Reads ``encode``'s bytes. Raises Corrupt or Refused."""
        fields = decode(value, where=where)
        return cls(
            table=fields.text("table"),
            state=fields.text("state"),
            stage=fields.text("stage"),
            reason=fields.text("reason"),
            topic=fields.text("topic"),
            partition=fields.number("partition"),
            freshness_ms=fields.number("freshness_ms"),
            behind_records=fields.number("behind_records"),
            rows_landed=fields.number("rows_landed"),
            rows_rejected=fields.number("rows_rejected"),
            updated_ms=fields.number("updated_ms"),
            last_commit_ms=fields.number("last_commit_ms"),
            snapshot_id=fields.number("snapshot_id"),
        )


_STATUS_TEXTS: Final = ("table", "state", "stage", "reason", "topic")
_STATUS_NUMBERS: Final = (
    "partition",
    "freshness_ms",
    "behind_records",
    "rows_landed",
    "rows_rejected",
    "updated_ms",
    "last_commit_ms",
    "snapshot_id",
)


async def put_landing(store: MetadataStore, spec: LandingSpec) -> None:
    """Creates or replaces the landing of ``spec.table``. Raises Refused, RetryLater."""
    spec.check()
    await _put(store, PREFIX + spec.table, spec.encode())


async def get_landing(store: MetadataStore, table: str) -> LandingSpec | None:
    """The landing of one table. Raises RetryLater."""
    entry = await read_one(store, PREFIX + table)
    return LandingSpec.decode(entry.value, where=entry.key) if entry.version else None


async def list_landings(store: MetadataStore) -> tuple[LandingSpec, ...]:
    """All landings, by table. Raises RetryLater."""
    found = await store.range(PREFIX, prefix_end(PREFIX))
    return tuple(LandingSpec.decode(entry.value, where=entry.key) for entry in found.entries)


async def delete_landing(store: MetadataStore, table: str) -> None:
    """Ends the landing and its status; the table stays. Raises Missing, RetryLater."""
    key, status = PREFIX + table, STATUS_PREFIX + table
    tried = False

    def decide(entries: Mapping[str, Entry]) -> list[Write]:
        nonlocal tried
        if not entries[key].version:
            if tried:
                return []
            raise Missing(f"no landing into table {table}")
        tried = True
        return [Write(key=key, value=None), Write(key=status, value=None)]

    await settle(store, (key,), decide)


async def put_status(store: MetadataStore, status: LandingStatus) -> None:
    """Replaces the status of one landing. Raises Refused for an unknown state, RetryLater."""
    if status.state not in STATES:
        raise Refused(f"landing state {status.state!r}; use one of {', '.join(STATES)}")
    await _put(store, STATUS_PREFIX + status.table, status.encode())


async def delete_status(store: MetadataStore, table: str) -> None:
    """Removes the status of a landing that is no more; no error when there is none. Raises RetryLater."""
    key = STATUS_PREFIX + table
    await settle(store, (key,), lambda entries: [Write(key=key, value=None)] if entries[key].version else [])


async def list_statuses(store: MetadataStore) -> tuple[LandingStatus, ...]:
    """The status of every landing that has one, by table. Raises RetryLater."""
    found = await store.range(STATUS_PREFIX, prefix_end(STATUS_PREFIX))
    return tuple(LandingStatus.decode(entry.value, where=entry.key) for entry in found.entries)


async def _put(store: MetadataStore, key: str, value: bytes) -> None:
    await settle(store, (key,), lambda entries: [] if entries[key].value == value else [Write(key=key, value=value)])
