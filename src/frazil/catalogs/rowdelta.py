"""Replaces rows by key: what has to be deleted so that new rows of the same keys stand alone.

Three ways, one commit each. Positions: the old rows are looked up and deleted by place; every reader takes that, at little
cost. Equality: a file of keys, nothing is looked up; cheap to write, dear to read until it is folded (``catalogs/rewrite.py``). Copy: the
files that hold old rows are written again without them; for small tables.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from frazil.catalogs.arrow import ArrowArray
from frazil.catalogs.commit import Committer
from frazil.catalogs.deletes import POSITION, DeleteWriter, Place
from frazil.catalogs.files import DataFile
from frazil.catalogs.keys import PLACE, Hits, KeyFinder, key_columns, storage
from frazil.catalogs.live import Live, LiveFiles, runs_of
from frazil.catalogs.manifests import Entry
from frazil.catalogs.port import LoadedTable
from frazil.catalogs.removal import Removal, Remover
from frazil.catalogs.rows import RowReader
from frazil.catalogs.schema import SchemaChange, arrow_schema
from frazil.catalogs.write import FileWriter
from frazil.kit.errors import Refused
from frazil.kit.tasks import spawn

KEYS_SUMMARY: Final = "frazil.upsert-key"
"""Snapshot summary: JSON list of the columns that make a row the same row."""
CACHE_BYTES: Final = 256 * 1024 * 1024
"""Key columns kept in memory, for all tables of one catalog."""
_LANES: Final = 2
_compute: Any = pc


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """Files that make old rows go: delete files, or rewritten data files and what they stand for."""

    files: tuple[DataFile, ...] = ()
    removal: Removal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How many rows of a table may be deleted by place before a commit writes files without them: DuckDB takes 0.6 µs for each."""

    share: float = 0.01
    rows_min: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Rows of one head that are to go. ``heavy``: the files that had better be written again."""

    live: Live
    hits: tuple[Hits, ...]
    heavy: frozenset[str]


Places: TypeAlias = dict[Place, dict[str, list[ArrowArray]]]
"""By partition and data file, places in it."""


class RowDelta:
    """Finds and deletes rows by key, in the tables of one catalog."""

    def __init__(self, committer: Committer, writer: FileWriter, *, cache_bytes: int = CACHE_BYTES) -> None:
        deps = committer.deps
        self.files = LiveFiles(deps.objects, committer.lists, deps.offload)
        self.finder = KeyFinder(deps.objects, deps.offload, bytes_max=cache_bytes)
        self.reader = RowReader(deps, self.files)
        self.remover = Remover(committer, self.files)
        self.deletes = DeleteWriter(deps)
        self.writer = writer
        self._offload = deps.offload

    async def look(self, table: LoadedTable, keys: pa.Table, bounds: Bounds | None) -> Found:
        """The live rows with these keys. ``bounds``: above them files are to be written again; None: never. Raises Corrupt, RetryLater."""
        live, hits = await self._find(table, keys)
        dead = await self.files.dead(live.deletes) if hits and live.deletes else {}
        if dead:
            # Naming them again would make a key that changes often dearer with each change.
            rows = [(hit, _without(hit, dead.get(hit.entry.file.path))) for hit in hits]
            hits = [replace(hit, rows=left) for hit, left in rows if left.num_rows]
        return Found(live=live, hits=tuple(hits), heavy=_heaviest(live, hits, dead, bounds))

    async def positions(self, table: LoadedTable, found: Found) -> Delta:
        """Deletes by place what was found in this head; files that have too many such rows are written without them, in the same commit."""
        light = [hit for hit in found.hits if hit.entry.file.path not in found.heavy]
        files = await self.delete_hits(table, light) if light else ()
        if not found.heavy:
            return Delta(files=files)
        places = {hit.entry.file.path: hit.rows.column(PLACE).combine_chunks() for hit in found.hits}
        copied = await self._copied(table, found.live, [entry for entry in found.live.data if entry.file.path in found.heavy], places)
        return replace(copied, files=(*copied.files, *files))

    async def delete_hits(self, table: LoadedTable, hits: Iterable[Hits]) -> tuple[DataFile, ...]:
        """Position deletes of rows that were found: one file per partition that has some."""
        by_place: dict[Place, dict[str, ArrowArray]] = {}
        for hit in hits:
            file = hit.entry.file
            places = hit.rows.column(PLACE).combine_chunks()
            by_path = by_place.setdefault(Place(spec_id=file.spec_id, partition=file.partition), {})
            known = by_path.get(file.path)
            by_path[file.path] = places if known is None else _compute.unique(pa.concat_arrays([known, places]))
        return tuple([await self.deletes.positions(table, places, place) for place, places in by_place.items()])

    async def equality(self, table: LoadedTable, keys: pa.Table, change: SchemaChange | None) -> Delta:
        """Deletes by key, blindly. Raises Refused where they would not reach all partitions (F18), RetryLater."""
        live = await self.files.of(table)
        if not live.data:
            return Delta()
        found = [await self.deletes.equality(table, keys, Place(spec_id=_unpartitioned(table)), change=change)]
        return Delta(files=tuple(found))

    async def copy(self, table: LoadedTable, keys: pa.Table) -> Delta:
        """Writes the files with old rows again, without them. Raises Corrupt, Refused, RetryLater."""
        live, hits = await self._find(table, keys)
        places = {hit.entry.file.path: hit.rows.column(PLACE).combine_chunks() for hit in hits}
        return await self._copied(table, live, [hit.entry for hit in hits], places) if hits else Delta()

    async def _copied(self, table: LoadedTable, live: Live, entries: Sequence[Entry], gone: Mapping[str, ArrowArray]) -> Delta:
        """The files without the rows at the places ``gone``, and what else that changes."""
        deletes = await self.reader.deletes(live)
        dead = {**deletes.dead, **{path: pa.concat_arrays([deletes.dead.get(path, places[:0]), places]) for path, places in gone.items()}}
        deletes = replace(deletes, dead=dead)
        paths = {entry.file.path for entry in entries}
        waiting, made = iter(entries), list[DataFile]()

        async def lane() -> None:
            for entry in waiting:
                rows = await self.reader.surviving(table, entry, deletes)
                made.extend(await self.writer.write(table, rows, spec_id=entry.file.spec_id) if rows.num_rows else ())

        lanes = [spawn(f"copy {table.ident} {number}", lane()) for number in range(_LANES)]
        try:
            await asyncio.gather(*lanes)
        finally:
            for task in lanes:
                task.cancel()
            await asyncio.gather(*lanes, return_exceptions=True)
        outdated, kept = await self.without(live.of_content(POSITION), paths)
        files = await self.write_places(table, kept)
        self.finder.forget(paths)
        return Delta(files=(*made, *files), removal=await self.remover.plan(table, live, {*paths, *outdated}))

    async def without(self, positions: Sequence[Entry], gone: Collection[str]) -> tuple[set[str], Places]:
        """Position deletes that are about files that go, and what else they say."""
        outdated: set[str] = set()
        kept: Places = {}
        for entry in positions:
            runs = runs_of(await self.files.places(entry))
            if not any(path in gone for path, _ in runs):
                continue
            outdated.add(entry.file.path)
            place = Place(spec_id=entry.file.spec_id, partition=entry.file.partition)
            for path, places in runs:
                if path not in gone:
                    kept.setdefault(place, {}).setdefault(path, []).append(places)
        return outdated, kept

    async def write_places(self, table: LoadedTable, kept: Places) -> list[DataFile]:
        """One position delete file for each partition."""
        files: list[DataFile] = []
        for place, by_path in kept.items():
            places = {path: _compute.unique(pa.concat_arrays(parts)) for path, parts in by_path.items()}
            files.append(await self.deletes.positions(table, places, place))
        return files

    async def newer(self, table: LoadedTable, keys: pa.Table, names: Sequence[str], order: str, given: str) -> ArrowArray:
        """Which of ``keys`` (numbers) are not older than their row in the table. ``given``: their order; ``order``: its column."""
        live, hits = await self._find(table, keys.select(names), order)
        deletes = await self.reader.deletes(live)
        if deletes.equality and hits:
            raise Refused(
                f"table {table.ident} has equality deletes of another writer; ordering by {order} cannot go on before they are folded"
            )
        found = [_without(hit, deletes.dead.get(hit.entry.file.path)).select([*names, order]) for hit in hits]
        return await self._offload.run(lambda: _newer(keys, found, list(names), order, given))

    async def _find(self, table: LoadedTable, keys: pa.Table, *extra: str) -> tuple[Live, list[Hits]]:
        live = await self.files.of(table)
        have = arrow_schema(table)
        names = [*keys.column_names, *extra]
        if any(name not in have.names for name in names):
            return live, []  # columns that come with this commit: no row has them yet
        return live, await self.finder.find(live.data, keys, key_columns(have, names))


def _heaviest(live: Live, hits: Sequence[Hits], dead: Mapping[str, ArrowArray], bounds: Bounds | None) -> frozenset[str]:
    """The files with the largest part of deleted rows, so many that half of what is allowed is left in the others."""
    if bounds is None:
        return frozenset()
    counts = {path: len(places) for path, places in dead.items()}
    for hit in hits:
        counts[hit.entry.file.path] = counts.get(hit.entry.file.path, 0) + hit.rows.num_rows
    most = max(bounds.rows_min, bounds.share * sum(entry.file.record_count for entry in live.data))
    left = sum(counts.get(entry.file.path, 0) for entry in live.data)
    chosen: set[str] = set()
    if left <= most:
        return frozenset()
    for entry in sorted(live.data, key=lambda entry: -counts.get(entry.file.path, 0) / entry.file.record_count):
        if left <= most / 2:
            break
        chosen.add(entry.file.path)
        left -= counts.get(entry.file.path, 0)
    return frozenset(chosen)


def _unpartitioned(table: LoadedTable) -> int:
    """A spec without fields: equality deletes of it are for all partitions."""
    for spec in table.metadata["partition-specs"]:
        if not spec["fields"]:
            return int(spec["spec-id"])
    raise Refused(
        f"table {table.ident} was always partitioned: an equality delete would be about one partition, and a row that moves to another "
        "would stay in the old one too; use upsert.write=positions or copy (R23)"
    )


def _without(hit: Hits, dead: Any) -> pa.Table:  # noqa: ANN401 - an Arrow array
    if dead is None or not len(dead):
        return hit.rows
    return hit.rows.filter(_compute.invert(_compute.is_in(hit.rows.column(PLACE), value_set=dead)))


def _newer(keys: pa.Table, found: Sequence[pa.Table], names: list[str], order: str, given: str) -> ArrowArray:
    at = "__which"
    wanted = storage(keys).select([*names, given])
    numbers: Any = pa.array(range(keys.num_rows), pa.int64())
    if not found:
        return numbers
    joined = wanted.append_column(at, numbers).join(pa.concat_tables(found), names, join_type="inner", use_threads=False)
    older = joined.filter(_compute.less(joined.column(given), joined.column(order))).column(at)
    return numbers.filter(_compute.invert(_compute.is_in(numbers, value_set=older.combine_chunks())))
