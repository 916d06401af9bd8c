"""Looks at this installation, the stores and the broker, and says what it finds."""

from __future__ import annotations

import pathlib
import platform
import shutil
import sys
import tempfile

from frazil import __version__
from frazil.admin.port import Finding, TableRow
from frazil.assembly.catalogs import catalog_address, catalog_properties, kind_of
from frazil.assembly.cloud import cloud_access, flush_policy, in_cloud
from frazil.assembly.memory import broker_bounds, landing_bounds, sum_of
from frazil.assembly.packages import package_troubles, requirements
from frazil.assembly.settings import FrazilSettings
from frazil.assembly.stores import addresses_of
from frazil.assembly.tables import open_tables
from frazil.assembly.verbs import open_kafka
from frazil.catalogs import CatalogDeps, open_catalog
from frazil.catalogs.opening import WITH_PROPERTIES
from frazil.kit.chance import system_chance
from frazil.kit.clock import SystemClock
from frazil.kit.errors import FrazilError
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.kernel import KERNEL_VERSION, kernel_trouble
from frazil.kit.plugins import load_backend
from frazil.kit.settings import without_user
from frazil.kit.tasks import ThreadOffload
from frazil.metadata.cluster import MARKER_PREFIX
from frazil.objects import open_objects
from frazil.query import Platform

_FREE_BYTES_LOW = 1024**3


async def examine(settings: FrazilSettings) -> tuple[Finding, ...]:
    """Every finding; a problem never hides the ones after it."""
    findings = [
        Finding(level="ok", about="frazil", text=f"{__version__} on Python {platform.python_version()}, {sys.platform}"),
        *_packages(),
        _kernel(),
        _duckdb(),
        _disk(settings),
        *_memory(settings),
        *(Finding(level="ok", about="store", text=text) for text in _addresses(settings)),
        *await _bucket(settings),
        *await _catalog(settings),
        await _broker(settings),
        *await _tables(settings),
    ]
    return tuple(findings)


def _packages() -> list[Finding]:
    """Are the packages beside us those that were tested?"""
    wanted = requirements()
    troubles = package_troubles(wanted)
    if not troubles:
        return [Finding(level="ok", about="packages", text=f"{len(wanted)} packages, all of versions that were tested")]
    return [Finding(level="problem", about="packages", text=trouble) for trouble in troubles]


def _kernel() -> Finding:
    if trouble := kernel_trouble():
        return Finding(level="note", about="kernel", text=f"{trouble}; records are decoded in Python, several times slower")
    return Finding(level="ok", about="kernel", text=f"native kernel {KERNEL_VERSION} decodes")


def _duckdb() -> Finding:
    try:
        engine: Platform = load_backend("frazil.platforms", "duckdb")()
        answer = engine.run("SELECT extension_name FROM duckdb_extensions() WHERE loaded AND extension_name = 'iceberg'", ())
    except FrazilError as error:
        return Finding(level="problem", about="sql", text=str(error))
    if not answer.rows:
        return Finding(level="problem", about="sql", text="DuckDB did not load its Iceberg extension; reinstall frazil")
    return Finding(level="ok", about="sql", text="DuckDB with its Iceberg extension answers")


def _disk(settings: FrazilSettings) -> Finding:
    directory = pathlib.Path(settings.data_dir).resolve()
    place = directory if directory.is_dir() else directory.parent
    try:
        with tempfile.NamedTemporaryFile(dir=place):
            free = shutil.disk_usage(place).free
    except OSError as error:
        return Finding(level="problem", about="disk", text=f"{place} cannot be written: {error.strerror}; choose another data_dir")
    level = "ok" if free >= _FREE_BYTES_LOW else "problem"
    return Finding(level=level, about="disk", text=f"{directory}: {free / 1024**3:.1f} GiB free")


def _memory(settings: FrazilSettings) -> list[Finding]:
    """What each process may hold; the machine's memory is beside it for the eye."""
    found = []
    for process, bounds in (("broker", broker_bounds(settings)), ("landing", landing_bounds(settings))):
        parts = ", ".join(f"{bound.setting} {bound.bytes_max >> 20}" for bound in bounds)
        found.append(Finding(level="ok", about="memory", text=f"{process} holds at most {sum_of(bounds) >> 20} MiB of data ({parts})"))
    return found


def _addresses(settings: FrazilSettings) -> tuple[str, str, str]:
    addresses = addresses_of(settings)
    shown = [without_user(address) for address in (addresses.objects, addresses.metadata, addresses.catalog)]
    return f"objects {shown[0]}", f"metadata {shown[1]}", f"catalog {shown[2]}"


async def _bucket(settings: FrazilSettings) -> list[Finding]:
    """Does the cloud store answer with these keys? Nothing is written."""
    if not in_cloud(settings):
        return []
    offload, clock = ThreadOffload("frazil-doctor"), SystemClock()
    try:
        objects = open_objects(settings.store.objects, offload=offload, clock=clock, access=cloud_access(settings))
        began_ms = clock.monotonic_ms()
        markers = [info.key async for info in objects.list(MARKER_PREFIX)]
        took_ms = clock.monotonic_ms() - began_ms
    except FrazilError as error:
        return [Finding(level="problem", about="bucket", text=str(error))]
    finally:
        offload.close()
    policy = flush_policy(settings)
    owner = "holds a cluster" if markers else "holds no cluster yet"
    text = f"answers in {took_ms:.0f} ms, {owner}; bundles are cut every {policy.interval_ms} ms, {policy.inflight} at once"
    return [Finding(level="ok", about="bucket", text=text)]


async def _catalog(settings: FrazilSettings) -> list[Finding]:
    """Does the catalog let us in, if it is elsewhere? Nothing is written."""
    if kind_of(catalog_address(settings)) not in WITH_PROPERTIES:
        return []
    offload, clock, chance = ThreadOffload("frazil-doctor"), SystemClock(), system_chance()
    try:
        objects = open_objects("memory:", offload=offload, clock=clock)
        deps = CatalogDeps(objects=objects, offload=offload, clock=clock, chance=chance, faults=FaultPoints())
        catalog = open_catalog(catalog_address(settings), deps, catalog_properties(settings))
        try:
            began_ms = clock.monotonic_ms()
            tables = await catalog.list(settings.landing.namespace)
            took_ms = clock.monotonic_ms() - began_ms
            read_only = (await catalog.load(tables[0])).read_only if tables else ""
        finally:
            await catalog.close()
    except FrazilError as error:
        return [Finding(level="problem", about="catalog", text=str(error))]
    finally:
        offload.close()
    if read_only:
        return [Finding(level="problem", about="catalog", text=read_only)]
    text = f"lets us in and answers in {took_ms:.0f} ms; {len(tables)} table(s) in {settings.landing.namespace}"
    return [Finding(level="ok", about="catalog", text=text)]


async def _broker(settings: FrazilSettings) -> Finding:
    host = settings.broker.advertised_host or settings.broker.host
    port = settings.broker.advertised_port or settings.broker.port
    try:
        async with open_kafka(host, port) as kafka:
            topics = await kafka.list_topics()
    except FrazilError as error:
        return Finding(level="note", about="broker", text=str(error))
    return Finding(level="ok", about="broker", text=f"{host}:{port} answers; {len(topics)} topic(s)")


async def _tables(settings: FrazilSettings) -> list[Finding]:
    try:
        async with open_tables(settings) as tables:
            rows = await tables.status()
    except FrazilError as error:
        return [Finding(level="note", about="tables", text=str(error))]
    found = [Finding(level="ok" if row.state in ("running", "idle") else "problem", about=row.table, text=_sentence(row)) for row in rows]
    return found or [Finding(level="note", about="tables", text="no table is landed yet")]


def _sentence(row: TableRow) -> str:
    text = f"{row.state}, lag {row.lag_records} records"
    if row.dead_letters:
        text += f", {row.dead_letters} dead letters in {row.table}_dead"
    if row.reason:
        text += "; " + ": ".join(part for part in (row.stage, row.reason) if part)
    return text
