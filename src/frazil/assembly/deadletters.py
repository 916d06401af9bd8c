"""The verbs over dead letters: joined from the table verbs, catalogs and the decoders of landing."""

from __future__ import annotations

import datetime
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from frazil.admin.deadletters import DeadLetterAdmin, Letter, LetterCount, LetterFilter, ReplayAnswer
from frazil.assembly.catalogs import storage_options
from frazil.assembly.landing import landing_deps, landing_settings
from frazil.assembly.namedcatalogs import CatalogBook
from frazil.assembly.registry import opened_registry
from frazil.assembly.settings import FrazilSettings
from frazil.assembly.stores import open_stores
from frazil.assembly.tables import TableVerbs
from frazil.kit.errors import Missing
from frazil.landing import LandingDeps, LandingSettings
from frazil.landing.discover import dead_table, discover
from frazil.landing.lake import Lake, Lakes
from frazil.landing.letterbox import LetterBox, Which
from frazil.landing.replay import Replayer
from frazil.log.index import LogIndex
from frazil.metadata.landings import LandingSpec, list_landings


@asynccontextmanager
async def open_dead_letters(settings: FrazilSettings) -> AsyncIterator[DeadLetterAdmin]:
    """Verbs over the stores of ``settings``. Raises Refused when there is no data directory."""
    async with open_stores(settings, create=False) as stores:
        book = CatalogBook(settings, stores.catalog_deps, stores.catalog)
        try:
            await book.refresh(stores.metadata)
            async with opened_registry(settings, stores.clock, (stores.metadata, stores.offload)) as registry:
                index = LogIndex(stores.metadata, shards=stores.instance.shards, producers=False)
                deps = replace(landing_deps(settings, stores, index, book), registry=registry)
                tables = TableVerbs(stores, settings.landing, storage_options(settings), book)
                yield DeadLetterVerbs(tables, deps, landing_settings(settings))
        finally:
            await book.close()


class DeadLetterVerbs:
    """``admin.deadletters.DeadLetterAdmin`` over open stores."""

    def __init__(self, tables: TableVerbs, deps: LandingDeps, settings: LandingSettings) -> None:
        self._tables = tables
        self._deps = deps
        self._settings = settings
        self._lakes = Lakes(deps, settings)

    async def purge(self, table: str, which: LetterFilter, *, execute: bool) -> int:
        """See ``DeadLetterAdmin.purge``."""
        spec = await self._spec(table)
        box = LetterBox(dead_table(table), self._lake(spec), deadline_ms=self._settings.call_deadline_ms)
        return await box.remove(_which(which), execute=execute)

    async def replay(self, table: str, which: LetterFilter, *, execute: bool) -> ReplayAnswer:
        """See ``DeadLetterAdmin.replay``."""
        spec = await self._spec(table)
        done = await Replayer(spec, self._lake(spec), self._deps, self._settings).run(_which(which), execute=execute)
        refused = tuple((code, reason, count) for (code, reason), count in done.refused.most_common())
        return ReplayAnswer(chosen=done.chosen, landed=done.landed, there_already=done.there_already, refused=refused)

    def _lake(self, spec: LandingSpec) -> Lake:
        return self._lakes.find(spec.options.get("catalog", self._settings.catalog))

    async def _spec(self, table: str) -> LandingSpec:
        """The landing of a table, one that came by itself too. Raises Missing."""
        await self._deps.topics.refresh()
        specs = await list_landings(self._deps.store)
        found = discover(specs, self._deps.topics.all(), self._settings.auto, interval_ms=self._settings.commit_interval_ms)
        for spec in found.specs:
            if spec.table == table:
                return spec
        raise Missing(f"no landing into table {table}; `frazil table list` shows those there are")

    async def counts(self, table: str | None) -> tuple[LetterCount, ...]:
        """See ``DeadLetterAdmin.counts``."""
        named = [table] if table is not None else [row.table for row in await self._tables.status() if row.dead_letters]
        return tuple([count for name in named for count in await self._counts_of(name)])

    async def letters(self, table: str, which: LetterFilter, *, most: int) -> tuple[Letter, ...]:
        """See ``DeadLetterAdmin.letters``."""
        answer = await self._ask(
            table, f"SELECT {_COLUMNS} FROM {_name(table)}{_where(which)} ORDER BY failed_at DESC, topic, 2, 3 LIMIT {most}"
        )
        return tuple(_letter(row) for row in answer)

    async def _counts_of(self, table: str) -> list[LetterCount]:
        found = await self._ask(
            table,
            f"SELECT topic, code, count(*), min(failed_at), max(failed_at) FROM {_name(table)} GROUP BY topic, code ORDER BY 3 DESC, 1, 2",
        )
        return [
            LetterCount(table=table, topic=str(topic), code=str(code), letters=_int(count), first_ms=_ms(first), last_ms=_ms(last))
            for topic, code, count, first, last in found
        ]

    async def _ask(self, table: str, question: str) -> Sequence[Sequence[object]]:
        if await self._tables.locate(dead_table(table)) is None:
            raise Missing(f"table {table} has no dead letters: there is no table {dead_table(table)}")
        return (await self._tables.sql(question)).rows


def _which(which: LetterFilter) -> Which:
    return Which(codes=which.codes, topics=which.topics, partition=which.partition, offset=which.offset, before_ms=which.before_ms)


_COLUMNS = 'topic, "partition", "offset", last_offset, "timestamp", code, reason, "key", "value", headers, failed_at'


def _name(table: str) -> str:
    """The dead-letter table of ``table`` as SQL says it."""
    namespace, _, name = dead_table(table).rpartition(".")
    return f"{_quoted(namespace)}.{_quoted(name)}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _where(which: LetterFilter) -> str:
    tests = [f"code IN ({_texts(which.codes)})"] if which.codes else []
    tests += [f"topic IN ({_texts(which.topics)})"] if which.topics else []
    tests += [f'"partition" = {int(which.partition)}'] if which.partition is not None else []
    tests += [f'"offset" <= {int(which.offset)} AND last_offset >= {int(which.offset)}'] if which.offset is not None else []
    tests += [f"failed_at < make_timestamptz({int(which.before_ms) * 1000})"] if which.before_ms is not None else []
    return f" WHERE {' AND '.join(tests)}" if tests else ""


def _texts(words: Sequence[str]) -> str:
    return ", ".join("'" + word.replace("'", "''") + "'" for word in words)


def _letter(row: Sequence[object]) -> Letter:
    topic, partition, offset, last_offset, timestamp, code, reason, key, value, headers, failed_at = row
    return Letter(
        topic=str(topic),
        partition=_int(partition),
        offset=_int(offset),
        last_offset=_int(last_offset),
        timestamp_ms=None if timestamp is None else _ms(timestamp),
        code=str(code),
        reason=str(reason),
        key=_bytes(key),
        value=_bytes(value),
        headers=tuple((str(item["key"]), _bytes(item["value"])) for item in headers) if isinstance(headers, list) else (),
        failed_at_ms=_ms(failed_at),
    )


def _bytes(value: object) -> bytes | None:
    return bytes(value) if isinstance(value, (bytes, bytearray, memoryview)) else None


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0


def _ms(value: object) -> int:
    return round(value.timestamp() * 1000) if isinstance(value, datetime.datetime) else 0
