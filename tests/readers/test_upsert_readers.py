"""Tables with one row per key: every reader sees the same rows, with delete files in place and after they are folded.

A history of random changes is committed as landing commits them, with keys of three types, partitions, and rows that move between them;
the judge is a dict. PyIceberg cannot read equality deletes, so there it is asked after the fold.
"""

from __future__ import annotations

import asyncio
import json
import pathlib
import random
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from tests.readers import spark_setup
from tests.readers.engines import Reader

from frazil.catalogs import CatalogDeps, Committer, CreateTable, Landed, LoadedTable, open_catalog
from frazil.catalogs.commit import Committed
from frazil.catalogs.rewrite import Rewriter
from frazil.catalogs.rewriteplan import RewriteSettings
from frazil.catalogs.rowdelta import KEYS_SUMMARY, RowDelta
from frazil.catalogs.write import FileWriter
from frazil.kit.clock import SystemClock
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.tasks import InlineOffload
from frazil.objects.opening import open_objects

pytestmark = [pytest.mark.server, pytest.mark.skipif(bool(spark_setup.missing()), reason=f"Spark: {spark_setup.missing()}")]
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("day", pa.date32()), ("v", pa.int64()), ("text", pa.string())])
KEYS = ["id", "name", "day"]
EAGER = RewriteSettings(dead_share=0.0, dead_rows_min=0, equality_rows_max=0, cheap_files=2)
Row = dict[str, Any]


class Lake:
    """One SQL catalog on disk, and the parts that landing works with."""

    def __init__(self, directory: pathlib.Path) -> None:
        clock = SystemClock()
        objects = open_objects(f"file://{directory}/objects", offload=InlineOffload(), clock=clock)
        deps = CatalogDeps(objects=objects, offload=InlineOffload(), clock=clock, chance=random.Random(5), faults=FaultPoints())
        self.catalog = open_catalog(f"sql://{directory}/catalog.db", deps)
        self.committer = Committer(self.catalog, deps)
        self.writer = FileWriter(deps)
        self.delta = RowDelta(self.committer, self.writer)
        self.rewriter = Rewriter(self.committer, self.delta, EAGER)
        self.foreign = SqlCatalog("frazil", uri=f"sqlite:///{directory}/catalog.db")

    async def change(self, table: LoadedTable, write: str, rows: list[Row], gone: list[Row], keys: list[str]) -> LoadedTable:
        key_schema = pa.schema([SCHEMA.field(name) for name in keys])
        touched = pa.Table.from_pylist([{name: row[name] for name in keys} for row in (*rows, *gone)], schema=key_schema)
        files = await self.writer.write(table, pa.Table.from_pylist(rows, schema=SCHEMA)) if rows else ()
        delta = await (
            self.delta.equality(table, touched, None)
            if write == "equality"
            else self.delta.positions(table, await self.delta.look(table, touched, None))
        )
        landed = Landed(
            base=table, files=(*files, *delta.files), removal=delta.removal, rebase=False, summary={KEYS_SUMMARY: json.dumps(keys)}
        )
        outcome = await self.committer.commit(landed)
        assert isinstance(outcome, Committed)
        return outcome.table


def row(chance: random.Random, keys: list[str], turn: int) -> Row:
    number = chance.randrange(40)
    key = {"id": number, "name": f"n{number % 7}é", "day": 19_000 + number % 5}
    moving = {} if "day" in keys else {"day": 19_000 + chance.randrange(5)}
    return {**key, **moving, "v": turn, "text": f"{turn} {number}"}


async def history(lake: Lake, name: str, write: str, keys: list[str], partitioned: bool) -> dict[tuple[Any, ...], Row]:
    chance = random.Random(f"{name}")
    fields = [{"name": "day", "transform": "identity", "source-id": 3, "field-id": 1000}] if partitioned else []
    table = await lake.catalog.create(name, CreateTable(schema=SCHEMA, partition_spec={"spec-id": 0, "fields": fields}))
    expected: dict[tuple[Any, ...], Row] = {}
    for turn in range(7):
        rows: dict[tuple[Any, ...], Row] = {}
        gone: dict[tuple[Any, ...], Row] = {}
        for _ in range(25):
            one = row(chance, keys, turn)
            key = tuple(one[part] for part in keys)
            deleted = chance.random() < 0.3
            (gone if deleted else rows)[key] = one
            (rows if deleted else gone).pop(key, None)
        table = await lake.change(table, write, list(rows.values()), list(gone.values()), keys)
        for key in gone:
            expected.pop(key, None)
        expected |= rows
    return expected


def texts(found: pa.Table) -> list[str]:
    """Rows in order, days as numbers."""
    days = found.column("day").cast(pa.date32()).cast(pa.int32())
    plain = found.set_column(found.schema.get_field_index("day"), "day", days)
    return sorted(json.dumps({name: one[name] for name in SCHEMA.names}) for one in plain.to_pylist())


@pytest.mark.parametrize(
    ("name", "write", "keys", "partitioned"),
    [
        ("up.equality", "equality", KEYS, False),
        ("up.positions", "positions", ["id"], False),
        ("up.moving", "positions", ["id"], True),
    ],
)
def test_readers_see_one_row_per_key(
    tmp_path: pathlib.Path, readers: list[Reader], name: str, write: str, keys: list[str], partitioned: bool
) -> None:
    lake = Lake(tmp_path)
    expected = asyncio.run(history(lake, name, write, keys, partitioned))
    wanted = sorted(json.dumps(one) for one in expected.values())
    for stage in ("deletes in place", "folded"):
        if stage == "folded":
            asyncio.run(fold(lake, name))
        table = lake.foreign.load_table(name)
        for reader in readers:
            if reader.name == "pyiceberg" and write == "equality" and stage != "folded":
                continue
            for way, found in reader.load(table, name).items():
                assert texts(found) == wanted, f"{way}, {stage}"


async def fold(lake: Lake, name: str) -> None:
    table = await lake.catalog.load(name)
    assert (await lake.delta.files.of(table)).deletes
    await lake.rewriter.pass_once(name)
    live = await lake.delta.files.of(await lake.catalog.load(name))
    assert not live.deletes and live.data
