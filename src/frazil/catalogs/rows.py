"""Reads the rows of a data file that are still rows: without those that position deletes and equality deletes took away."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from frazil.catalogs.arrow import ArrowArray
from frazil.catalogs.deletes import EQUALITY, POSITION, key_schema
from frazil.catalogs.keys import ascending, read_by_id, storage, unmatched
from frazil.catalogs.live import Live, LiveFiles, applies_by_equality, whole_file
from frazil.catalogs.locations import Locations
from frazil.catalogs.manifests import Entry
from frazil.catalogs.metadata_json import current_schema
from frazil.catalogs.port import CatalogDeps, LoadedTable
from frazil.catalogs.schema import arrow_schema
from frazil.kit.errors import Refused

_KEPT_ROWS_MAX: Final = 2_000_000
_compute: Any = pc


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletes:
    """The deletes of a head: by data file the dead places, and the equality deletes to be compared with."""

    dead: Mapping[str, ArrowArray]
    equality: tuple[Entry, ...]


class RowReader:
    """Reads whole data files. What it read of equality deletes is kept, up to a bound."""

    def __init__(self, deps: CatalogDeps, files: LiveFiles) -> None:
        self._deps = deps
        self._locations = Locations(deps.objects)
        self._files = files
        self._keys: OrderedDict[str, pa.Table] = OrderedDict()

    async def deletes(self, live: Live) -> Deletes:
        """The deletes of a head, read."""
        return Deletes(dead=await self._files.dead(live.of_content(POSITION)), equality=live.of_content(EQUALITY))

    async def surviving(self, table: LoadedTable, entry: Entry, deletes: Deletes) -> pa.Table:
        """The live rows of one file in the table's columns. Raises Corrupt, Refused, RetryLater."""
        groups = await self.keys_against(table, entry, deletes)
        data = await whole_file(self._deps.objects, self._locations, entry.file.path)
        schema = arrow_schema(table)
        dead = deletes.dead.get(entry.file.path)
        return await self._deps.offload.run(lambda: _surviving(data, schema, dead, groups, entry.file.path))

    async def keys_against(self, table: LoadedTable, entry: Entry, deletes: Deletes) -> list[pa.Table]:
        """The keys that delete rows of a file, one table for each set of columns."""
        groups: dict[tuple[int, ...], list[pa.Table]] = {}
        for delete in deletes.equality:
            if applies_by_equality(table, delete, entry):
                groups.setdefault(delete.file.equality_ids or (), []).append(await self._read_keys(table, delete))
        return [pa.concat_tables(tables) for tables in groups.values()]

    async def _read_keys(self, table: LoadedTable, delete: Entry) -> pa.Table:
        path = delete.file.path
        kept = self._keys.get(path)
        if kept is None:
            if not delete.file.equality_ids:
                raise Refused(f"table {table.ident}: the equality delete {path} names no columns; the table is not rewritten")
            schema = key_schema(current_schema(table.metadata), delete.file.equality_ids)
            data = await whole_file(self._deps.objects, self._locations, path)
            kept = await self._deps.offload.run(lambda: storage(read_by_id(data, schema, path)))
            if any(column.null_count for column in kept.columns):
                raise Refused(f"table {table.ident}: the equality delete {path} has nulls; the table is not rewritten")
            self._keys[path] = kept
            while len(self._keys) > 1 and sum(keys.num_rows for keys in self._keys.values()) > _KEPT_ROWS_MAX:
                self._keys.popitem(last=False)
        return kept


def _surviving(data: bytes, schema: pa.Schema, dead: Any, groups: Sequence[pa.Table], where: str) -> pa.Table:  # noqa: ANN401 - Arrow
    rows = read_by_id(data, schema, where)
    if dead is not None and len(dead):
        rows = rows.filter(_compute.invert(_compute.is_in(ascending(rows.num_rows), value_set=dead)))
    for keys in groups:
        columns = storage(rows.select(keys.column_names))
        kept = unmatched(columns, keys)
        if len(kept) < rows.num_rows:
            rows = rows.take(kept)
    return rows
