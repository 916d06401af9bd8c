"""Everything a handler may use, and what the broker is given by ``assembly``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from frazil.broker.cluster import LiveBrokers
from frazil.broker.complaints import Complaints
from frazil.broker.counters import BrokerCounters
from frazil.broker.groups.coordinator import Groups
from frazil.broker.metadata_rows import MetadataRows
from frazil.broker.settings import BrokerSettings
from frazil.broker.topic_view import TopicView
from frazil.kit.chance import Chance
from frazil.kit.clock import Clock
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.names import PartitionKey
from frazil.log.append import Appender
from frazil.log.gate import Gate
from frazil.log.index import LogIndex
from frazil.log.read import LogReader
from frazil.metadata.cluster import next_producer_ids
from frazil.metadata.port import MetadataStore
from frazil.metadata.topics import Topics
from frazil.wire.messages.api_versions import ApiVersion

DeleteRecords = Callable[[PartitionKey, int], Awaitable[int]]
"""Drops records below an offset (-1: all) and gives the new log start offset. Raises OffsetOutOfRange, RetryLater."""

_PRODUCER_IDS_PER_BLOCK = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDeps:
    """The parts a broker is made of. Their own tasks (appender, index) are started by ``assembly``."""

    clock: Clock
    chance: Chance
    faults: FaultPoints
    store: MetadataStore
    topics: Topics
    index: LogIndex
    appender: Appender
    reader: LogReader
    delete_records: DeleteRecords


class ProducerIds:
    """Hands out producer ids from blocks taken from metadata."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._block = iter(range(0))
        self._lock = asyncio.Lock()

    async def next(self) -> int:
        """A producer id never given before. Raises RetryLater."""
        async with self._lock:
            found = next(self._block, None)
            if found is None:
                self._block = iter(await next_producer_ids(self._store, _PRODUCER_IDS_PER_BLOCK))
                found = next(self._block)
            return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What handlers see of their broker."""

    settings: BrokerSettings
    clock: Clock
    store: MetadataStore
    """For group records and offsets only; topics and the log have their own doors."""
    brokers: LiveBrokers
    topics: TopicView
    metadata_rows: MetadataRows
    index: LogIndex
    appender: Appender
    reader: LogReader
    fetch_gate: Gate
    """Bounds the bytes that are being read for Fetch."""
    groups: Groups
    producer_ids: ProducerIds
    counters: BrokerCounters
    delete_records: DeleteRecords
    complaints: Complaints
    """Where handlers say what clients did or were refused."""
    api_ranges: Sequence[ApiVersion]
    """What ApiVersions answers."""
