"""``lake.parted``: a table whose layout changes between commits: every transform over every type that takes it, nulls, times before 1970,
names that are no names elsewhere. Written by landing's file writer and committer.
"""

from __future__ import annotations

import datetime
import decimal
import random
from typing import Final

import pyarrow as pa
from tests.readers.values import Row

from frazil.catalogs import CatalogDeps, Committer, CreateTable, Landed, open_catalog
from frazil.catalogs.layout import plan_layout
from frazil.catalogs.metadata_json import current_schema
from frazil.catalogs.write import FileWriter
from frazil.landing.layout import Layout, parse_partition, parse_sort

FIELDS: Final[list[tuple[str, pa.DataType]]] = [
    ("_kafka_partition", pa.int32()), ("_offset", pa.int64()), ("i", pa.int32()), ("l", pa.int64()), ("ts", pa.timestamp("us", tz="UTC")),
    ("local", pa.timestamp("us")), ("d", pa.date32()), ("s", pa.string()), ("b", pa.binary()), ("dec", pa.decimal128(9, 2)),
    ("big", pa.decimal128(30, 4)), ("ok", pa.bool_()), ("a#b", pa.string()), ("日本", pa.string()), ("in", pa.struct([("x", pa.int64())])),
]  # fmt: skip
# No decimals in identity or truncate: DuckDB reads negative ones of partitions as if they had no sign (docs/limits.md).
LAYOUTS: Final = (
    ("day(ts), bucket(4, l)", "none"),
    ("hour(local), truncate(2, s)", "ts desc nulls last, l"),
    ("month(d), `a#b`, 日本", "s nulls last"),
    ("year(ts), truncate(20, i)", "dec desc"),
    ("bucket(3, s), bucket(3, dec), bucket(3, d)", "bucket(3, s), ts"),
    ("ok, d, bucket(2, ts)", "none"),
    ("void(ts), truncate(3, b)", "big"),
    ("bucket(2, in.x), i, year(local)", "in.x desc nulls first"),
    ("none", "none"),
)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _row(chance: random.Random, number: int, at: int) -> Row:
    def maybe(value: object) -> object:
        return None if chance.random() < 0.15 else value

    def moment() -> datetime.datetime:
        return _EPOCH + datetime.timedelta(microseconds=chance.choice((-1, 0, chance.randrange(-3 * 10**14, 3 * 10**14))))

    inner = maybe({"x": maybe(chance.randrange(-3, 4))})
    return {
        "_kafka_partition": number,
        "_offset": at,
        "i": maybe(chance.randrange(-25, 25)),
        "l": maybe(chance.choice((-1, 0, 2**62, chance.randrange(-9, 9)))),
        "ts": maybe(moment()),
        "local": maybe(moment().replace(tzinfo=None)),
        "d": maybe(moment().date()),
        "s": maybe(chance.choice(("", "a", "ab", "abc", "é日😀x", "é日\uffffx", "zz"))),
        "b": maybe(chance.choice((b"", b"\x00", b"\xff\xff\xff\xff", b"abcd"))),
        "dec": maybe(decimal.Decimal(chance.randrange(-30_000, 30_000)).scaleb(-2)),
        "big": maybe(decimal.Decimal(chance.choice((-1, 1)) * chance.randrange(10**20)).scaleb(-4)),
        "ok": maybe(chance.random() < 0.5),
        "a#b": maybe(chance.choice(("x", "#", "%2F/=?", " "))),
        "日本": maybe(chance.choice(("東京", "x"))),
        "in": inner,
    }


async def land_parted(url: str, deps: CatalogDeps, *, seed: int, records: int) -> dict[tuple[int, int], Row]:
    """The rows by (partition, offset); one commit per layout."""
    catalog = open_catalog(url, deps)
    schema = pa.schema(FIELDS)
    table = await catalog.create("lake.parted", CreateTable(schema=schema))
    writer, committer, chance = FileWriter(deps), Committer(catalog, deps), random.Random(seed)
    expected: dict[tuple[int, int], Row] = {}
    for number, (partition, sort) in enumerate(LAYOUTS):
        change = plan_layout(table, current_schema(table.metadata), Layout(partition=parse_partition(partition), sort=parse_sort(sort)))
        if change is not None:
            table = await catalog.commit(table.ident, table, change.requirements, change.updates)
        rows = [_row(chance, number, at) for at in range(records)]
        files = await writer.write(table, pa.Table.from_pylist(rows, schema=schema))
        assert partition == "none" or len(files) > 1
        await committer.commit(Landed(base=table, files=files))
        table = await catalog.load("lake.parted")
        expected |= {(number, row["_offset"]): {name: value for name, value in row.items() if name[0] != "_"} for row in rows}
    await catalog.close()
    return expected
