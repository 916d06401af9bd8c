"""Stage write: typed rows → one Parquet data file of the table. A file that no commit names is nobody's and is cleaned up by care."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from frazil.catalogs.files import DataFile
from frazil.catalogs.port import LoadedTable
from frazil.catalogs.schema import SchemaChange, plan_schema
from frazil.landing.lake import Lake, within


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Files waiting for their commit, and the schema they were written by when it differs from the table's."""

    files: tuple[DataFile, ...]
    change: SchemaChange | None


async def write_rows(lake: Lake, table: LoadedTable, rows: pa.Table, *, deadline_ms: int) -> Written:
    """Stores ``rows``. Raises Refused when the table cannot take their columns, RetryLater on passing trouble of the store."""
    change = plan_schema(table, rows.schema)
    if rows.num_rows == 0:
        return Written(files=(), change=change)
    files = await within(lake.writer.write(table, rows, change=change), deadline_ms, "writing data files")
    return Written(files=files, change=change)
