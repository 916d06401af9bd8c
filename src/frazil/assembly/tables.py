"""The verbs over landed tables: joined from metadata, catalogs and query."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from frazil.admin.port import NewTable, SnapshotRow, SqlAnswer, TableAdmin, TableDetail, TableRow
from frazil.assembly.catalogs import storage_options
from frazil.assembly.namedcatalogs import CatalogBook
from frazil.assembly.routes import count_fed, feeder, is_route, made_by_route
from frazil.assembly.settings import FrazilSettings, LandingSettings
from frazil.assembly.stores import Stores, open_stores
from frazil.catalogs.port import Catalog
from frazil.catalogs.progress import read_progress
from frazil.catalogs.schema import arrow_schema
from frazil.kit.errors import FrazilError, Missing, Refused
from frazil.kit.plugins import load_backend
from frazil.landing.discover import DEAD_SUFFIX, auto_table, dead_table
from frazil.landing.options import check_options
from frazil.metadata.heartbeats import last_beat_ms
from frazil.metadata.landedtables import forget_table
from frazil.metadata.landings import (
    LandingSpec,
    LandingStatus,
    delete_landing,
    get_landing,
    list_landings,
    list_statuses,
    put_landing,
)
from frazil.metadata.routes import forget_route, list_route_tables
from frazil.metadata.topics import Topics
from frazil.query import Platform, TableSource, ask
from frazil.schemas import parse_columns
from frazil.schemas.ddl import describe

_SILENT_MS = 10_000


@asynccontextmanager
async def open_tables(settings: FrazilSettings) -> AsyncIterator[TableAdmin]:
    """Verbs over the stores of ``settings``. Raises Refused when there is no data directory."""
    async with open_stores(settings, create=False) as stores:
        book = CatalogBook(settings, stores.catalog_deps, stores.catalog)
        try:
            yield TableVerbs(stores, settings.landing, storage_options(settings), book)
        finally:
            await book.close()


class TableVerbs:
    """``admin.port.TableAdmin`` over open stores."""

    def __init__(
        self,
        stores: Stores,
        landing: LandingSettings,
        storage: Mapping[str, str] | None = None,
        book: CatalogBook | None = None,
    ) -> None:
        """``storage``: how tables' files in the cluster's own object store are reached, for engines beside us.

        ``book``: catalogs that manifests name; None: there are none.
        """
        self._book = book
        self._stores = stores
        self._landing = landing
        self._storage = storage or {}

    async def status(self) -> tuple[TableRow, ...]:
        """Specs, statuses and the sign of life of landing, joined: a dead process must not look well by its last words."""
        store = self._stores.metadata
        specs = {spec.table: spec.topics for spec in await list_landings(store)}
        statuses = {status.table: status for status in await list_statuses(store)}
        topics = Topics(store, self._stores.clock, self._stores.chance)
        await topics.refresh()
        automatic = {auto_table(self._landing.namespace, topic.name): (topic.name,) for topic in topics.all()}
        feeds: dict[str, tuple[str, ...]] = {}
        for fed in await list_route_tables(store):
            feeds[fed.route] = (*feeds.get(fed.route, ()), fed.table)
        at_ms = await last_beat_ms(store, "landing")
        silent_ms = None if at_ms is None else self._stores.clock.now_ms() - at_ms
        return tuple(
            [
                replace(
                    _row(table, specs.get(table, automatic.get(table, ())), statuses.get(table), silent_ms),
                    dead_letters=await self._dead_letters(table),
                    feeds=feeds.get(table, ()),
                )
                for table in sorted({*specs, *statuses})
            ]
        )

    async def describe(self, table: str) -> TableDetail:
        """Schema, snapshots and progress of one table."""
        catalog = await self._catalog_of(table)
        store = self._stores.metadata
        routed = await is_route(store, table)
        feeds = await list_route_tables(store, table) if routed else ()
        loaded = await catalog.load(dead_table(table) if routed else table)
        schema = arrow_schema(loaded)
        progress = await read_progress(catalog.objects or self._stores.objects, loaded)
        texts = [text.split(" ", 1) for text in describe(schema)]
        return TableDetail(
            table=table,
            metadata_location=loaded.metadata_location,
            columns=tuple((name, kind) for name, kind in texts),
            snapshots=tuple(_snapshot(snapshot) for snapshot in loaded.metadata.get("snapshots", [])),
            progress=tuple((key.topic_id.hex(), key.partition, offset) for key, offset in sorted(progress.items(), key=_order)),
            feeds=await count_fed(catalog, feeds),
        )

    async def create(self, wish: NewTable) -> None:
        """Records a landing. Raises Refused when it cannot work or when another spec writes the table already."""
        parse_columns(wish.columns)
        spec = LandingSpec(
            table=wish.table,
            topics=wish.topics,
            value=wish.value,
            columns=wish.columns,
            metadata_columns=wish.metadata_columns,
            commit_interval_ms=wish.commit_interval_ms or self._landing.commit_interval_ms,
            commit_bytes=self._landing.commit_bytes,
            options=wish.options,
        )
        spec.check()
        check_options(spec)
        if await get_landing(self._stores.metadata, wish.table) is not None:
            raise Refused(f"table {wish.table} already has a landing; drop it first (`frazil table drop {wish.table}`)")
        await put_landing(self._stores.metadata, spec)

    async def alter(self, table: str, changes: Mapping[str, str | None], *, commit_interval_ms: int | None) -> None:
        """Puts a changed landing; the process takes it up within seconds and goes on where the table says."""
        spec = await get_landing(self._stores.metadata, table)
        if spec is None:
            raise Missing(f"no landing into table {table}; one that came by itself gets its own by `frazil table create {table} -t TOPIC`")
        options = {name: value for name, value in {**spec.options, **changes}.items() if value is not None}
        changed = replace(spec, options=options, commit_interval_ms=commit_interval_ms or spec.commit_interval_ms)
        check_options(changed)
        await put_landing(self._stores.metadata, changed)

    async def drop(self, table: str, *, purge: bool) -> None:
        """Ends the landing; with ``purge`` the catalog forgets the table.

        Raises Refused when automatic landing would take the table up again at once.
        """
        spec = await get_landing(self._stores.metadata, table)
        if self._landing.auto and spec is not None and any(auto_table(self._landing.namespace, topic) == table for topic in spec.topics):
            raise Refused(
                f"{table} is the table in which its topic lands by itself, so it would go on at once; "
                f"pause it (`frazil table alter {table} --option paused=true`) or set landing.auto to false"
            )
        store = self._stores.metadata
        catalog = await self._catalog_of(table) if purge else self._stores.catalog
        fed = await list_route_tables(store, table)
        route = await is_route(store, table)
        await delete_landing(store, table)
        await forget_route(store, table)
        if purge and route:
            for ident in await made_by_route(catalog, table, fed):
                await catalog.drop(ident)
                await forget_table(store, ident)
        elif purge:
            await catalog.drop(table)
            await forget_table(self._stores.metadata, table)

    async def sql(self, question: str) -> SqlAnswer:
        """One question over landed tables."""
        platform: Platform = load_backend("frazil.platforms", "duckdb")()
        answer = await ask(question, platform=platform, locate=self.locate, offload=self._stores.offload)
        return SqlAnswer(columns=answer.columns, rows=answer.rows)

    async def _catalog_of(self, table: str) -> Catalog:
        """The catalog that the landing into ``table``, or into the table whose dead letters it holds, names; else the cluster's own."""
        store = self._stores.metadata
        spec = await get_landing(store, table) or await get_landing(store, table.removesuffix(DEAD_SUFFIX)) or await feeder(store, table)
        name = "default" if spec is None else spec.options.get("catalog", "default")
        if name == "default":
            return self._stores.catalog
        catalog = None
        if self._book is not None:
            await self._book.refresh(store)
            catalog = self._book.catalogs.get(name)
        if catalog is None:
            raise Refused(f"table {table}: no catalog {name!r} in this cluster; `frazil apply` its kind: Catalog")
        return catalog

    async def _dead_letters(self, table: str) -> int | None:
        try:
            metadata = (await (await self._catalog_of(table)).load(dead_table(table))).metadata
        except Missing:
            return 0
        except FrazilError:
            return None  # a catalog that is away must not hide how landing is doing
        head = metadata.get("current-snapshot-id")
        return sum(_snapshot(item).total_records for item in metadata.get("snapshots", []) if item["snapshot-id"] == head)

    async def locate(self, name: str) -> TableSource | None:
        """A table of the cluster's catalogs as an engine reads it; None when there is none. Raises Refused, RetryLater."""
        if "." not in name:
            return None
        try:
            catalog = await self._catalog_of(name)
            loaded = await catalog.load(name)
        except Missing:
            return None
        storage = await catalog.reading(loaded) or self._storage
        return TableSource(name=name, metadata_location=loaded.metadata_location, location=loaded.location, storage=storage)


def _row(table: str, topics: tuple[str, ...], status: LandingStatus | None, silent_ms: int | None) -> TableRow:
    row = TableRow(
        table=table,
        topics=", ".join(topics),
        state=status.state if status else "waiting",
        freshness_ms=status.freshness_ms if status else None,
        lag_records=status.behind_records if status else None,
        stage=status.stage if status else "discover",
        reason=status.reason if status else "not taken up yet",
    )
    if silent_ms is None or silent_ms > _SILENT_MS:
        since = "there is no sign of a landing process" if silent_ms is None else f"landing has been silent for {silent_ms // 1000} s"
        return replace(row, state="silent", reason=f"{since}; is `frazil land` running?")
    if status is not None and status.topic and status.reason:
        partition = f"/{status.partition}" if status.partition >= 0 else ""
        return replace(row, reason=f"{status.topic}{partition}: {status.reason}")
    return row


def _order(item: tuple[object, int]) -> str:
    return str(item[0])


def _snapshot(snapshot: Mapping[str, object]) -> SnapshotRow:
    summary = snapshot.get("summary")
    told: Mapping[str, str] = summary if isinstance(summary, dict) else {}
    return SnapshotRow(
        snapshot_id=int(str(snapshot["snapshot-id"])),
        at_ms=int(str(snapshot["timestamp-ms"])),
        operation=told.get("operation", ""),
        added_records=int(told.get("added-records", "0")),
        total_records=int(told.get("total-records", "0")),
    )
