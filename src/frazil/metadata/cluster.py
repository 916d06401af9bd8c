"""The cluster itself: its identity, the bucket it belongs to, its live brokers, its supply of producer ids."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from frazil.kit.chance import Chance
from frazil.kit.errors import Bug, Conflict, Refused
from frazil.metadata.change import settle
from frazil.metadata.opening import prefix_end
from frazil.metadata.port import Entry, MetadataStore, Write
from frazil.metadata.values import FORMAT, decode, encode

INSTANCE_KEY: Final = "instance"
BROKERS_PREFIX: Final = "brokers/"
PRODUCER_IDS_KEY: Final = "producer-ids"
SHARDS_DEFAULT: Final = 64
SHARDS_MAX: Final = 64
"""A commit asserts and rewrites the head of every shard it touches, in one transaction of at most 100 operations (R10)."""
MARKER_PREFIX: Final = "frazil/instance-"
"""Objects with this prefix are instance markers; the last one in key order counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRecord:
    """Who this cluster is. ``incarnation`` grows when a restore cannot prove that no offset was lost (R22)."""

    cluster_id: str
    incarnation: int = 1
    shards: int = SHARDS_DEFAULT
    marked: bool = False
    """True once the bucket is known to hold the marker of this incarnation."""
    format: int = FORMAT

    def encode(self) -> bytes:
        """The value of ``instance``."""
        return encode(
            {"cluster_id": self.cluster_id, "incarnation": self.incarnation, "shards": self.shards, "marked": self.marked},
            record_format=self.format,
        )

    @classmethod
    def decode(cls, value: bytes, *, where: str = INSTANCE_KEY) -> InstanceRecord:
        """Reads ``encode``'s bytes. Raises Corrupt or Refused."""
        fields = decode(value, where=where)
        return cls(
            cluster_id=fields.text("cluster_id"),
            incarnation=fields.number("incarnation"),
            shards=fields.number("shards"),
            marked=fields.flag("marked"),
        )


async def open_instance(store: MetadataStore, chance: Chance, *, shards: int = SHARDS_DEFAULT) -> InstanceRecord:
    """The cluster's identity, made on first use. ``shards`` counts only then. Raises Refused, Corrupt, RetryLater."""
    if not 1 <= shards <= SHARDS_MAX:
        raise Refused(f"{shards} shards: use 1 to {SHARDS_MAX}")
    fresh = InstanceRecord(cluster_id=_new_cluster_id(chance), shards=shards)
    found: list[InstanceRecord] = []

    def decide(entries: Mapping[str, Entry]) -> list[Write]:
        entry = entries[INSTANCE_KEY]
        found[:] = [InstanceRecord.decode(entry.value) if entry.version else fresh]
        return [] if entry.version else [Write(key=INSTANCE_KEY, value=fresh.encode())]

    await settle(store, (INSTANCE_KEY,), decide)
    return found[0]


async def mark_instance(store: MetadataStore, instance: InstanceRecord) -> InstanceRecord:
    """Notes that the bucket holds the marker of ``instance``. Raises Conflict when the instance has changed, RetryLater."""
    marked = replace(instance, marked=True)

    def decide(entries: Mapping[str, Entry]) -> list[Write]:
        entry = entries[INSTANCE_KEY]
        current = InstanceRecord.decode(entry.value) if entry.version else None
        if current == marked:
            return []
        if current != instance:
            raise Conflict(f"the instance record is no longer that of {instance.cluster_id}, incarnation {instance.incarnation}")
        return [Write(key=INSTANCE_KEY, value=marked.encode())]

    await settle(store, (INSTANCE_KEY,), decide)
    return marked


def marker_key(instance: InstanceRecord) -> str:
    """Where the bucket keeps the marker of this incarnation; markers sort by incarnation."""
    return f"{MARKER_PREFIX}{instance.incarnation:04d}.json"


def marker_bytes(instance: InstanceRecord, *, metadata_url: str) -> bytes:
    """The marker object: who owns the bucket, and where its metadata is (without it a reader sees sealed segments only, R27)."""
    return encode({"cluster_id": instance.cluster_id, "incarnation": instance.incarnation, "metadata": metadata_url})


def check_marker(instance: InstanceRecord, marker: bytes | None) -> bool:
    """True when the bucket's newest marker is that of ``instance``; False when there is none and it is to be written now.

    Raises Refused when metadata and bucket do not belong together (R22): going on would issue offsets a second time.
    """
    ours = f"cluster {instance.cluster_id}, incarnation {instance.incarnation}"
    if marker is None:
        if instance.marked:
            raise Refused(
                f"the metadata of {ours} has used another bucket: this one holds no object {marker_key(instance)}. "
                "Point objects at the right bucket, or start with an empty metadata store"
            )
        return False
    fields = decode(marker, where="instance marker of the bucket")
    theirs = f"cluster {fields.text('cluster_id')}, incarnation {fields.number('incarnation')}"
    if fields.text("cluster_id") != instance.cluster_id:
        raise Refused(
            f"the bucket belongs to {theirs}, the metadata store to {ours}. "
            "Point metadata at the store of that cluster, or objects at an empty bucket"
        )
    if fields.number("incarnation") > instance.incarnation:
        raise Refused(f"the bucket has moved on to {theirs}, the metadata store is an old copy: {ours}. Use the newer metadata store")
    return fields.number("incarnation") == instance.incarnation


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRecord:
    """One live broker, as clients reach it."""

    broker_id: int
    host: str
    port: int
    rack: str = ""
    started_ms: int = 0

    def encode(self) -> bytes:
        """The value of ``brokers/{id}``."""
        return encode({"broker_id": self.broker_id, "host": self.host, "port": self.port, "rack": self.rack, "started_ms": self.started_ms})

    @classmethod
    def decode(cls, value: bytes, *, where: str) -> BrokerRecord:
        """Reads ``encode``'s bytes. Raises Corrupt or Refused."""
        fields = decode(value, where=where)
        return cls(
            broker_id=fields.number("broker_id"),
            host=fields.text("host"),
            port=fields.number("port"),
            rack=fields.text("rack"),
            started_ms=fields.number("started_ms"),
        )


def _broker_key(broker_id: int) -> str:
    return f"{BROKERS_PREFIX}{broker_id:010d}"


async def register_broker(store: MetadataStore, record: BrokerRecord, *, ttl_ms: int) -> int:
    """Announces the broker under a new lease, which the caller renews; when a renewal fails, register again.

    A record with the same address is taken over: it is this broker's earlier run. Raises Conflict when the id is in use
    at another address, RetryLater.
    """
    lease = await store.grant_lease(ttl_ms)
    key = _broker_key(record.broker_id)
    tried = False

    def decide(entries: Mapping[str, Entry]) -> list[Write]:
        nonlocal tried
        if entries[key].version:
            current = BrokerRecord.decode(entries[key].value, where=key)
            if tried and current == record:
                return []
            if (current.host, current.port) != (record.host, record.port):
                raise Conflict(
                    f"broker id {record.broker_id} is in use at {current.host}:{current.port}; "
                    f"give this broker another id, or stop that one and wait {ttl_ms} ms"
                )
        tried = True
        return [Write(key=key, value=record.encode(), lease=lease)]

    await settle(store, (key,), decide)
    return lease


async def deregister_broker(store: MetadataStore, record: BrokerRecord) -> None:
    """Takes the announcement back, so that clients need not wait for the lease to end. Raises RetryLater."""
    key = _broker_key(record.broker_id)

    def decide(entries: Mapping[str, Entry]) -> list[Write]:
        entry = entries[key]
        ours = entry.version and BrokerRecord.decode(entry.value, where=key) == record
        return [Write(key=key, value=None)] if ours else []

    await settle(store, (key,), decide)


async def list_brokers(store: MetadataStore) -> tuple[BrokerRecord, ...]:
    """Live brokers by id, at one metadata revision (R26). Raises RetryLater."""
    found = await store.range(BROKERS_PREFIX, prefix_end(BROKERS_PREFIX))
    return tuple(BrokerRecord.decode(entry.value, where=entry.key) for entry in found.entries)


async def next_producer_ids(store: MetadataStore, block: int) -> range:
    """``block`` producer ids that nobody else gets; after a lost answer a block may stay unused. Raises RetryLater."""
    if block < 1:
        raise Bug(f"a block of {block} producer ids")
    first = 0

    def decide(entries: Mapping[str, Entry]) -> list[Write]:
        nonlocal first
        entry = entries[PRODUCER_IDS_KEY]
        first = decode(entry.value, where=PRODUCER_IDS_KEY).number("next") if entry.version else 0
        return [Write(key=PRODUCER_IDS_KEY, value=encode({"next": first + block}))]

    await settle(store, (PRODUCER_IDS_KEY,), decide)
    return range(first, first + block)


async def skip_producer_ids(store: MetadataStore) -> None:
    """Passes every id that can have been given out since an older copy of metadata was made (R22). Raises RetryLater."""
    await next_producer_ids(store, 2**32)


def _new_cluster_id(chance: Chance) -> str:
    """22 characters, as Kafka writes a UUID."""
    while True:
        text = base64.urlsafe_b64encode(chance.getrandbits(128).to_bytes(16, "big")).decode().rstrip("=")
        if not text.startswith("-"):
            return text
