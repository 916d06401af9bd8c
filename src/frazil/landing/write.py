"""Stage write: typed rows → Parquet data files of the table, one per partition.

A file that no commit names is nobody's and is cleaned up by care.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from frazil.catalogs.files import DataFile
from frazil.catalogs.port import LoadedTable
from frazil.catalogs.schema import NO_RENAMES, SchemaChange, plan_schema
from frazil.landing.lake import Lake


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """Every key of a slice, once. Its rows from before the slice go with the commit of the slice."""

    keys: pa.Table
    write: str
    """``positions``, ``equality`` or ``copy``."""
    ordered: bool = False
    """The keys were chosen by looking at the table's rows, so these must not have changed since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Files waiting for their commit, and the schema they were written by when it differs from the table's."""

    files: tuple[DataFile, ...]
    change: SchemaChange | None
    touched: Touched | None = None
    """Of a table with one row per key: what the rows take the place of."""


async def write_rows(lake: Lake, table: LoadedTable, rows: pa.Table, *, renames: Mapping[str, str] = NO_RENAMES) -> Written:
    """Stores ``rows``. ``renames``: columns that are called otherwise from now on (``catalogs.schema.plan_schema``).

    There is no deadline for all of it, since a slice may become thousands of files; each has one.

    Raises Refused when the table cannot take the columns of the rows, RetryLater on passing trouble of the store.
    """
    change = plan_schema(table, rows.schema, renames)
    if rows.num_rows == 0:
        return Written(files=(), change=change)
    files = await lake.writer.write(table, rows, change=change)
    return Written(files=files, change=change)
