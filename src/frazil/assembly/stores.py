"""Opens what every process needs: stores by address, identity of the cluster, clock, chance, threads, fault points."""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from frazil.assembly.catalogs import catalog_address, catalog_properties
from frazil.assembly.cloud import cloud_access
from frazil.assembly.load import PlannedFault, planned_fault
from frazil.assembly.marks import Marks
from frazil.assembly.settings import FrazilSettings
from frazil.assembly.starting import patiently
from frazil.catalogs.opening import open_catalog
from frazil.catalogs.port import Catalog, CatalogDeps
from frazil.kit.chance import Chance, system_chance
from frazil.kit.clock import Clock, SystemClock
from frazil.kit.errors import Conflict, Refused
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.tasks import ThreadOffload
from frazil.metadata import MetadataStore, open_metadata
from frazil.metadata.cluster import MARKER_PREFIX, InstanceRecord, check_marker, mark_instance, marker_bytes, marker_key, open_instance
from frazil.objects import ObjectStore, open_objects


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """Open stores and small tools of one process."""

    metadata: MetadataStore
    objects: ObjectStore
    catalog: Catalog
    catalog_deps: CatalogDeps
    instance: InstanceRecord
    clock: Clock
    chance: Chance
    offload: ThreadOffload
    faults: FaultPoints

    @property
    def table_objects(self) -> ObjectStore:
        """Where the files of the catalog's tables are."""
        return self.catalog.objects or self.objects


@asynccontextmanager
async def open_stores(
    settings: FrazilSettings, *, create: bool = True, check_marks: bool = True, stop: asyncio.Event | None = None
) -> AsyncIterator[Stores]:
    """Opens and, at the end, closes. With ``create`` False a data directory that does not exist is Refused, not made, and a bucket
    that belongs to nobody is left so: only a process that serves or restores the cluster binds a bucket to its metadata.

    With ``check_marks`` metadata that is older than the bucket is Refused (R22). With ``stop`` stores that do not answer are waited
    for until it is set (F86); without it RetryLater is raised at once.
    """
    _data_directory(settings, create=create)
    clock, chance = SystemClock(), system_chance()
    offload, faults = ThreadOffload("frazil-work"), process_faults()
    addresses = addresses_of(settings)
    objects = open_objects(
        addresses.objects,
        offload=offload,
        clock=clock,
        chance=chance,
        access=cloud_access(settings),
        mid_put=lambda key: _mid_put(faults, key),
    )
    deps = CatalogDeps(objects=objects, offload=offload, clock=clock, chance=chance, faults=faults)
    catalog = open_catalog(addresses.catalog, deps, catalog_properties(settings))
    metadata = open_metadata(addresses.metadata, clock=clock)
    try:
        own = await open_instance(metadata, chance)
        claims = create or not check_marks
        instance = await patiently(
            "claiming the bucket", lambda: _claim_bucket(metadata, objects, own, addresses.metadata if claims else None), stop
        )
        if check_marks:
            await patiently("checking the bucket's marks", Marks(metadata, objects, chance).check, stop)
        yield Stores(
            metadata=metadata,
            objects=objects,
            catalog=catalog,
            catalog_deps=deps,
            instance=instance,
            clock=clock,
            chance=chance,
            offload=offload,
            faults=faults,
        )
    finally:
        await catalog.close()
        await metadata.close()
        offload.close()


def _data_directory(settings: FrazilSettings, *, create: bool) -> pathlib.Path:
    directory = pathlib.Path(settings.data_dir).resolve()
    if not create and not settings.store.metadata and not directory.is_dir():
        raise Refused(f"no data directory {directory}; start `frazil -d {directory} dev`, or name the right one with -d")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"data directory {directory}: {error.strerror}; choose another with -d") from error
    return directory


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where the three stores are, after defaults."""

    objects: str
    metadata: str
    catalog: str


def addresses_of(settings: FrazilSettings) -> Addresses:
    """Store addresses: as set, or under ``data_dir``."""
    directory = pathlib.Path(settings.data_dir).resolve()
    return Addresses(
        objects=settings.store.objects or f"file://{directory}/objects",
        metadata=settings.store.metadata or f"sqlite://{directory}/metadata.db",
        catalog=catalog_address(settings),
    )


async def _claim_bucket(
    metadata: MetadataStore, objects: ObjectStore, instance: InstanceRecord, metadata_url: str | None
) -> InstanceRecord:
    """Bucket and metadata must belong together (R22). Without ``metadata_url`` that is checked and nothing is written."""
    markers = [info.key async for info in objects.list(MARKER_PREFIX)]
    marker = await objects.get(markers[-1]) if markers else None
    belongs = check_marker(instance, marker)
    if metadata_url is None:
        return instance
    if belongs:
        return instance if instance.marked else await mark_instance(metadata, instance)
    try:
        await objects.put_if_absent(marker_key(instance), marker_bytes(instance, metadata_url=metadata_url))
    except Conflict:  # another process of this cluster was first; whether it is ours is checked now
        check_marker(instance, await objects.get(marker_key(instance)))
    return await mark_instance(metadata, instance)


def process_faults() -> FaultPoints:
    """The fault points of this process; one of them is armed by FRAZIL_FAULT."""
    return FaultPoints(_killer(planned_fault()))


def _mid_put(faults: FaultPoints, key: str) -> None:
    """Half of an object is written: B2 for a bundle, P2 for a data file."""
    if key.startswith("bundles/"):
        faults.reach("B2")
    elif key.endswith(".parquet"):
        faults.reach("P2")


class _Killer:
    """Dies at the n-th passage of one point, as kill -9 would."""

    def __init__(self, fault: PlannedFault) -> None:
        self._fault = fault
        self._left = fault.passage

    def __call__(self, point: str) -> None:
        if point != self._fault.point:
            return
        self._left -= 1
        if self._left == 0:
            if self._fault.marker:
                pathlib.Path(self._fault.marker).write_text(point, encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)


def _killer(fault: PlannedFault | None) -> _Killer | None:
    return None if fault is None else _Killer(fault)
