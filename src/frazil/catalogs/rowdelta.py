"""Replaces rows by key: what has to be deleted so that new rows of the same keys stand alone.

Three ways, one commit each. Positions: the old rows are looked up and deleted by place; every reader takes that, at little
cost. Equality: a file of keys, nothing is looked up; cheap to write, dear to read until it is folded (``catalogs/rewrite.py``). Copy: the
files that hold old rows are written again without them; for small tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from frazil.catalogs.arrow import ArrowArray
from frazil.catalogs.commit import Committer
from frazil.catalogs.deletes import DeleteWriter, Place
from frazil.catalogs.files import DataFile
from frazil.catalogs.keys import PLACE, Hits, KeyFinder, key_columns, storage
from frazil.catalogs.live import Live, LiveFiles
from frazil.catalogs.port import LoadedTable
from frazil.catalogs.removal import Removal, Remover
from frazil.catalogs.rows import RowReader
from frazil.catalogs.schema import SchemaChange, arrow_schema
from frazil.catalogs.write import FileWriter
from frazil.kit.errors import Refused

KEYS_SUMMARY: Final = "frazil.upsert-key"
"""Snapshot summary: JSON list of the columns that make a row the same row."""
CACHE_BYTES: Final = 256 * 1024 * 1024
"""Key columns kept in memory, for all tables of one catalog."""
_compute: Any = pc


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """Files that make old rows go: delete files, or rewritten data files and what they stand for."""

    files: tuple[DataFile, ...] = ()
    removal: Removal | None = None


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

    async def positions(self, table: LoadedTable, keys: pa.Table) -> Delta:
        """Deletes by place. ``keys``: the key columns. Good for the head of ``table`` alone. Raises Corrupt, RetryLater."""
        live, hits = await self._find(table, keys)
        return Delta(files=await self.delete_hits(table, hits)) if hits and live else Delta()

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
        if not hits:
            return Delta()
        deletes = await self.reader.deletes(live)
        made: list[DataFile] = []
        for hit in hits:
            rows = await self.reader.surviving(table, hit.entry, deletes, without=keys)
            made += await self.writer.write(table, rows) if rows.num_rows else ()
        paths = [hit.entry.file.path for hit in hits]
        self.finder.forget(paths)
        return Delta(files=tuple(made), removal=await self.remover.plan(table, live, paths))

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
