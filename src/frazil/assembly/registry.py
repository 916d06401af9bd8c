"""Opens the schema registry of the settings, if they name one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from frazil.assembly.settings import FrazilSettings
from frazil.kit.clock import Clock
from frazil.schemas.registry import Access, HttpxFetch, RegistryClient, SchemaSource


@asynccontextmanager
async def opened_registry(settings: FrazilSettings, clock: Clock) -> AsyncIterator[SchemaSource | None]:
    """None without ``registry.url``. Raises Refused for settings that cannot work; whether it answers is seen when it is asked."""
    given = settings.registry
    if not given.url:
        yield None
        return
    access = Access(url=given.url, basic_auth=given.basic_auth, token=given.token, ca_file=given.ca_file, timeout_ms=given.timeout_ms)
    client = RegistryClient(HttpxFetch(access), clock)
    try:
        yield client
    finally:
        await client.close()
