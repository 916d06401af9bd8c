"""``frazil restore``: joined from log, marks and tables."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from frazil.admin.port import RestoreAnswer, RestoreRow
from frazil.assembly.marks import Marks, ends_of
from frazil.assembly.settings import FrazilSettings
from frazil.assembly.stores import Stores, open_stores
from frazil.catalogs.progress import read_progress
from frazil.kit.errors import Corrupt, Missing, Refused
from frazil.kit.names import PartitionId, PartitionKey
from frazil.log.cache import BlockCache
from frazil.log.index import LogIndex
from frazil.log.restore import PartitionRestore, RestorePlan, Restorer
from frazil.log.upkeep import UpkeepDeps
from frazil.metadata.cluster import list_brokers
from frazil.metadata.landings import list_landings
from frazil.metadata.marks import check_mark
from frazil.metadata.topics import Topics

_CACHE_BYTES = 64 * 1024 * 1024
_NAMED_MAX = 10


async def run_restore(settings: FrazilSettings, *, apply: bool) -> RestoreAnswer:
    """Looks, and with ``apply`` does it. Raises Refused while a broker is registered, or when the bucket is another cluster's."""
    async with open_stores(settings, create=False, check_marks=False) as stores:
        if apply:
            await _refuse_while_alive(stores)
        marks = Marks(stores.metadata, stores.objects, stores.chance)
        mark, found = await marks.read()
        try:
            check_mark(mark, found)
            older = ""
        except Refused as error:
            older = str(error).partition(". ")[0]
        notes: list[str] = []
        progress = await _progress(stores, settings, notes)
        async with _restorer(stores, settings) as (restorer, index):
            plan = await restorer.plan([found.ends, *progress])
            rows = tuple(_row(one) for one in plan.partitions)
            if apply:
                await restorer.apply(plan)
        if apply:
            index = LogIndex(stores.metadata, shards=stores.instance.shards)
            await index.refresh()
            await marks.join(ends_of(index))
            notes += index.troubles()
        return RestoreAnswer(older=older, rows=rows, notes=(*notes, *_notes(plan)))


async def _refuse_while_alive(stores: Stores) -> None:
    alive = await list_brokers(stores.metadata)
    if alive:
        names = ", ".join(f"{broker.broker_id} at {broker.host}:{broker.port}" for broker in alive)
        raise Refused(f"broker {names} is registered; stop it, or wait 10 s when it was killed or the copy was made while it ran")


@asynccontextmanager
async def _restorer(stores: Stores, settings: FrazilSettings) -> AsyncIterator[tuple[Restorer, LogIndex]]:
    index = LogIndex(stores.metadata, shards=stores.instance.shards)
    deps = UpkeepDeps(
        store=stores.metadata,
        objects=stores.objects,
        index=index,
        topics=Topics(stores.metadata, stores.clock, stores.chance),
        clock=stores.clock,
        chance=stores.chance,
        offload=stores.offload,
        cache=BlockCache(_CACHE_BYTES),
        namespace=settings.store.namespace,
    )
    yield Restorer(deps), index


async def _progress(stores: Stores, settings: FrazilSettings, notes: list[str]) -> list[dict[PartitionKey, int]]:
    """What tables of this cluster have landed, whichever incarnation they landed it from."""
    namespaces = {settings.landing.namespace, *(spec.table.rpartition(".")[0] for spec in await list_landings(stores.metadata))}
    shown: list[dict[PartitionKey, int]] = []
    for namespace in sorted(namespaces):
        for ident in await stores.catalog.list(namespace):
            try:
                progress = await read_progress(stores.table_objects, await stores.catalog.load(ident))
            except (Refused, Corrupt, Missing) as error:
                notes.append(f"progress of table {ident} is not known: {error}")
                continue
            shown.append(
                {
                    PartitionKey(at.topic_id, PartitionId(at.partition)): offset
                    for at, offset in progress.items()
                    if at.source.partition("/")[0] == stores.instance.cluster_id
                }
            )
    return shown


def _row(one: PartitionRestore) -> RestoreRow:
    return RestoreRow(
        topic=one.topic.name,
        partition=one.key.partition,
        head=one.head,
        new_head=one.new_head,
        log_start=one.log_start,
        new_log_start=one.new_start,
        adopted=one.adopted,
        sealed=one.sealed,
        lost=", ".join(f"{base}-{end - 1}" for base, end in one.lost),
    )


def _notes(plan: RestorePlan) -> list[str]:
    found, notes = plan.found, []
    if found.open_bundles:
        records = sum(found.open_offsets.values())
        notes.append(
            f"{found.open_bundles} bundles with {records} offsets have no commit in this metadata, so their records have no order. "
            "Some may be sealed already; what is not is lost, and collection deletes these bundles after the restore: "
            "copy bundles/ first if you want to keep their bytes"
        )
    if found.blind:
        notes.append("a bundle could not be read: every next offset is raised by 2^40, more than can have been given out")
    if plan.unknown:
        more = f" and {len(plan.unknown) - _NAMED_MAX} more" if len(plan.unknown) > _NAMED_MAX else ""
        notes.append(f"topics of the bucket that metadata does not have are left alone: {', '.join(plan.unknown[:_NAMED_MAX])}{more}")
    notes += [f"topic {name} gets {count} partitions: the bucket has segments of them" for name, count in sorted(plan.grow.items())]
    notes += [f"damaged and not used: {what}" for what in found.damaged]
    return notes
