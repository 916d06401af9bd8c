"""``frazil land -f``: runs the landings of exactly the manifests given, in the foreground.

One ``IcebergProcessor`` runs anywhere, from the log its bucket holds; ``Table`` manifests run from the cluster of the settings.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence, Set
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace

from frazil.admin.manifests import Manifest, check_together
from frazil.admin.manifests.catalogspec import NamedCatalogSpec
from frazil.admin.manifests.kinds import KafkaProcessorSpec, ProcessorSpec, TableSpec, TopicSpec
from frazil.admin.manifests.plan import check_owner
from frazil.admin.manifests.wanted import landings_of, wanted_of
from frazil.assembly.landing import landing_settings
from frazil.assembly.log_lines import set_up_logging
from frazil.assembly.manifestfiles import load_manifests
from frazil.assembly.manifests import landing_defaults
from frazil.assembly.namedcatalogs import CatalogBook, open_named
from frazil.assembly.registry import opened_registry
from frazil.assembly.running import finish, first_of
from frazil.assembly.settings import FrazilSettings
from frazil.assembly.sources import Source, Tools, cluster_source, open_kafka_source, open_source
from frazil.assembly.stopping import stop_requested
from frazil.assembly.stores import open_stores, process_faults
from frazil.catalogs.port import Catalog, CatalogDeps
from frazil.kit.chance import system_chance
from frazil.kit.clock import SystemClock
from frazil.kit.errors import Refused
from frazil.kit.tasks import ThreadOffload, spawn
from frazil.landing import Landing, LandingDeps, LandingSettings
from frazil.landing.options import check_options
from frazil.metadata.landings import LandingSpec, LandingStatus, get_landing

_LOG = logging.getLogger("frazil.land")
_REPORT_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRun:
    """Everything open that a landing process of manifests needs."""

    title: str
    tools: Tools
    source: Source
    catalogs: Mapping[str, Catalog]
    managed: Set[str]
    landings: tuple[LandingSpec, ...]
    label: str
    parallelism: int | None


async def run_manifest(settings: FrazilSettings, files: Sequence[str]) -> None:
    """Lands until SIGTERM or SIGINT. Raises Refused for manifests that cannot be run so, also for secrets that are not there."""
    set_up_logging(settings.log_level)
    async with (
        stop_requested(supervised=False) as stop,
        opened_manifests(settings, files, stop) as run,
        opened_registry(settings, run.tools.clock) as registry,
    ):
        landing = Landing(replace(_deps(run), registry=registry), _numbers(settings, run))
        tasks = {spawn("landing", landing.run()), spawn("report", _report(landing))}
        tasks |= {spawn("follow log", work()) for work in run.source.beside}
        _LOG.info("%s lands %s", run.title, "; ".join(f"{', '.join(one.topics)} in {one.table}" for one in run.landings))
        await first_of(spawn("wait for stop", stop.wait()), tasks)
        landing.stop()
        await finish(tasks, keep_name="landing")


def opened_manifests(settings: FrazilSettings, files: Sequence[str], stop: asyncio.Event) -> AbstractAsyncContextManager[ManifestRun]:
    """The log, catalogs and landings of manifests, opened. Raises Refused for those that cannot be run together, or here."""
    manifests = load_manifests(files)
    check_together(manifests)
    return _opened(settings, manifests, stop)


def _deps(run: ManifestRun) -> LandingDeps:
    return LandingDeps(
        store=run.source.store,
        topics=run.source.topics,
        index=run.source.index,
        reader=run.source.reader,
        objects=run.source.objects,
        catalogs=run.catalogs,
        source=run.source.name,
        clock=run.tools.clock,
        chance=run.tools.chance,
        offload=run.tools.offload,
        faults=run.tools.faults,
        managed=run.managed,
        specs=run.landings,
        label=run.label,
        naming=run.source.naming,
    )


def _numbers(settings: FrazilSettings, run: ManifestRun) -> LandingSettings:
    numbers = replace(landing_settings(settings), auto=None)
    return numbers if run.parallelism is None else replace(numbers, heavy_max=run.parallelism)


def _opened(settings: FrazilSettings, manifests: Sequence[Manifest], stop: asyncio.Event) -> AbstractAsyncContextManager[ManifestRun]:
    """What the manifests are about, opened. Raises Refused when it is not one processor, or tables and their catalogs."""
    titles = ", ".join(manifest.title for manifest in manifests)
    for manifest in manifests:
        if isinstance(manifest.spec, TopicSpec):
            raise Refused(f"{manifest.place}: land -f makes no topics; `frazil apply` {manifest.title} and leave it out here")
        if isinstance(manifest.spec, ProcessorSpec | KafkaProcessorSpec):
            if len(manifests) > 1:
                raise Refused(f"land -f runs one {manifest.kind} and nothing beside it, but got {titles}; start one process for each")
            return _processor(settings, manifest, manifest.spec, stop)
    if not any(isinstance(manifest.spec, TableSpec) for manifest in manifests):
        raise Refused(f"land -f runs an IcebergProcessor, a KafkaProcessor or Tables; {titles} lands nothing")
    return _tables(settings, manifests, stop)


@asynccontextmanager
async def _processor(
    settings: FrazilSettings, manifest: Manifest, spec: ProcessorSpec | KafkaProcessorSpec, stop: asyncio.Event
) -> AsyncIterator[ManifestRun]:
    landings = _checked(landings_of(manifest, landing_defaults(settings)))
    name = manifest.metadata.name
    async with _tools() as tools, _source(settings, spec, tools, stop) as source:
        deps = CatalogDeps(objects=source.objects, offload=tools.offload, clock=tools.clock, chance=tools.chance, faults=tools.faults)
        catalog, managed = open_named(spec.sink.catalog, settings, deps)
        if source.kind == "kafka" and catalog.objects is None:
            raise Refused(f"{manifest.title}: its catalog does not say where tables are, and a Kafka cluster has no bucket for them")
        try:
            yield ManifestRun(
                title=manifest.title,
                tools=tools,
                source=source,
                catalogs={name: catalog},
                managed=frozenset({name} if managed else ()),
                landings=landings,
                label=f"{name}:",
                parallelism=spec.processing.parallelism,
            )
        finally:
            await catalog.close()


def _source(
    settings: FrazilSettings, spec: ProcessorSpec | KafkaProcessorSpec, tools: Tools, stop: asyncio.Event
) -> AbstractAsyncContextManager[Source]:
    return open_kafka_source(spec, tools, stop) if isinstance(spec, KafkaProcessorSpec) else open_source(settings, spec, tools, stop)


@asynccontextmanager
async def _tables(settings: FrazilSettings, manifests: Sequence[Manifest], stop: asyncio.Event) -> AsyncIterator[ManifestRun]:
    tables = [manifest for manifest in manifests if isinstance(manifest.spec, TableSpec)]
    landings = _checked(wanted_of(tables, landing_defaults(settings)).landings)
    async with open_stores(settings, create=False, stop=stop) as stores:
        book = CatalogBook(settings, stores.catalog_deps, stores.catalog)
        try:
            await book.refresh(stores.metadata)
            for manifest in manifests:
                if isinstance(manifest.spec, NamedCatalogSpec):
                    await book.add(manifest.metadata.name, *open_named(manifest.spec, settings, stores.catalog_deps))
            for landing in landings:
                name = landing.options.get("catalog", "default")
                if name not in book.catalogs:
                    raise Refused(f"table {landing.table}: no catalog {name!r} in the cluster or in these manifests")
                check_owner(landing, await get_landing(stores.metadata, landing.table))
            tools = Tools(clock=stores.clock, chance=stores.chance, offload=stores.offload, faults=stores.faults)
            yield ManifestRun(
                title=", ".join(manifest.title for manifest in tables),
                tools=tools,
                source=cluster_source(settings, stores.metadata, stores.objects, stores.instance, tools),
                catalogs=book.catalogs,
                managed=book.managed,
                landings=landings,
                label="",
                parallelism=None,
            )
        finally:
            await book.close()


def _checked(landings: tuple[LandingSpec, ...]) -> tuple[LandingSpec, ...]:
    for landing in landings:
        landing.check()
        check_options(landing)
    return landings


@asynccontextmanager
async def _tools() -> AsyncIterator[Tools]:
    offload = ThreadOffload("frazil-work")
    try:
        yield Tools(clock=SystemClock(), chance=system_chance(), offload=offload, faults=process_faults())
    finally:
        offload.close()


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
