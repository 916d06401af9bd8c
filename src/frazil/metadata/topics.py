"""Topics: one record per name, a counter of incarnations that outlives them, and a note for what was deleted.

Every change is a compare-and-swap per key (F82). A topic id is one incarnation's and never used again; the k-th topic of
a name has incarnation k (R05).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from frazil.kit.chance import Chance
from frazil.kit.clock import Clock
from frazil.kit.errors import Conflict, Missing, Refused
from frazil.kit.names import TopicId, TopicName, is_topic_name
from frazil.metadata.change import settle
from frazil.metadata.opening import prefix_end
from frazil.metadata.port import START, Entry, MetadataStore, Revision, Write
from frazil.metadata.values import decode, encode

PREFIX: Final = "topics/"
DELETED_PREFIX: Final = "deleted-topics/"
PARTITIONS_MAX: Final = 10_000
DELETION_MARK: Final = "topics/!deleted"
"""Rewritten by every deletion: a deleted key does not show in ``range(after=…)``, this one does. ``!`` is in no topic name.
Whoever writes for a topic asserts its version, so that nothing is written for one that is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """One topic incarnation."""

    name: TopicName
    topic_id: TopicId
    partitions: int
    incarnation: int
    created_ms: int
    configs: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The value of ``topics/{name}``."""
        return encode(
            {
                "name": self.name,
                "topic_id": self.topic_id.hex(),
                "partitions": self.partitions,
                "incarnation": self.incarnation,
                "created_ms": self.created_ms,
                "configs": dict(self.configs),
            }
        )

    @classmethod
    def decode(cls, value: bytes, *, where: str) -> TopicRecord:
        """Reads ``encode``'s bytes. Raises Corrupt or Refused."""
        fields = decode(value, where=where)
        return cls(
            name=TopicName(fields.text("name")),
            topic_id=TopicId(fields.hexadecimal("topic_id")),
            partitions=fields.number("partitions"),
            incarnation=fields.number("incarnation"),
            created_ms=fields.number("created_ms"),
            configs=fields.text_map("configs"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTopic:
    """What retention needs to remove the data of a topic that is gone."""

    topic_id: TopicId
    name: TopicName
    incarnation: int
    partitions: int
    deleted_ms: int

    def encode(self) -> bytes:
        """The value of ``deleted-topics/{topic id hex}``."""
        return encode(
            {
                "name": self.name,
                "topic_id": self.topic_id.hex(),
                "partitions": self.partitions,
                "incarnation": self.incarnation,
                "deleted_ms": self.deleted_ms,
            }
        )

    @classmethod
    def decode(cls, value: bytes, *, where: str) -> DeletedTopic:
        """Reads ``encode``'s bytes. Raises Corrupt or Refused."""
        fields = decode(value, where=where)
        return cls(
            topic_id=TopicId(fields.hexadecimal("topic_id")),
            name=TopicName(fields.text("name")),
            incarnation=fields.number("incarnation"),
            partitions=fields.number("partitions"),
            deleted_ms=fields.number("deleted_ms"),
        )


class Topics:
    """The topics as of the last ``refresh``, and the changes to them. Reads are from memory; only ``refresh`` is linearizable."""

    def __init__(self, store: MetadataStore, clock: Clock, chance: Chance) -> None:
        self._store = store
        self._clock = clock
        self._chance = chance
        self._revision = START
        self._deletions = START
        self._by_name: dict[str, TopicRecord] = {}
        self._by_id: dict[TopicId, TopicRecord] = {}

    @property
    def revision(self) -> Revision:
        """The metadata revision of the view."""
        return self._revision

    @property
    def deletions(self) -> Revision:
        """Version of the deletion mark: while it stands, every topic of the view exists."""
        return self._deletions

    def get(self, name: str) -> TopicRecord | None:
        """The topic of this name."""
        return self._by_name.get(name)

    def by_id(self, topic_id: TopicId) -> TopicRecord | None:
        """The topic with this id."""
        return self._by_id.get(topic_id)

    def all(self) -> tuple[TopicRecord, ...]:
        """Every topic, by name."""
        return tuple(self._by_name[name] for name in sorted(self._by_name))

    def collisions(self, name: str) -> tuple[str, ...]:
        """Other topics whose names differ only in ``.`` and ``_``: Kafka's metric names cannot tell them apart, so it warns."""
        plain = name.replace(".", "_")
        return tuple(other for other in sorted(self._by_name) if other != name and other.replace(".", "_") == plain)

    async def refresh(self) -> None:
        """Brings the view up to everything committed before the call. Raises RetryLater."""
        found = await self._store.range(PREFIX, prefix_end(PREFIX), after=self._revision)
        entries = found.entries
        deleted = any(entry.key == DELETION_MARK for entry in entries)  # it is in the whole range then, too
        if deleted and self._revision != START:
            found = await self._store.range(PREFIX, prefix_end(PREFIX))
        if found.revision <= self._revision:
            return  # another refresh has folded more
        records = [_record(entry) for entry in found.entries if entry.key != DELETION_MARK]
        self._deletions = next((entry.version for entry in found.entries if entry.key == DELETION_MARK), self._deletions)
        if deleted:
            self._by_name.clear()
            self._by_id.clear()
        for record in records:
            self._learn(record)
        self._revision = found.revision

    async def create(self, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> TopicRecord:
        """A new topic. Raises Conflict when the name is taken, Refused for a bad name or partition count, RetryLater."""
        if not is_topic_name(name):
            raise Refused(f"topic name {name[:260]!r}: use 1 to 249 of A-Z a-z 0-9 . _ - and not '.' or '..'")
        _check_partitions(name, partitions)
        topic_id = _new_topic_id(self._chance)
        key, counter, gone = PREFIX + name, f"topic-incarnations/{name}", DELETED_PREFIX + topic_id.hex()
        made: list[TopicRecord] = []

        def decide(entries: Mapping[str, Entry]) -> list[Write]:
            if entries[gone].version:
                return []  # ours was applied, its answer lost, and somebody has deleted it since
            if entries[key].version:
                if _record(entries[key]).topic_id != topic_id:
                    raise Conflict(f"topic {name} exists")
                return []
            incarnation = 1
            if entries[counter].version:
                incarnation += decode(entries[counter].value, where=counter).number("incarnation")
            record = TopicRecord(
                name=TopicName(name),
                topic_id=topic_id,
                partitions=partitions,
                incarnation=incarnation,
                created_ms=self._clock.now_ms(),
                configs=dict(configs or {}),
            )
            made[:] = [record]
            return [Write(key=key, value=record.encode()), Write(key=counter, value=encode({"incarnation": incarnation}))]

        await settle(self._store, (key, counter, gone), decide)
        self._learn(made[0])
        return made[0]

    async def delete(self, name: str) -> TopicRecord:
        """Removes the topic and leaves a ``DeletedTopic`` for retention. Raises Missing, RetryLater."""
        key = PREFIX + name
        removed: list[TopicRecord] = []

        def decide(entries: Mapping[str, Entry]) -> list[Write]:
            entry = entries[key]
            record = _record(entry) if entry.version else None
            if removed and (record is None or record.topic_id != removed[0].topic_id):
                return []  # the one this call was to delete is gone
            if record is None:
                raise Missing(f"no topic {name}")
            removed[:] = [record]
            note = DeletedTopic(
                topic_id=record.topic_id,
                name=record.name,
                incarnation=record.incarnation,
                partitions=record.partitions,
                deleted_ms=self._clock.now_ms(),
            )
            return [
                Write(key=key, value=None),
                Write(key=DELETED_PREFIX + record.topic_id.hex(), value=note.encode()),
                Write(key=DELETION_MARK, value=encode({"name": name})),
            ]

        await settle(self._store, (key,), decide)
        self._forget(removed[0])
        return removed[0]

    async def set_partitions(self, name: str, partitions: int) -> TopicRecord:
        """Grows the topic. Raises Missing, Refused when it would shrink or grow too far, RetryLater."""
        _check_partitions(name, partitions)

        def grow(record: TopicRecord) -> TopicRecord:
            if partitions < record.partitions:
                raise Refused(f"topic {name} has {record.partitions} partitions; it cannot shrink to {partitions}")
            return replace(record, partitions=partitions)

        return await self._edit(name, grow)

    async def skip_incarnations(self, name: str, incarnation: int) -> None:
        """The next topic of this name gets an incarnation above ``incarnation``: whose segment keys are free (R22). Raises RetryLater."""
        key = f"topic-incarnations/{name}"

        def decide(entries: Mapping[str, Entry]) -> list[Write]:
            entry = entries[key]
            current = decode(entry.value, where=key).number("incarnation") if entry.version else 0
            return [Write(key=key, value=encode({"incarnation": incarnation}))] if current < incarnation else []

        await settle(self._store, (key,), decide)

    async def set_configs(self, name: str, changes: Mapping[str, str | None], *, keep_others: bool = True) -> TopicRecord:
        """Sets configs; None removes one. With ``keep_others`` False everything not named is removed. Raises Missing, RetryLater."""

        def merge(record: TopicRecord) -> TopicRecord:
            merged: dict[str, str | None] = {**(record.configs if keep_others else {}), **changes}
            return replace(record, configs={config: value for config, value in merged.items() if value is not None})

        return await self._edit(name, merge)

    async def _edit(self, name: str, edit: Callable[[TopicRecord], TopicRecord]) -> TopicRecord:
        key = PREFIX + name
        result: list[TopicRecord] = []

        def decide(entries: Mapping[str, Entry]) -> list[Write]:
            if not entries[key].version:
                raise Missing(f"no topic {name}")
            record = _record(entries[key])
            changed = edit(record)
            result[:] = [changed]
            return [] if changed == record else [Write(key=key, value=changed.encode())]

        await settle(self._store, (key,), decide)
        self._learn(result[0])
        return result[0]

    def _learn(self, record: TopicRecord) -> None:
        """Shows a change of ours before the next refresh, which is still free to correct it."""
        self._by_name[record.name] = record
        self._by_id[record.topic_id] = record

    def _forget(self, record: TopicRecord) -> None:
        self._by_id.pop(record.topic_id, None)
        current = self._by_name.get(record.name)
        if current is not None and current.topic_id == record.topic_id:
            del self._by_name[record.name]


async def list_deleted_topics(store: MetadataStore) -> tuple[DeletedTopic, ...]:
    """Topics whose data is still to be removed. Raises RetryLater."""
    found = await store.range(DELETED_PREFIX, prefix_end(DELETED_PREFIX))
    return tuple(DeletedTopic.decode(entry.value, where=entry.key) for entry in found.entries)


async def forget_deleted_topic(store: MetadataStore, topic_id: TopicId) -> None:
    """Ends the note once all data of the topic is removed; no error when it has ended. Raises RetryLater."""
    key = DELETED_PREFIX + topic_id.hex()
    await settle(store, (key,), lambda entries: [Write(key=key, value=None)] if entries[key].version else [])


def _record(entry: Entry) -> TopicRecord:
    return TopicRecord.decode(entry.value, where=entry.key)


def _check_partitions(name: str, partitions: int) -> None:
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise Refused(f"topic {name}: {partitions} partitions; use 1 to {PARTITIONS_MAX}")


def _new_topic_id(chance: Chance) -> TopicId:
    """16 random bytes: a version 4 UUID, so never Kafka's reserved 0 and 1, whose text does not begin with ``-`` (a flag to tools)."""
    while True:
        bits = chance.getrandbits(128)
        bits = (bits & ~(0xF << 76) | (0x4 << 76)) & ~(0x3 << 62) | (0x2 << 62)
        topic_id = bits.to_bytes(16, "big")
        if not base64.urlsafe_b64encode(topic_id).startswith(b"-"):
            return TopicId(topic_id)
