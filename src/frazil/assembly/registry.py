"""The schema registry of the settings: another one that is asked, or the cluster's own, which a process of its own serves."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from frazil.assembly.log_lines import set_up_logging
from frazil.assembly.settings import FrazilSettings
from frazil.assembly.stopping import stop_requested
from frazil.assembly.stores import Stores, open_stores
from frazil.assembly.tableeffects import LandedEffects
from frazil.endpoints.http import HttpServer
from frazil.endpoints.registry import Book, RegistryApi, StoredSchemas
from frazil.kit.clock import Clock
from frazil.kit.errors import Refused
from frazil.kit.tasks import Offload
from frazil.metadata.port import MetadataStore
from frazil.schemas.registry import Access, HttpxFetch, RegistryClient, SchemaSource

_LOG = logging.getLogger("frazil.registry")


@asynccontextmanager
async def opened_registry(
    settings: FrazilSettings, clock: Clock, own: tuple[MetadataStore, Offload] | None = None
) -> AsyncIterator[SchemaSource | None]:
    """The one at ``registry.url``; without it the cluster's ``own``, if there is a cluster.

    Raises Refused for settings that cannot work; whether it answers is seen when it is asked.
    """
    given = settings.registry
    if not given.url:
        yield None if own is None else StoredSchemas(Book(*own), clock)
        return
    access = Access(url=given.url, basic_auth=given.basic_auth, token=given.token, ca_file=given.ca_file, timeout_ms=given.timeout_ms)
    client = RegistryClient(HttpxFetch(access), clock)
    try:
        yield client
    finally:
        await client.close()


async def run_registry(settings: FrazilSettings, *, supervised: bool) -> None:
    """Serves the cluster's registry until SIGTERM or SIGINT. Raises Refused when the port cannot be had."""
    set_up_logging(settings.log_level)
    async with (
        stop_requested(supervised=supervised) as stop,
        open_stores(settings, stop=stop) as stores,
        served_registry(settings, stores),
    ):
        await stop.wait()


@asynccontextmanager
async def served_registry(settings: FrazilSettings, stores: Stores) -> AsyncIterator[None]:
    """The cluster's registry over HTTP for as long as this is open. Raises Refused when the port cannot be had."""
    host, port = settings.registry.host, settings.registry.port
    effects = LandedEffects(settings, stores)
    server = HttpServer(RegistryApi(Book(stores.metadata, stores.offload, effects)).answer)
    try:
        await server.start(host, port)
    except OSError as error:
        raise Refused(
            f"schema registry: port {port} of {host} cannot be had ({error.strerror}); choose another with registry.port, 0 for none"
        ) from error
    _LOG.info("schema registry on http://%s:%s", host, server.port)
    try:
        yield
    finally:
        await server.close()
        await effects.close()


@asynccontextmanager
async def registry_beside(settings: FrazilSettings, stores: Stores, *, wanted: bool) -> AsyncIterator[None]:
    """The same in a process that has other work and goes on, and says so, when the port is taken: landing needs no server."""
    async with AsyncExitStack() as open_now:
        if wanted:
            try:
                await open_now.enter_async_context(served_registry(settings, stores))
            except Refused as error:
                _LOG.warning("%s; nobody can register schemas here until then", error)
        yield
