"""F31–F43, F46: schema evolution and type conversion."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.failures.registry import Case, Naive, failure, must
from tests.failures.sinks import Landed, look, ours, text
from tests.failures.stories import TABLE, Running, js, play, status
from tests.standins.schema_registry import reply
from tests.unit.landing.test_landing_by_schema import Registry, record
from tests.unit.landing.world import World, auto, auto_off
from tests.unit.schemas.avro_cases import framed

from frazil.metadata.landings import LandingSpec, put_landing
from frazil.schemas.registry import RegistryClient

# --- F31 --------------------------------------------------------------------------------------------------------------


def by_name_and_cast(*slices: Sequence[dict[str, Any]], **_: str) -> Landed:
    """A column is its name; when a value does not fit, all of it becomes text."""
    rows: list[dict[str, Any]] = []
    for values in slices:
        for value in values:
            kinds = {type(row["v"]) for row in rows if "v" in row}
            if "v" in value and kinds and type(value["v"]) not in kinds:
                rows = [{name: str(each) if name == "v" else each for name, each in row.items()} for row in rows]
            rows.append({name: str(each) if name == "v" and str in kinds else each for name, each in value.items()})
    return Landed(rows=rows)


@failure(
    "F31",
    title="A column is dropped and comes back with another type",
    others="take the name for the identity: a crash loop, or old values under the new column, or a silent cast",
    promise="by policy a column of its own beside the old one (its own field id), or a dead letter; never a stop, never a cast",
    prevented=("frazil.schemas.aside:word_beside", "frazil.schemas.policy:Policy"),
    wrong=Naive("one column per name; everything is cast to what the last value needs", by_name_and_cast, ours),
)
def test_f31_another_type_under_an_old_name(case: Case) -> None:
    slices = [[{"id": 1, "v": 7}], [{"id": 2}], [{"id": 3, "v": "x"}], [{"id": 4, "v": 9}]]
    found = case.way(*slices, evolve__conflict="suffix")
    must(
        found.values() == [{"id": 1, "v": 7}, {"id": 2}, {"id": 3, "v__string": "x"}, {"id": 4, "v": 9}] and not found.stopped,
        "READ",
        found,
    )


# --- F32 --------------------------------------------------------------------------------------------------------------


def required_columns(*slices: Sequence[dict[str, Any]]) -> Landed:
    """Columns are required as the first schema has them; a record without one ends the task."""
    found = Landed()
    required = set(slices[0][0])
    for values in slices:
        for value in values:
            if required - set(value):
                found.stopped = True
                return found
            found.rows.append(value)
    return found


@failure(
    "F32",
    title="A field that the table requires is absent in a valid record",
    others="create required columns from one schema version and stop at the first record without the field",
    promise="columns that the system makes are optional; in somebody else's table with required ones the record is a dead letter",
    prevented=("frazil.landing.convert:full_schema", "frazil.landing.convert:convert"),
    wrong=Naive("columns are as required as the first record's schema says", required_columns, ours),
)
def test_f32_a_missing_field_is_null(case: Case) -> None:
    found = case.way([{"id": 1, "tags": ["a"]}], [{"id": 2}], [{"id": 3, "tags": []}])
    must(not found.stopped and found.column("id") == [1, 2, 3], "LIVE", found)
    must(found.rows[1].get("tags") is None, "READ", found)


# --- F33 --------------------------------------------------------------------------------------------------------------


def top_level(*slices: Sequence[dict[str, Any]]) -> Landed:
    """New columns are looked for at the top only; a struct keeps the fields it was made with."""
    known: dict[str, Any] = {}
    found = Landed()
    for values in slices:
        for value in values:
            for name, each in value.items():
                known.setdefault(name, set(each) if isinstance(each, dict) else None)
            cut = {n: {k: x for k, x in v.items() if k in known[n]} if isinstance(v, dict) else v for n, v in value.items()}
            found.rows.append(cut)
    return found


@failure(
    "F33",
    title="New nested fields are ignored",
    others="compare schemas at the top level only, or only where a value is not null",
    promise="fields inside structs, list elements and map values become columns like those at the top",
    prevented=("frazil.schemas.evolve:evolve", "frazil.catalogs.schema:plan_schema"),
    wrong=Naive("only new columns at the top are noticed", top_level, ours),
)
def test_f33_nested_fields_are_columns(case: Case) -> None:
    new = {"id": 2, "d": {"n": "a"}}
    found = case.way([{"c": {"id": 1}, "l": [{"x": 1}]}], [{"c": new, "l": [{"x": 2, "y": True}]}], [{"c": None}])
    must(found.rows[1]["c"] == new and found.rows[1]["l"] == [{"x": 2, "y": True}], "READ", found)


# --- F34 --------------------------------------------------------------------------------------------------------------


def check_then_add(workers: int) -> tuple[int, list[str]]:
    """Each worker looks, sees no such column, and adds it by its dotted path; a name that exists ends the worker."""
    columns: list[str] = []
    landed = 0
    missing = ["new" not in columns for _ in range(workers)]  # all look before anybody adds
    for worker in range(workers):
        if missing[worker] and "new" in columns:
            continue  # "column already exists": the worker is dead
        columns += ["new"] if missing[worker] else []
        landed += 1
    path = {".".join(name): None for name in (("a", "b"), ("a.b",))}  # {"a":{"b":1},"a.b":2}
    return landed, [*columns, *path]


def optimistic(workers: int) -> tuple[int, list[str]]:
    found: list[tuple[int, list[str]]] = []

    async def story(world: World) -> None:
        names = tuple(f"t{at}" for at in range(workers))
        for name in names:
            await world.topics.create(name, 1)
            await world.produce(name, [js(new=1)] if name != "t0" else [b'{"new":1,"a":{"b":1},"a.b":2}'])
        await put_landing(world.store, LandingSpec(table=TABLE, topics=names))
        landings = [world.landing(auto_off()) for _ in range(workers)]
        tasks = [asyncio.create_task(landing.run()) for landing in landings]
        await asyncio.sleep(15)
        for landing in landings:
            landing.stop()
        await asyncio.gather(*tasks)
        rows = await world.rows(TABLE)
        columns = [name for name in rows[0] if not name.startswith("_")]
        paths = [f"{row['a']} {row['a_b']}" for row in rows if row["a"] is not None]
        found.append(
            (len({row["_topic"] for row in rows if row["new"] == 1}) if len(rows) == workers else 0, [*columns[:1], *paths, "a.b"])
        )

    play(story)
    return found[0]


@failure(
    "F34",
    title="Two actors add the same column or create the same table at once; a name with a dot collides with a path",
    others="check, then add; join paths by dots",
    promise="a schema change is part of the commit that needs it and asserts the schema it was made on; a dot in a name is no path",
    prevented=("frazil.catalogs.schema:SchemaChange", "frazil.catalogs.commit:Committer", "frazil.schemas.names:NameIndex"),
    wrong=Naive("workers look, then add by dotted path", check_then_add, optimistic),
)
def test_f34_eight_workers_one_column(case: Case) -> None:
    landed, columns = case.way(8)
    must(landed == 8, "EO", f"{landed} of 8 workers' records landed")
    must(columns == ["new", "{'b': 1} 2", "a.b"], "READ", columns)


# --- F35 --------------------------------------------------------------------------------------------------------------


def case_sensitive(*slices: Sequence[dict[str, Any]]) -> Landed:
    rows = [value for values in slices for value in values]
    return Landed(rows=rows, columns=[f"{name} long" for name in dict.fromkeys(name for row in rows for name in row)])


@failure(
    "F35",
    title="Names that differ only in case",
    others="match names by another rule than catalog and engines do",
    promise="they are one column, in the case seen first; a record that has two of them is a dead letter",
    prevented=("frazil.schemas.fit:build_fit", "frazil.schemas.names:NameIndex"),
    wrong=Naive("every spelling is a column", case_sensitive, ours),
)
def test_f35_one_column_whatever_the_case(case: Case) -> None:
    found = case.way([{"userId": 1}, {"userid": 2}, {"USERID": 3}, {"userId": 4, "userid": 5}])
    must(len({column.lower() for column in found.columns}) == len(found.columns), "READ", found.columns)
    must(found.column("userId") == [1, 2, 3] and found.dead == [(3, "ambiguous-name")], "EO", found)


# --- F36 --------------------------------------------------------------------------------------------------------------


def guess(*slices: Sequence[dict[str, Any]]) -> Landed:
    """A null is text, an empty list is a list of text: later values of other types end the task."""
    kinds: dict[str, type] = {}
    found = Landed()
    for values in slices:
        for value in values:
            for name, each in value.items():
                kind = str if each in (None, [], {}) else type(each)
                if kinds.setdefault(name, kind) is not kind and each not in (None, [], {}):
                    found.stopped = True
                    return found
            found.rows.append(value)
    return found


@failure(
    "F36",
    title="Types guessed from empty values",
    others="make a column of text from null, and fail when the first number comes",
    promise="null, [] and {} make no column; the first value that has a type does",
    prevented=("frazil.schemas.infer:Growth",),
    wrong=Naive("an empty value is text", guess, ours),
)
def test_f36_empties_make_no_column(case: Case) -> None:
    found = case.way(
        [{"a": None, "b": [], "c": {}}], [{"a": 1, "b": [{"x": 1}], "c": {"y": True}}], [{"b": [None, {"x": 2}]}]
    )  # fmt: skip
    must(not found.stopped and found.columns == ["a long", "b list<struct<x: long>>", "c struct<y: boolean>"], "READ", found)
    must(found.rows[2]["b"] == [None, {"x": 2}], "READ", found)


# --- F37 --------------------------------------------------------------------------------------------------------------


def cast_or_zero(*slices: Sequence[dict[str, Any]], **_: Any) -> Landed:
    """Every value becomes the column's type; what cannot is 0, and what is too long is cut."""

    def fit(value: Any) -> int:
        return int(value) & 0x7FFFFFFF if str(value).isdigit() else 0

    return Landed(rows=[{"qty": fit(value["qty"])} for values in slices for value in values])


@failure(
    "F37",
    title="An incompatible change, and an old producer that goes on",
    others="cast with a default: text in a column of numbers is 0",
    promise="a column widens once; what does not fit is a dead letter or has a column beside, by policy; old producers go on",
    prevented=("frazil.schemas.evolve:evolve", "frazil.schemas.fit:build_fit"),
    wrong=Naive("values are cast to the first type, with 0 for what cannot be", cast_or_zero, ours),
)
def test_f37_no_zero_is_made_up(case: Case) -> None:
    slices = [[{"qty": value}] for value in (1, 3_000_000_000, 2, "four", 5)]
    found = case.way(*slices)
    must(found.column("qty") == [1, 3_000_000_000, 2, 5] and found.dead == [(3, "wrong-type")], "EO", found)


# --- F38 --------------------------------------------------------------------------------------------------------------

TIMES = (
    ("2025-07-01T12:00:00.123456+02:00", 1_751_364_000_123_456),
    ("2025-07-01T10:00:00Z", 1_751_364_000_000_000),
    ("2025-07-01 10:00:00+0000", 1_751_364_000_000_000),
)


@contextmanager
def host_zone(name: str) -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = name
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()


def fixed_pattern(*slices: Sequence[dict[str, Any]], **_: Any) -> Landed:
    """One pattern, no fraction, the host's zone; a number is seconds or milliseconds by its size."""
    rows: list[dict[str, Any]] = []
    for value in (value["t"] for values in slices for value in values):
        if isinstance(value, int):
            seconds = value / 1000 if value > 10**11 else value
        else:
            seconds = time.mktime(time.strptime(re.sub(r"[ T]", " ", value)[:19], "%Y-%m-%d %H:%M:%S"))
        rows.append({"t": datetime.datetime.fromtimestamp(seconds, datetime.UTC)})
    return Landed(rows=rows)


@failure(
    "F38",
    title="Times: text forms, units, zones, precision",
    others="use one pattern, the host's zone, and guess units from magnitude",
    promise="ISO 8601 in its usual spellings, to the microsecond, the same in every host zone; a bare number in a column of times is a"
    " dead letter, since its unit is nobody's to guess",
    prevented=("frazil.schemas.json:JsonDecoder", "frazil.schemas.texts:timestamptz_micros"),
    wrong=Naive("one pattern in the host's zone, units by magnitude", fixed_pattern, ours),
)
def test_f38_times_are_what_they_say(case: Case) -> None:
    for zone in ("UTC", "Asia/Kolkata"):
        with host_zone(zone):
            found = case.way([{"t": text} for text, _ in TIMES] + [{"t": 1_751_364_000_123}], columns=("t timestamptz",))
        micros = [round(value.timestamp() * 1_000_000) for value in found.column("t")]
        must(micros == [wanted for _, wanted in TIMES] and found.dead == [(3, "wrong-type")], "READ", (zone, micros, found.dead))


# --- F39 --------------------------------------------------------------------------------------------------------------


def from_one_value(*slices: Sequence[Any], columns: tuple[str, ...] = ()) -> Landed:
    """Precision and scale of the value at hand; a declared scale rounds."""
    found = Landed()
    for raw in (raw for values in slices for raw in values):
        number = json.loads(raw, parse_float=decimal.Decimal)["n"]
        if columns:
            found.rows.append({"n": number.quantize(decimal.Decimal("0.01"))})
            continue
        _, digits, exponent = number.as_tuple()
        found.columns.append(f"n decimal({len(digits)},{-exponent})")
        found.rows.append({"n": number})
    return found


@failure(
    "F39",
    title="Decimals",
    others="take precision and scale from one value, and round into a declared one",
    promise="a decimal column always has 0 ≤ scale ≤ precision ≤ 38; a value that does not fit exactly is a dead letter",
    prevented=("frazil.schemas.numbers:exact", "frazil.schemas.ddl:parse_columns"),
    wrong=Naive("a decimal's type is that of the value at hand; more digits are rounded", from_one_value, ours),
)
def test_f39_decimals_are_exact(case: Case) -> None:
    found = case.way([b'{"n":0.001}', b'{"n":1E+2}', b'{"n":1E+38}'])
    for column in found.columns:
        if match := re.search(r"decimal\((-?\d+), ?(-?\d+)\)", column):
            precision, scale = int(match[1]), int(match[2])
            must(0 <= scale <= precision <= 38, "RULE", column)
    found = case.way([b'{"n":1.25}', b'{"n":1.255}', b'{"n":12345678901234567890.12}', b'{"n":1E+2}'], columns=("n decimal(22,2)",))
    wanted = [decimal.Decimal(text) for text in ("1.25", "12345678901234567890.12", "100")]
    must(found.column("n") == wanted and found.dead == [(1, "not-exact")], "EO", found)


# --- F40 --------------------------------------------------------------------------------------------------------------


def to_double(*slices: Sequence[bytes], **_: Any) -> Landed:
    return Landed(rows=[{"id": int(json.loads(raw, parse_int=float)["id"])} for values in slices for raw in values])


@failure(
    "F40",
    title="Integers above 2^53 and 2^63, and numbers that look like floats",
    others="parse JSON numbers to double: ids change in their last digits",
    promise="integers are exact or dead letters; 10.0 is 10 in a column of integers, 10.5 is a dead letter",
    prevented=("frazil.schemas.numbers:exact", "frazil.schemas.json:JsonDecoder"),
    wrong=Naive("numbers are doubles", to_double, ours),
)
def test_f40_integers_keep_their_digits(case: Case) -> None:
    numbers = [b'{"id":9223372036854775807}', b'{"id":9223372036854775808}', b'{"id":10.0}', b'{"id":10.5}']
    found = case.way(numbers, columns=("id long",))
    must(found.column("id") == [9223372036854775807, 10] and found.dead == [(1, "out-of-range"), (3, "not-exact")], "EO", found)


# --- F41 --------------------------------------------------------------------------------------------------------------

LOGICAL = {
    "type": "record",
    "name": "Node",
    "fields": [
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "either", "type": ["null", "int", "string"]},
        {"name": "suit", "type": {"type": "enum", "name": "Suit", "symbols": ["SPADES", "HEARTS"]}},
        {"name": "counts", "type": {"type": "map", "values": "double"}},
        {"name": "next", "type": ["null", "Node"]},
    ],
}
LEAF = {
    "day": datetime.date(1969, 12, 31),
    "at": datetime.time(1, 2, 3, 4),
    "price": decimal.Decimal("-12.34"),
    "either": "x",
    "suit": "HEARTS",
    "counts": {"7": 0.5},
    "next": None,
}


def physical(value: dict[str, Any]) -> Landed:
    """Logical types are not looked at, unions lose what is not first, and a type that holds itself has no column."""
    micros = 3_723_000_004
    row = {"day": -1, "at": micros, "price": b"\xfb\x2e", "either": None, "suit": "HEARTS", "counts": [("7", 0.5)]}
    return Landed(rows=[row], columns=["day int", "at long", "price binary", "either int", "suit string", "counts map<string, double>"])


def avro(value: dict[str, Any]) -> Landed:
    found = Landed()

    async def story(world: World) -> None:
        registry = Registry()
        await world.topics.create("t", 1)
        await put_landing(world.store, LandingSpec(table=TABLE, topics=("t",), value="avro"))
        number = registry.register("t-value", LOGICAL)
        await world.produce("t", [framed(number, LOGICAL, value)])
        await world.land(2.5, auto_off(), registry=RegistryClient(registry, world.clock))
        await look(world, found)

    play(story)
    return found


@failure(
    "F41",
    title="Avro and Protobuf logical types, unions, enums, maps, recursion",
    others="look at different annotations for the column and for the value, drop union branches, crash on recursion",
    promise="one mapping for both, printed from the same list (docs/types.md); a type that holds itself is JSON text; nothing is dropped",
    prevented=("frazil.schemas.avro.columns:Wanted", "frazil.schemas.avro.fit:build_fit"),
    wrong=Naive("only physical types are looked at", physical, avro),
)
def test_f41_logical_types_reach_the_table(case: Case) -> None:
    found = case.way({**LEAF, "next": LEAF})
    (row,) = found.rows
    must(row["day"] == LEAF["day"] and row["at"] == LEAF["at"] and row["price"] == LEAF["price"], "READ", row)
    must("x" in str(row["either"]) and row["suit"] == "HEARTS" and dict(row["counts"]) == {"7": 0.5}, "READ", row)
    must(json.loads(row["next"])["suit"] == "HEARTS", "READ", row.get("next"))


# --- F42 --------------------------------------------------------------------------------------------------------------


def ask_each_time(unknown: int) -> tuple[int, int]:
    """Every record asks for its schema; whatever goes wrong is a bad record."""
    away_for, requests, dead = 20, 0, 0
    for _record in range(unknown):
        requests += 1
        dead += requests <= away_for  # 503: "no schema"
    return dead, requests


def ask_once(unknown: int) -> tuple[int, int]:
    found: list[tuple[int, int]] = []
    schema = record(a="int")

    async def story(world: World) -> None:
        registry = Registry()
        await world.topics.create("t", 1)
        await put_landing(world.store, LandingSpec(table=TABLE, topics=("t",), value="avro"))
        number = registry.register("t-value", schema)
        registry.fault = lambda _: reply(503, {})
        await world.produce("t", [framed(number, schema, {"a": at}) for at in range(10)])
        async with Running(world, auto_off(), registry=RegistryClient(registry, world.clock)):
            await asyncio.sleep(30)
            told = await status(world)
            must((told.state, told.stage) == ("stalled", "registry"), "LOUD", told)
            registry.fault = lambda _: None
            await asyncio.sleep(30)
            must(len(await world.rows(TABLE)) == 10, "LIVE", "all good records after the outage")
            dead = (await status(world)).rows_rejected
            await world.produce("t", [framed(999, schema, {"a": 1})] * unknown)
            await asyncio.sleep(10)
            must((await status(world)).rows_rejected == dead + unknown, "EO", "unknown ids are dead letters")
        found.append((dead, registry.seen.count("/schemas/ids/999")))

    play(story)
    return found[0]


@failure(
    "F42",
    title="The schema registry is away, slow, or does not know an id",
    others="tell no outage from a miss, and ask once per record",
    promise="an outage pauses the table, by name, and makes no dead letter; a miss is believed for 30 s, its records are dead letters",
    prevented=("frazil.schemas.registry.client:RegistryClient", "frazil.landing.target:Target"),
    wrong=Naive("each record asks, and an error is a bad record", ask_each_time, ask_once),
)
def test_f42_an_outage_is_no_poison(case: Case) -> None:
    dead, requests = case.way(500)
    must(dead == 0, "EO", f"{dead} good records became dead letters")
    must(requests <= 2, "BOUND", f"{requests} requests for one id")


# --- F43 --------------------------------------------------------------------------------------------------------------


def nothing_is_nothing(*slices: Sequence[Any]) -> Landed:
    rows = [json.loads(text(value) or b"{}") for values in slices for value in values if value]
    return Landed(rows=[{name: each or None for name, each in row.items()} for row in rows])


@failure(
    "F43",
    title="Tombstones, null keys, empty values",
    others="take null, empty and absent for one thing, or crash",
    promise="a tombstone is a row of nulls with its key, an empty text stays empty, an empty value is a dead letter in JSON",
    prevented=("frazil.landing.convert:convert", "frazil.schemas.json:JsonDecoder"),
    wrong=Naive("what is falsy is nothing", nothing_is_nothing, ours),
)
def test_f43_null_empty_and_absent(case: Case) -> None:
    found = case.way([{"a": "x"}, None, {"a": ""}, {"a": None}, b"", {}])
    must(found.column("a") == ["x", None, "", None, None] and found.dead == [(4, "empty")], "READ", found)


# --- F46 --------------------------------------------------------------------------------------------------------------


def schema_first(values: list[bytes | None]) -> list[bytes | None]:
    """A topic without a registered subject has no table."""
    subjects: dict[str, str] = {}
    return values if "blobs-value" in subjects else []


def raw_table(values: list[bytes | None]) -> list[bytes | None]:
    found: list[bytes | None] = []

    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.produce("t", values)
        await world.land(settings=auto("raw"))
        rows = sorted(await world.rows(TABLE), key=lambda row: row["_offset"])
        must(all(row["_timestamp"] is not None and row["_key"] == b"k" for row in rows), "READ", "offset, time, key")
        found.extend(row["value"] for row in rows)

    play(story)
    return found


@failure(
    "F46",
    title="A topic without a schema has no table",
    others="make a table only for a registered subject",
    promise="raw values land as they are, with key, offset, time and headers",
    prevented=("frazil.schemas.raw:RawDecoder", "frazil.landing.discover:discover"),
    wrong=Naive("no subject, no table", schema_first, raw_table),
)
def test_f46_raw_bytes_land(case: Case) -> None:
    values = [bytes(range(256)), b"", None]
    must(case.way(values) == values, "READ", "bytes equal")
