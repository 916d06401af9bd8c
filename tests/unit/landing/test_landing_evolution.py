"""Columns that follow their values, from the log to an independent reader of the table: F31-F37, F40, F43, F49, F60, F94."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from tests.simulation.loop import run_virtual
from tests.unit.landing.world import World, auto_off

from frazil.catalogs.port import CreateTable
from frazil.catalogs.schema import to_arrow
from frazil.kit.errors import Refused
from frazil.landing.convert import full_schema
from frazil.landing.options import check_options
from frazil.metadata.landings import LandingSpec, put_landing
from frazil.schemas import parse_columns
from frazil.schemas.ddl import describe

TABLE = "default.t"
Story = Callable[[World], Awaitable[None]]


def play(story: Story, *, topics: int = 1, columns: tuple[str, ...] = (), **options: str) -> None:
    async def main() -> None:
        world = World()
        names = tuple("t" if at == 0 else f"t{at}" for at in range(topics))
        for name in names:
            await world.topics.create(name, 1)
        spec = LandingSpec(
            table=TABLE, topics=names, columns=columns, options={name.replace("__", "."): value for name, value in options.items()}
        )
        check_options(spec)
        await put_landing(world.store, spec)
        await story(world)

    run_virtual(main())


async def land(world: World, *values: Any) -> None:
    """One slice."""
    texts = [value if isinstance(value, bytes | None) else json.dumps(value).encode() for value in values]
    await world.produce("t", texts)
    await world.land(2, settings=auto_off())


async def columns(world: World) -> dict[str, int]:
    """Names of the value columns with their field ids."""
    table = await world.catalog().load(TABLE)
    schema = next(one for one in table.metadata["schemas"] if one["schema-id"] == table.metadata["current-schema-id"])
    return {field["name"]: field["id"] for field in schema["fields"] if not field["name"].startswith("_") or field["name"] == "_extra"}


async def types(world: World) -> list[str]:
    table = await world.catalog().load(TABLE)
    schema = next(one for one in table.metadata["schemas"] if one["schema-id"] == table.metadata["current-schema-id"])
    return [text for text in describe(to_arrow(schema)) if not text.startswith("_") or text.startswith("_extra")]


async def rows(world: World, *names: str) -> list[tuple[Any, ...]]:
    found = sorted(await world.rows(TABLE), key=lambda row: row["_offset"])
    return [tuple(row.get(name) for name in names) for row in found]


async def dead(world: World) -> list[tuple[int, str]]:
    try:
        found = await world.rows(TABLE + "_dead")
    except Exception:
        return []
    return sorted((row["offset"], row["code"]) for row in found)


HISTORY: tuple[Mapping[str, Any], ...] = ({"id": 1, "v": 7}, {"id": 2}, {"id": 3, "v": "x"}, {"id": 4, "v": 9})


def test_f31_a_column_that_comes_back_with_another_type_has_a_column_beside() -> None:
    async def story(world: World) -> None:
        for record in HISTORY:
            await land(world, record)
        found = await columns(world)
        assert list(found) == ["id", "v", "v__string"] and len(set(found.values())) == 3, "a field id of its own"
        assert await rows(world, "id", "v", "v__string") == [(1, 7, None), (2, None, None), (3, None, "x"), (4, 9, None)]
        assert await dead(world) == []

    play(story, evolve__conflict="suffix")


def test_f31_without_the_option_it_is_a_dead_letter_and_no_stop() -> None:
    async def story(world: World) -> None:
        for record in HISTORY:
            await land(world, record)
        assert await rows(world, "id", "v") == [(1, 7), (2, None), (4, 9)]
        assert await dead(world) == [(2, "wrong-type")]

    play(story)


def test_f31_the_same_in_one_slice_and_inside_structs_lists_and_maps() -> None:
    async def story(world: World) -> None:
        await land(world, *HISTORY)
        await land(world, {"id": 5, "c": {"n": [{"a": 1}]}}, {"id": 6, "c": {"n": [{"a": "one"}]}}, {"id": 7, "c": [1]})
        await land(world, {"id": 8, "c": {"n": "none"}}, {"id": 9, "c": ["two"]}, {"id": 10, "c": [3]})
        assert await types(world) == [
            "id long",
            "v long",
            "v__string string",
            "c struct<n: list<struct<a: long, a__string: string>>, n__string: string>",
            "c__list_long list<long>",
            "c__list_string list<string>",
        ]
        assert await dead(world) == []
        assert (await rows(world, "id", "c__list_long", "c__list_string"))[-3:] == [(8, None, None), (9, None, ["two"]), (10, [3], None)]

    play(story, evolve__conflict="suffix")


def test_f32_a_table_of_somebody_else_with_required_columns_costs_records_not_the_landing() -> None:
    async def story(world: World) -> None:
        values = parse_columns(["id long not null", "tags list<string> not null"])
        await world.catalog().create(TABLE, CreateTable(schema=full_schema(values, metadata_columns=True)))
        await land(world, {"id": 1, "tags": ["a"]}, {"id": 2}, {"id": None, "tags": []}, None, {"id": 3, "tags": [None], "new": 1})
        assert await rows(world, "id", "tags", "new") == [(1, ["a"], None), (3, [None], 1)]
        assert await dead(world) == [(1, "required"), (2, "required"), (3, "null-value")]

    play(story)


def test_f33_new_nested_fields_in_structs_lists_and_maps() -> None:
    async def story(world: World) -> None:
        values = parse_columns(["c struct<id: long>", "l list<struct<id: long>>", "m map<string, struct<id: long>>"])
        await world.catalog().create(TABLE, CreateTable(schema=full_schema(values, metadata_columns=True)))
        await land(world, {"c": {"id": 1}, "l": [{"id": 1}], "m": {"k": {"id": 1}}})
        new = {"id": 2, "d": {"n": "a"}}
        await land(world, {"c": new, "l": [new], "m": {"k": new}}, {"c": None})
        assert await rows(world, "c", "l", "m") == [
            ({"id": 1}, [{"id": 1}], [("k", {"id": 1})]),
            (new, [new], [("k", new)]),
            (None, None, None),
        ]

    play(story)


def test_f34_eight_workers_meet_a_new_field_and_create_a_table_at_once() -> None:
    """One column with one id, one table, no record lost or doubled, whoever wins."""

    async def story(world: World) -> None:
        for step in range(3):
            for topic in range(8):
                name = "t" if topic == 0 else f"t{topic}"
                fields = {"topic": topic, "step": step, **({"new": {"n": step}} if step else {}), **({"newer": 1.5} if step > 1 else {})}
                await world.produce(name, [json.dumps(fields).encode()])
            landings = [world.landing(auto_off()) for _ in range(8)]
            tasks = [asyncio.create_task(landing.run()) for landing in landings]
            await asyncio.sleep(20)
            for landing in landings:
                landing.stop()
            await asyncio.gather(*tasks)
        found = await world.rows(TABLE)
        assert sorted((row["step"], row["topic"]) for row in found) == [(step, topic) for step in range(3) for topic in range(8)]
        assert {row["step"]: row["new"] for row in found} == {0: None, 1: {"n": 1}, 2: {"n": 2}}
        assert list(await columns(world)) == ["topic", "step", "new", "newer"]
        assert await dead(world) == []

    play(story, topics=8)


def test_f34_a_dot_in_a_name_is_told_from_a_path() -> None:
    async def story(world: World) -> None:
        await land(world, b'{"a":{"b":1},"a.b":2}')
        assert await rows(world, "a", "a_b") == [({"b": 1}, 2)]

    play(story)


def test_f35_names_that_differ_only_in_case_are_one_column() -> None:
    async def story(world: World) -> None:
        await land(world, b'{"userId":1}', b'{"userid":2}', b'{"USERID":3}', b'{"userId":4,"userid":5}')
        assert await rows(world, "userId") == [(1,), (2,), (3,)]
        assert await dead(world) == [(3, "ambiguous-name")]

    play(story)


def test_f36_no_type_is_guessed_from_empties() -> None:
    async def story(world: World) -> None:
        await land(world, b'{"a":null,"b":[],"c":{}}')
        assert await types(world) == []
        await land(world, b'{"a":1,"b":[{"x":1}],"c":{"y":true}}', b'{"b":[null,{"x":2}]}')
        assert await types(world) == ["a long", "b list<struct<x: long>>", "c struct<y: boolean>"]
        assert (await rows(world, "a", "b", "c"))[1:] == [(1, [{"x": 1}], {"y": True}), (None, [None, {"x": 2}], None)]

    play(story)


@pytest.mark.parametrize("declared", [(), ("id decimal(20,0)",)])
def test_f40_integers_past_64_bits(declared: tuple[str, ...]) -> None:
    async def story(world: World) -> None:
        await land(world, b'{"id":9223372036854775807}', b'{"id":9223372036854775808}', b'{"id":10.0}', b'{"id":10.5}')
        wanted = [9223372036854775807, *([9223372036854775808] if declared else []), 10]
        assert [int(row[0]) for row in await rows(world, "id")] == wanted
        codes = [(3, "not-exact")] if declared else [(1, "out-of-range"), (3, "not-exact")]
        assert await dead(world) == codes

    async def inferred(world: World) -> None:
        await land(world, b'{"id":1}')
        await world.produce("t", [b'{"id":9223372036854775807}', b'{"id":9223372036854775808}', b'{"id":10.0}', b'{"id":10.5}'])
        await world.land(2, settings=auto_off())
        assert [row[0] for row in await rows(world, "id")] == [1, 9223372036854775807, 10]
        assert await dead(world) == [(2, "out-of-range"), (4, "not-exact")]

    play(story if declared else inferred, columns=declared)


def test_f43_null_empty_and_absent_are_three_things() -> None:
    async def story(world: World) -> None:
        await land(world, {"a": "x", "s": {"b": 1}}, None, {"a": ""}, {"a": None}, {}, b"", {"s": {}})
        found = await rows(world, "_offset", "a", "s")
        assert found == [
            (0, "x", {"b": 1}), (1, None, None), (2, "", None), (3, None, None), (4, None, None), (6, None, {"b": None}),
        ]  # fmt: skip
        assert await dead(world) == [(5, "empty")]

    play(story)


def test_f60_a_record_of_four_thousand_keys_leaves_a_table_that_can_be_committed() -> None:
    wide = {f"k{at}": at for at in range(4000)}

    async def story(world: World) -> None:
        await land(world, {"a": 1, "c": {"x": 1}})
        await land(world, wide, {"a": 2, "c": {"y": 1.50, "x": 3}, "k3999": [], "_extra": "mine"})
        await land(world, b'{"a":3,"k3999":1.50,"k0":7}', {"a": 4})
        assert len(await columns(world)) == 20 - 1 + 1, "nested x counts; the column for the rest does not"
        found = await rows(world, "a", "c", "k0", "_extra")
        assert found[0] == (1, {"x": 1}, None, None)
        assert found[2] == (2, {"x": 3}, None, '{"c":{"y":1.5},"k3999":[],"_extra":"mine"}')
        assert found[3:] == [(3, None, 7, '{"k3999":1.50}'), (4, None, None, None)]
        rest = json.loads(found[1][3])
        assert len(rest) == 4000 - (20 - 3) and {name: wide[name] for name in rest} == rest
        assert await dead(world) == []

    play(story, evolve__columns_max="20", evolve__overflow="_extra")


def test_f60_without_the_option_the_record_is_a_dead_letter() -> None:
    async def story(world: World) -> None:
        await land(world, {"a": 1}, {f"k{at}": at for at in range(4000)})
        assert await rows(world, "a") == [(1,)]
        assert await dead(world) == [(1, "too-many-columns")]

    play(story)


@pytest.mark.parametrize("unknown", ["ignore", "deadletter"])
def test_unknown_fields_are_left_out_or_dead_letters(unknown: str) -> None:
    async def story(world: World) -> None:
        await land(world, {"a": 1, "c": {"x": 1}})
        await land(world, {"a": 2, "b": 1}, {"a": 3, "c": {"x": 2, "y": 1}}, {"a": 4, "b": None}, {"a": 5, "b": []}, {"a": 6.0})
        assert await types(world) == ["a long", "c struct<x: long>"]
        kept = [row[0] for row in await rows(world, "a")]
        if unknown == "ignore":
            assert kept == [1, 2, 3, 4, 5, 6] and await dead(world) == []
        else:
            assert kept == [1, 4, 6] and await dead(world) == [(1, "unknown-field"), (2, "unknown-field"), (4, "unknown-field")]

    play(story, evolve__unknown=unknown)


def test_declared_columns_and_one_for_all_the_rest() -> None:
    async def story(world: World) -> None:
        await land(world, {"a": 1, "b": {"c": [1, 2.5]}}, {"a": 2}, {"a": "x", "b": 1})
        assert await rows(world, "a", "rest") == [(1, '{"b":{"c":[1,2.5]}}'), (2, None)]
        assert await dead(world) == [(2, "wrong-type")]

    play(story, columns=("a long",), evolve__overflow="rest")


def test_f94_a_column_renamed_by_rule_keeps_its_id_and_its_old_values() -> None:
    async def story(world: World) -> None:
        await land(world, {"a": 1, "user": "ann"})
        before = await columns(world)
        spec = LandingSpec(table=TABLE, topics=("t",), options={"evolve.rename": "user:customer"})
        await put_landing(world.store, spec)
        both = {"a": 5, "user": "x", "customer": "y"}
        await land(world, {"a": 2, "customer": "bob"}, {"a": 3, "user": "late"}, {"a": 4, "User": "LATE"}, both)
        after = await columns(world)
        assert list(after) == ["a", "customer"] and after["customer"] == before["user"]
        assert await rows(world, "a", "customer") == [(1, "ann"), (2, "bob"), (3, "late"), (4, "LATE")]
        assert await dead(world) == [(4, "ambiguous-name")]
        schemas = len((await world.catalog().load(TABLE)).metadata["schemas"])
        await land(world, {"a": 6, "user": "later"})
        assert len((await world.catalog().load(TABLE)).metadata["schemas"]) == schemas, "renamed once"

    play(story)


def test_a_rename_onto_a_column_that_is_there_is_named_and_changes_nothing() -> None:
    async def story(world: World) -> None:
        await land(world, {"user": "ann", "customer": 1})
        await put_landing(world.store, LandingSpec(table=TABLE, topics=("t",), options={"evolve.rename": "user:customer"}))
        await land(world, {"user": "bob"})
        status = await world.status(TABLE)
        assert status.state == "failed" and "both" in status.reason
        assert await rows(world, "user", "customer") == [("ann", 1)]

    play(story)


def test_f31_a_column_dropped_from_the_table_comes_back_only_where_columns_are_added() -> None:
    async def drop(world: World) -> None:
        table = await world.catalog().load(TABLE)
        schema = table.metadata["schemas"][-1]
        fields = [field for field in schema["fields"] if field["name"] != "v"]
        change = {**schema, "schema-id": schema["schema-id"] + 1, "fields": fields}
        updates = [{"action": "add-schema", "schema": change}, {"action": "set-current-schema", "schema-id": -1}]
        await world.catalog().commit(TABLE, table, [], updates)

    async def story(world: World) -> None:
        await land(world, {"id": 1, "v": 7})
        old = (await columns(world))["v"]
        await drop(world)
        await land(world, {"id": 2, "v": "text"})
        assert (await columns(world))["v"] != old
        assert await rows(world, "id", "v") == [(1, None), (2, "text")], "never the old values under the new column"
        await drop(world)
        await put_landing(world.store, LandingSpec(table=TABLE, topics=("t",), options={"evolve.unknown": "ignore"}))
        await land(world, {"id": 3, "v": 8})
        assert list(await columns(world)) == ["id"]

    play(story)


@pytest.mark.parametrize(
    ("options", "columns", "value", "why"),
    [
        ({"evolve.conflict": "cast"}, (), "json", "use one of"),
        ({"evolve.conflict": "suffix"}, ("a long",), "json", "declared"),
        ({"evolve.conflict": "suffix", "evolve.unknown": "ignore"}, (), "json", "evolve.unknown=add"),
        ({"evolve.unknown": "add"}, ("a long",), "json", "declared"),
        ({"evolve.unknown": "deadletter", "evolve.overflow": "x"}, (), "json", "choose one"),
        ({"evolve.overflow": ""}, (), "json", "empty"),
        ({"evolve.overflow": "a.b"}, (), "json", "dot"),
        ({"evolve.overflow": "_Offset"}, (), "json", "metadata column"),
        ({"evolve.rename": "a"}, (), "json", "old:new"),
        ({"evolve.rename": "a:b,a:c"}, (), "json", "twice"),
        ({"evolve.rename": "a:b,b:c"}, (), "json", "old name and a new one"),
        ({"evolve.rename": "a:A"}, (), "json", "old name and a new one"),
        ({"evolve.rename": "_topic:x"}, (), "json", "metadata column"),
        ({"evolve.columns_max": "0"}, (), "json", "1 to 10000"),
        ({"evolve.unknown": "ignore"}, (), "raw", "never changes"),
    ],
)
def test_r07_options_that_cannot_be_are_refused_before_anything_lands(
    options: dict[str, str], columns: tuple[str, ...], value: str, why: str
) -> None:
    with pytest.raises(Refused, match=why):
        check_options(LandingSpec(table=TABLE, topics=("t",), value=value, columns=columns, options=options))
