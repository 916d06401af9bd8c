"""Joins the parts of a landing process and runs them."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from frazil.assembly.health import health_served, landing_report
from frazil.assembly.knocking import check_default_catalog
from frazil.assembly.log_lines import set_up_logging
from frazil.assembly.namedcatalogs import CatalogBook
from frazil.assembly.registry import opened_registry, registry_beside
from frazil.assembly.running import finish, first_of
from frazil.assembly.settings import FrazilSettings
from frazil.assembly.stopping import stop_requested
from frazil.assembly.stores import Stores, open_stores
from frazil.kit.chance import UlidSource
from frazil.kit.errors import RetryLater
from frazil.kit.kernel import keep_blocks, kernel
from frazil.kit.tasks import spawn
from frazil.landing import AutoLanding, Landing, LandingDeps, LandingSettings
from frazil.landing.sharing import Alone, Shared, Sharing
from frazil.log.cache import BlockCache
from frazil.log.index import LogIndex
from frazil.log.read import LogReader, ReadLimits
from frazil.metadata.heartbeats import beat, fall_silent
from frazil.metadata.topics import Topics

_LOG = logging.getLogger("frazil.land")
_HEARTBEAT_S = 2.0
_KEPT_PART = 8
"""Of the bound on slices the kernel may keep an eighth as freed blocks."""


async def run_landing(settings: FrazilSettings, *, supervised: bool, with_registry: bool = False) -> None:
    """Lands until SIGTERM or SIGINT; a clean stop tries a last commit per table."""
    set_up_logging(settings.log_level)
    async with (
        stop_requested(supervised=supervised) as stop,
        open_stores(settings, stop=stop) as stores,
        opened_registry(settings, stores.clock, (stores.metadata, stores.offload)) as registry,
        registry_beside(settings, stores, wanted=with_registry),
    ):
        index = LogIndex(stores.metadata, shards=stores.instance.shards, producers=False)
        await check_default_catalog(settings, stores.catalog)
        book = CatalogBook(settings, stores.catalog_deps, stores.catalog)
        await book.refresh(stores.metadata)
        name, sharing = _sharing(settings, stores)
        deps = replace(landing_deps(settings, stores, index, book), registry=registry, sharing=sharing)
        landing = Landing(deps, landing_settings(settings))
        tasks = {
            spawn("landing", landing.run()),
            spawn("follow log", index.follow()),
            spawn("heartbeat", _beat(stores, name)),
            spawn("catalogs", book.keep(stores.metadata)),
        }
        waiting = spawn("wait for stop", stop.wait())
        keep_blocks(settings.landing.slices_bytes_max // _KEPT_PART)
        how = "in Python" if kernel() is None else "by the native kernel"
        _LOG.info("landing from cluster %s; records are decoded %s", stores.instance.cluster_id, how)
        given = settings.landing
        async with health_served("landing", given.http_host, given.http_port, lambda: landing_report(landing, stores.clock)):
            await first_of(waiting, tasks)
        landing.stop()
        await finish(tasks, keep_name="landing")
        await book.close()
        await fall_silent(stores.metadata, name)


def _sharing(settings: FrazilSettings, stores: Stores) -> tuple[str, Sharing]:
    """The name by which the process gives signs of life, and how it shares tables."""
    if not settings.landing.share:
        return "landing", Alone()
    process = UlidSource(stores.chance).next(stores.clock.now_ms())
    return f"landing/{process}", Shared(stores.metadata, stores.clock, process=process, lease_ms=settings.landing.share_lease_ms)


async def _beat(stores: Stores, name: str) -> None:
    while True:
        try:
            await beat(stores.metadata, name, now_ms=stores.clock.now_ms())
        except RetryLater as error:
            _LOG.warning("no sign of life could be left: %s", error)
        await asyncio.sleep(_HEARTBEAT_S)


def landing_settings(settings: FrazilSettings) -> LandingSettings:
    """The landing part of the settings tree as the room wants it."""
    given = settings.landing
    auto = AutoLanding(namespace=given.namespace, commit_bytes=given.commit_bytes) if given.auto else None
    return LandingSettings(
        auto=auto,
        commit_interval_ms=given.commit_interval_ms,
        slice_bytes_max=given.slice_bytes_max,
        slice_rows_max=given.slice_rows_max,
        slices_bytes_max=given.slices_bytes_max,
        progress_idle_ms=given.progress_idle_ms,
        call_deadline_ms=given.call_timeout_ms,
        rewrite=given.rewrite,
        rewrite_bytes_max=given.rewrite_bytes_max,
        key_cache_bytes=given.key_cache_bytes,
        snapshots_keep=given.snapshots_max,
        delete_grace_ms=given.data_grace_ms,
        metadata_grace_ms=given.metadata_grace_ms,
    )


def landing_deps(settings: FrazilSettings, stores: Stores, index: LogIndex, book: CatalogBook) -> LandingDeps:
    """The components of landing over open stores."""
    return LandingDeps(
        store=stores.metadata,
        topics=Topics(stores.metadata, stores.clock, stores.chance),
        index=index,
        reader=LogReader(stores.objects, index, BlockCache(settings.landing.cache_bytes), limits=ReadLimits(), offload=stores.offload),
        objects=stores.objects,
        catalogs=book.catalogs,
        managed=book.managed,
        source=f"{stores.instance.cluster_id}/{stores.instance.incarnation}",
        clock=stores.clock,
        chance=stores.chance,
        offload=stores.offload,
        faults=stores.faults,
    )
