"""Opens the verbs that are asked of a broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from frazil.admin.kafka import KafkaClient
from frazil.admin.port import KafkaAdmin


@asynccontextmanager
async def open_kafka(host: str, port: int) -> AsyncIterator[KafkaAdmin]:
    """Verbs asked of the broker at ``host:port``. Raises RetryLater when nobody listens."""
    client = KafkaClient(host, port)
    await client.open()
    try:
        yield client
    finally:
        await client.close()
