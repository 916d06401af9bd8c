"""``frazil land -f``: runs the landings of exactly the manifests given, in the foreground, in or out of a cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from frazil.admin.manifests import Manifest
from frazil.admin.manifests.catalogspec import NamedCatalogSpec
from frazil.admin.manifests.kinds import ProcessorSpec, TableSpec
from frazil.admin.manifests.wanted import LandingDefaults, landings_of
from frazil.assembly.landing import landing_settings
from frazil.assembly.log_lines import set_up_logging
from frazil.assembly.manifestfiles import load_manifests
from frazil.assembly.namedcatalogs import open_named
from frazil.assembly.running import finish, first_of
from frazil.assembly.settings import FrazilSettings
from frazil.assembly.sources import Source, Tools, open_source
from frazil.assembly.stopping import stop_requested
from frazil.assembly.stores import process_faults
from frazil.catalogs.port import Catalog, CatalogDeps
from frazil.kit.chance import system_chance
from frazil.kit.clock import SystemClock
from frazil.kit.errors import Refused
from frazil.kit.tasks import ThreadOffload, spawn
from frazil.landing import Landing, LandingDeps
from frazil.landing.target import check_options
from frazil.metadata.landings import LandingSpec, LandingStatus

_LOG = logging.getLogger("frazil.land")
_REPORT_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One processor and what it asks for."""

    manifest: Manifest
    spec: ProcessorSpec
    landings: tuple[LandingSpec, ...]


async def run_manifest(settings: FrazilSettings, files: Sequence[str]) -> None:
    """Lands until SIGTERM or SIGINT. Raises Refused for manifests that cannot be run so, also for secrets that are not there."""
    set_up_logging(settings.log_level)
    job = _job(load_manifests(files), settings)
    async with stop_requested(supervised=False) as stop, _tools() as tools, _opened(settings, job, tools) as (source, catalog, managed):
        deps = LandingDeps(
            store=source.store,
            topics=source.topics,
            index=source.index,
            reader=source.reader,
            objects=source.objects,
            catalogs={job.manifest.metadata.name: catalog},
            source=source.name,
            clock=tools.clock,
            chance=tools.chance,
            offload=tools.offload,
            faults=tools.faults,
            managed=frozenset({job.manifest.metadata.name}) if managed else frozenset(),
            specs=job.landings,
            label=f"{job.manifest.metadata.name}:",
            naming=source.naming,
        )
        landing = Landing(deps, replace(landing_settings(settings), auto=None, heavy_max=job.spec.processing.parallelism))
        tasks = {spawn("landing", landing.run()), spawn("report", _report(landing))}
        tasks |= {spawn("follow log", work()) for work in source.beside}
        _LOG.info("%s lands %s", job.manifest.title, ", ".join(f"{one.topics[0]} in {one.table}" for one in job.landings))
        await first_of(spawn("wait for stop", stop.wait()), tasks)
        landing.stop()
        await finish(tasks, keep_name="landing")


def _job(manifests: Sequence[Manifest], settings: FrazilSettings) -> _Job:
    """The one processor that is to run. Raises Refused when it is another number, or something that needs a cluster."""
    for manifest in manifests:
        if isinstance(manifest.spec, TableSpec | NamedCatalogSpec):
            raise Refused(f"{manifest.place}: {manifest.title} belongs to a cluster; `frazil apply` it, and `frazil land` lands it there")
    jobs = [(manifest, manifest.spec) for manifest in manifests if isinstance(manifest.spec, ProcessorSpec)]
    if len(jobs) != 1 or len(manifests) != 1:
        titles = ", ".join(manifest.title for manifest in manifests)
        raise Refused(f"land -f runs one IcebergProcessor, and these manifests hold {titles}; start one process for each")
    manifest, spec = jobs[0]
    defaults = LandingDefaults(commit_interval_ms=settings.landing.commit_interval_ms, commit_bytes=settings.landing.commit_bytes)
    landings = landings_of(manifest, defaults)
    for landing in landings:
        landing.check()
        check_options(landing)
    return _Job(manifest=manifest, spec=spec, landings=landings)


@asynccontextmanager
async def _tools() -> AsyncIterator[Tools]:
    offload = ThreadOffload("frazil-work")
    try:
        yield Tools(clock=SystemClock(), chance=system_chance(), offload=offload, faults=process_faults())
    finally:
        offload.close()


@asynccontextmanager
async def _opened(settings: FrazilSettings, job: _Job, tools: Tools) -> AsyncIterator[tuple[Source, Catalog, bool]]:
    async with AsyncExitStack() as closing:
        source = await closing.enter_async_context(open_source(settings, job.spec, tools))
        deps = CatalogDeps(objects=source.objects, offload=tools.offload, clock=tools.clock, chance=tools.chance, faults=tools.faults)
        catalog, managed = open_named(job.spec.sink.catalog, settings, deps)
        closing.push_async_callback(catalog.close)
        yield source, catalog, managed


async def _report(landing: Landing) -> None:
    """Says on stderr when a table's state or its reason changes: there may be no cluster to ask for it."""
    told: dict[str, tuple[str, str]] = {}
    while True:
        await asyncio.sleep(_REPORT_S)
        for status in landing.statuses():
            story = (status.state, status.reason)
            if told.get(status.table) != story:
                told[status.table] = story
                _LOG.log(
                    _level(status), "table %s is %s%s%s", status.table, status.state, " in stage " if status.stage else "", _why(status)
                )


def _level(status: LandingStatus) -> int:
    return logging.INFO if status.state in ("running", "idle", "paused") else logging.WARNING


def _why(status: LandingStatus) -> str:
    partition = f" (partition {status.partition})" if status.partition >= 0 else ""
    return f"{status.stage}{partition}: {status.reason}" if status.reason else status.stage
