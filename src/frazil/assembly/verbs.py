"""Opens the verbs that are asked of a broker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from frazil.admin.kafka import KafkaClient
from frazil.admin.port import KafkaAdmin


@asynccontextmanager
async def open_kafka(
    host: str, port: int, *, patience_s: float = 0.0, notice: Callable[[str], None] | None = None
) -> AsyncIterator[KafkaAdmin]:
    """Verbs asked of the broker at ``host:port``. Raises RetryLater when nobody listens within ``patience_s`` seconds."""
    client = KafkaClient(host, port)
    await client.open(patience_s=patience_s, notice=notice)
    try:
        yield client
    finally:
        await client.close()
