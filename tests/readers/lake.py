"""The tables under test, landed by the product itself: a real broker and landing, JSON records in several commits, a schema that changes
between them, bad records in between; and one table of doubles that JSON cannot say, written by landing's own file writer.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import pathlib
import random
import time
from dataclasses import dataclass, field
from typing import Any

import confluent_kafka
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import DecimalType, DoubleType, LongType, StringType
from tests.compat.process import Processes, frazil
from tests.readers.parted import land_parted
from tests.readers.values import COLUMNS, Chunk, Row, json_text

from frazil.catalogs import CatalogDeps, Committer, CreateTable, Landed, open_catalog
from frazil.catalogs.write import FileWriter
from frazil.kit.clock import SystemClock
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.tasks import ThreadOffload
from frazil.objects.opening import open_objects

PARTITIONS = 3
BAD = (b"", b"{", b'{"i": "1", "req": 1}', b'{"req": 1.5}', b"\xff\xfe", b'{"i": 1}', b'{"req": 1, "s": "\\ud800"}', b"[1]")


@dataclass
class Lake:
    """Where the tables are, and what was produced into them."""

    directory: pathlib.Path
    tables: dict[str, dict[tuple[int, int], Row]] = field(default_factory=dict)
    """Expected rows by (partition, offset); a table that is only read has an empty mapping."""
    dead: int = 0

    def catalog(self) -> SqlCatalog:
        return SqlCatalog("frazil", uri=f"sqlite:///{self.directory}/data/catalog.db")


def land(directory: pathlib.Path, *, seed: int, chunks: int, records: int) -> Lake:
    """Lands every table. ``chunks``: commits of the wide table; ``records``: records of each."""
    lake = Lake(directory)
    with Processes(directory, settings=["landing.commit_interval_ms=1000"]) as processes:
        processes.start("dev")
        _wide(lake, processes, seed, chunks, records)
        _inferred(lake, processes, seed)
        _clock(lake, processes)
        assert processes.stop("dev") == 0, processes.log("dev")[-3000:]
        assert "Traceback" not in processes.log("dev"), processes.log("dev")[-3000:]
    asyncio.run(_floats(lake))
    asyncio.run(_parted(lake, seed))
    return lake


def _run(processes: Processes, *arguments: str) -> None:
    done = frazil("-d", str(processes.directory / "data"), "-b", processes.bootstrap, *arguments, timeout_s=90)
    assert done.returncode == 0, done.stderr


class _Topic:
    """Produces into one topic and knows which record went where."""

    def __init__(self, processes: Processes, name: str) -> None:
        self._producer = confluent_kafka.Producer({"bootstrap.servers": processes.bootstrap, "linger.ms": 20, "compression.type": "lz4"})
        self.name = name
        self.places: list[tuple[int, int]] = []

    def send(self, number: int, value: bytes | None, *, key: bytes | None = None, headers: Any = None, at_ms: int = 0) -> None:
        place = len(self.places)
        self.places.append((-1, -1))

        def delivered(error: Any, message: Any) -> None:
            assert error is None, error
            self.places[place] = (message.partition(), message.offset())

        self._producer.produce(
            self.name, value, key, partition=number % PARTITIONS, headers=headers or [], timestamp=at_ms, on_delivery=delivered
        )
        self._producer.poll(0)

    def flush(self) -> list[tuple[int, int]]:
        """Where the records sent since the last flush are."""
        assert self._producer.flush(30) == 0
        places, self.places = self.places, []
        return places


def _wide(lake: Lake, processes: Processes, seed: int, chunks: int, records: int) -> None:
    """``lake.wide``: declared columns of every type Spark has too; widened and extended between commits as its owner may do."""
    _run(
        processes,
        "table",
        "create",
        "lake.wide",
        "-t",
        "wide",
        "--commit-interval-ms",
        "1000",
        *(a for c in COLUMNS for a in ("--column", c)),
    )
    _run(processes, "topic", "create", "wide", "-p", str(PARTITIONS))
    expected: dict[tuple[int, int], Row] = {}
    topic = _Topic(processes, "wide")
    chance = random.Random(seed)
    for number in range(chunks):
        rows = Chunk(number, seed).rows(records)
        now_ms = 1_700_000_000_000 + number * 60_000
        sent: list[tuple[Row, dict[str, Any]]] = []
        for at, row in enumerate(rows):
            key = None if chance.random() < 0.3 else bytes((number,)) + chance.randbytes(chance.randrange(20))
            headers = [("h", chance.randbytes(3)), ("h", None), ("ü", b"")][: chance.randrange(4)]
            when = now_ms + chance.randrange(50_000)
            topic.send(at, json_text(row, ascii_only=at % 2 == 0).encode(), key=key, headers=headers, at_ms=when)
            stamp = datetime.datetime.fromtimestamp(when // 1000, datetime.UTC).replace(microsecond=when % 1000 * 1000)
            beside = {"_topic": "wide", "_timestamp": stamp, "_key": key, "_headers": [{"key": k, "value": v} for k, v in headers]}
            sent.append((row, beside))
        places = topic.flush()
        for (row, beside), place in zip(sent, places, strict=True):
            expected[place] = {**row, **beside}
        for at, bad in enumerate(BAD[: 1 + number % len(BAD)]):
            topic.send(at, bad)
            lake.dead += 1
        topic.flush()
        _run(processes, "land", "wait", "lake.wide")
        if number == chunks // 2:
            _evolve(lake)
    lake.tables["lake.wide"] = expected
    lake.tables["lake.wide_dead"] = {}


def _evolve(lake: Lake) -> None:
    """Every promotion Iceberg allows and a new column, by another program, while landing runs."""
    for _ in range(20):
        try:
            with lake.catalog().load_table("lake.wide").update_schema() as update:
                update.update_column("i", LongType())
                update.update_column("f", DoubleType())
                update.update_column("dec9", DecimalType(18, 2))
                update.add_column("later", StringType())
            return
        except Exception as error:  # landing committed in between
            last = error
            time.sleep(0.2)
    raise AssertionError(f"the schema could not be changed: {last!r}")


def _inferred(lake: Lake, processes: Processes, seed: int) -> None:
    """``lake.inferred``: lands by itself, columns from the values, new ones in later commits."""
    chance = random.Random(seed)
    _run(processes, "topic", "create", "inferred", "-p", str(PARTITIONS))
    topic = _Topic(processes, "inferred")
    expected: dict[tuple[int, int], Row] = {}
    for number in range(4):
        rows = []
        for _ in range(60):
            row: Row = {
                "id": number * 100 + chance.randrange(60),
                "price": chance.randrange(-999, 999) / 8 + 0.0625,
                "name": f"n{number}\ud7ff{chance.random()}",
            }
            if number >= 1:
                row |= {"ok": chance.random() < 0.5, "where": {"lat": chance.random(), "city": chance.choice(("", "Ö", "\U0010ffff"))}}
            if number >= 2:
                row |= {
                    "where": {"lat": None, "city": "x" * 20, "zip": {"code": chance.randrange(9) + number}},
                    "tags": ["a", f"t{number}"],
                }
            if chance.random() < 0.2:
                row["id"] = None
            rows.append(row)
        for at, row in enumerate(rows):
            topic.send(at, json_text(row).encode(), key=str(at).encode())
        expected |= dict(zip(topic.flush(), rows, strict=True))
        _run(processes, "land", "wait", "lake.inferred")
    lake.tables["lake.inferred"] = expected


def _clock(lake: Lake, processes: Processes) -> None:
    """``lake.clock``: the one type Spark has not (time), in a table of its own."""
    _run(
        processes,
        "table",
        "create",
        "lake.clock",
        "-t",
        "clock",
        "--commit-interval-ms",
        "1000",
        "--column",
        "n long",
        "--column",
        "tm time",
    )
    _run(processes, "topic", "create", "clock", "-p", str(PARTITIONS))
    topic = _Topic(processes, "clock")
    expected: dict[tuple[int, int], Row] = {}
    for number in range(3):
        times = [f"{(number * 8 + at % 8):02}:{at % 60:02}:59.{at * 1007 % 1_000_000:06}" for at in range(40)]
        times[:2] = ["00:00:00", "23:59:59.999999"] if number == 1 else times[:2]
        rows: list[Row] = [{"n": at, "tm": None if at % 7 == 6 else text} for at, text in enumerate(times)]
        for at, row in enumerate(rows):
            topic.send(at, json_text(row).encode())
        expected |= dict(zip(topic.flush(), rows, strict=True))
        _run(processes, "land", "wait", "lake.clock")
    lake.tables["lake.clock"] = {
        place: {"n": row["n"], "tm": None if row["tm"] is None else datetime.time.fromisoformat(row["tm"])}
        for place, row in expected.items()
    }


FLOATS = (
    (0.0, 1.0, None), (-0.0, -0.0), (0.0,), (float("nan"), 1.0, 2.0), (float("nan"), float("nan")), (float("inf"), 5.0),
    (float("-inf"), float("inf"), float("nan"), None), (5e-324, -5e-324, -0.0), (None, None), (1.7976931348623157e308, 3.5), (-7.25, -6.5),
)  # fmt: skip


async def _floats(lake: Lake) -> None:
    """``lake.floats``: NaN, infinities and both zeros, one file per group of values, as landing's writer and committer store them."""
    data = lake.directory / "data"
    clock, offload = SystemClock(), ThreadOffload("readers")
    objects = open_objects(f"file://{data}/objects", offload=offload, clock=clock)
    deps = CatalogDeps(objects=objects, offload=offload, clock=clock, chance=random.Random(1), faults=FaultPoints())
    catalog = open_catalog(f"sql://{data}/catalog.db", deps)
    small: pa.DataType = pa.float32()
    fields: list[tuple[str, pa.DataType]] = [
        ("_kafka_partition", pa.int32()), ("_offset", pa.int64()), ("d", pa.float64()), ("g", small),
        ("in", pa.struct([("x", pa.float64())])),
    ]  # fmt: skip
    schema = pa.schema(fields)
    await catalog.create("lake.floats", CreateTable(schema=schema))
    writer, committer = FileWriter(deps), Committer(catalog, deps)
    expected: dict[tuple[int, int], Row] = {}
    for number, values in enumerate(FLOATS):
        rows: list[Row] = []
        for at in range(len(values) * 3):
            value = values[at % len(values)]
            single = None if value is None else pa.scalar(value, pa.float64()).cast(small).as_py()
            rows.append({"_kafka_partition": number, "_offset": at, "d": value, "g": single, "in": {"x": value}})
        table = await catalog.load("lake.floats")
        files = await writer.write(table, pa.Table.from_pylist(rows, schema=schema))
        await committer.commit(Landed(base=table, files=files))
        expected |= {(row["_kafka_partition"], row["_offset"]): {k: v for k, v in row.items() if k[0] != "_"} for row in rows}
    lake.tables["lake.floats"] = expected


async def _parted(lake: Lake, seed: int) -> None:
    data = lake.directory / "data"
    clock, offload = SystemClock(), ThreadOffload("parted")
    objects = open_objects(f"file://{data}/objects", offload=offload, clock=clock)
    deps = CatalogDeps(objects=objects, offload=offload, clock=clock, chance=random.Random(3), faults=FaultPoints())
    lake.tables["lake.parted"] = await land_parted(f"sql://{data}/catalog.db", deps, seed=seed, records=12)
    offload.close()


PLANTED = "b" * 20


async def plant_wrong_bound(lake: Lake) -> None:
    """``lake.planted``: a file whose upper bound of ``text`` is cut and not raised: readers must be seen to lose rows."""
    data = lake.directory / "data"
    clock, offload = SystemClock(), ThreadOffload("planted")
    objects = open_objects(f"file://{data}/objects", offload=offload, clock=clock)
    deps = CatalogDeps(objects=objects, offload=offload, clock=clock, chance=random.Random(2), faults=FaultPoints())
    catalog = open_catalog(f"sql://{data}/catalog.db", deps)
    schema = pa.schema([("_kafka_partition", pa.int32()), ("_offset", pa.int64()), ("text", pa.string())])
    await catalog.create("lake.planted", CreateTable(schema=schema))
    table = await catalog.load("lake.planted")
    rows = [{"_kafka_partition": 0, "_offset": at, "text": text} for at, text in enumerate(("a", PLANTED))]
    (file,) = await FileWriter(deps).write(table, pa.Table.from_pylist(rows, schema=schema))
    text_id = next(field["id"] for field in table.metadata["schemas"][-1]["fields"] if field["name"] == "text")
    wrong = dataclasses.replace(file, upper_bounds={**file.upper_bounds, text_id: b"b" * 16})
    await Committer(catalog, deps).commit(Landed(base=table, files=(wrong,)))
