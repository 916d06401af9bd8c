"""Opens the two sets of verbs that faces use: over a broker, and over stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from frazil.admin.kafka import KafkaClient
from frazil.admin.port import KafkaAdmin, TableAdmin
from frazil.assembly.settings import FrazilSettings
from frazil.assembly.stores import open_stores
from frazil.assembly.tables import TableVerbs


@asynccontextmanager
async def open_kafka(host: str, port: int) -> AsyncIterator[KafkaAdmin]:
    """Verbs asked of the broker at ``host:port``. Raises RetryLater when nobody listens."""
    client = KafkaClient(host, port)
    await client.open()
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def open_tables(settings: FrazilSettings) -> AsyncIterator[TableAdmin]:
    """Verbs over the stores of ``settings``. Raises Refused when there is no data directory."""
    async with open_stores(settings, create=False) as stores:
        yield TableVerbs(stores)
