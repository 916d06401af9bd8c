"""Opens a table and its log for ``frazil land reset``: of the cluster, or of the manifests that ``land -f`` runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from frazil.admin.landreset import LATEST, LandResetAdmin, LandResetRow, LandResetWish
from frazil.assembly.landfile import opened_manifests
from frazil.assembly.namedcatalogs import CatalogBook
from frazil.assembly.settings import FrazilSettings
from frazil.assembly.sources import Source, Tools, cluster_source
from frazil.assembly.stores import open_stores
from frazil.catalogs.commit import Committer
from frazil.catalogs.port import Catalog, CatalogDeps
from frazil.kit.errors import Missing, Refused
from frazil.landing.discover import auto_table
from frazil.landing.extent import Mark, parse_mark
from frazil.landing.reset import Goals, ResetLog, Resetter, Step, apply_anew
from frazil.metadata.landings import LandingSpec, get_landing
from frazil.objects.port import ObjectStore


@asynccontextmanager
async def open_reset(settings: FrazilSettings, table: str, files: Sequence[str]) -> AsyncIterator[LandResetAdmin]:
    """Raises Refused or Missing when there is no such landing."""
    if files:
        async with opened_manifests(settings, files, asyncio.Event()) as run:
            spec = next((one for one in run.landings if one.table == table), None)
            if spec is None:
                raise Missing(f"these manifests land {', '.join(one.table for one in run.landings)}, not {table}")
            yield ResetVerbs(spec, _committer(spec, run.catalogs, run.source.objects, run.tools), run.source)
        return
    async with open_stores(settings, create=False) as stores:
        book = CatalogBook(settings, stores.catalog_deps, stores.catalog)
        try:
            await book.refresh(stores.metadata)
            tools = Tools(clock=stores.clock, chance=stores.chance, offload=stores.offload, faults=stores.faults)
            source = cluster_source(settings, stores.metadata, stores.objects, stores.instance, tools)
            spec = await get_landing(stores.metadata, table) or await _automatic(settings, source, table)
            yield ResetVerbs(spec, _committer(spec, book.catalogs, stores.objects, tools), source)
        finally:
            await book.close()


class ResetVerbs:
    """``admin.landreset.LandResetAdmin`` for one table."""

    def __init__(self, spec: LandingSpec, committer: Committer, source: Source) -> None:
        log = ResetLog(topics=source.topics, index=source.index, reader=source.reader, source=source.name, naming=source.naming)
        self._resetter = Resetter(spec, committer, log)

    async def preview(self, wish: LandResetWish) -> tuple[LandResetRow, ...]:
        """See ``LandResetAdmin.preview``."""
        return _rows((await self._resetter.look(_goals(wish))).steps)

    async def reset(self, wish: LandResetWish) -> tuple[LandResetRow, ...]:
        """See ``LandResetAdmin.reset``."""
        done = await apply_anew(self._resetter, _goals(wish), delete_rows=wish.delete_rows, allow_duplicates=wish.allow_duplicates)
        return _rows(done.steps)


def _committer(spec: LandingSpec, catalogs: Mapping[str, Catalog], objects: ObjectStore, tools: Tools) -> Committer:
    name = spec.options.get("catalog", "default")
    catalog = catalogs.get(name)
    if catalog is None:
        raise Refused(f"table {spec.table}: no catalog {name!r}")
    deps = CatalogDeps(
        objects=catalog.objects or objects, offload=tools.offload, clock=tools.clock, chance=tools.chance, faults=tools.faults
    )
    return Committer(catalog, deps)


async def _automatic(settings: FrazilSettings, source: Source, table: str) -> LandingSpec:
    """The landing of a topic that has none of its own."""
    await source.topics.refresh()
    for topic in source.topics.all():
        if settings.landing.auto and auto_table(settings.landing.namespace, topic.name) == table:
            return LandingSpec(table=table, topics=(topic.name,))
    raise Missing(f"no landing into table {table}")


def _goals(wish: LandResetWish) -> Goals:
    if not wish.to and not wish.partitions:
        raise Refused("say where to go on: --to earliest, latest, an offset or a time, or --partition topic:number=offset")
    named: dict[tuple[str, int], Mark] = {
        (topic, number): parse_mark(word, about=f"--partition {topic}:{number}") for topic, number, word in wish.partitions
    }
    everywhere = parse_mark(wish.to, about="--to") if wish.to and wish.to != LATEST else None
    return Goals(everywhere=everywhere, named=named, latest=wish.to == LATEST)


def _rows(steps: Sequence[Step]) -> tuple[LandResetRow, ...]:
    return tuple(
        LandResetRow(
            topic=step.topic,
            partition=int(step.key.partition),
            now=step.now,
            then=step.then,
            read_again=step.again,
            skipped=step.skipped,
            rows=step.rows,
        )
        for step in steps
    )
