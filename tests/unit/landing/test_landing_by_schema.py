"""Avro, Protobuf and JSON by schema id from produce to table: types read back, a registry that is away, writers old and new."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.loop import run_virtual
from tests.standins.schema_registry import SchemaRegistry, reply
from tests.unit.landing.oracle import MergingOracle
from tests.unit.landing.world import World, auto_off
from tests.unit.schemas.avro_cases import CASES, framed

from frazil.kit.errors import Refused, RetryLater
from frazil.landing.options import check_options
from frazil.metadata.landings import LandingSpec, put_landing
from frazil.records import build_batch
from frazil.records.building import BatchOptions, Record
from frazil.schemas.registry import RegistryClient
from frazil.schemas.registry.answers import Answer

TABLE = "default.t"


class Registry(SchemaRegistry):
    """The stand-in without its socket: asked directly, under virtual time. ``away`` answers 503, ``silent`` not at all."""

    def __init__(self) -> None:
        super().__init__()
        super().close()
        self.silent = False

    async def get(self, path: str) -> Answer:
        await asyncio.sleep(3600 if self.silent else 0.001)
        status, body, headers = self.answer("/" + path, "")
        return Answer(status=status, body=body, retry_after=headers.get("retry_after", ""))

    async def close(self) -> None:  # type: ignore[override]
        return


def play(story: Callable[[World, Registry, RegistryClient], Awaitable[None]], **spec: Any) -> None:
    async def main() -> None:
        world, registry = World(), Registry()
        await world.topics.create("t", 1)
        await put_landing(world.store, LandingSpec(table=TABLE, topics=("t",), value="avro", **spec))
        await story(world, registry, RegistryClient(registry, world.clock))

    run_virtual(main())


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def test_f41_every_type_is_read_back_from_the_table_by_another_reader() -> None:
    cases = [case for case in CASES if case.column]
    fields = [{"name": f"c{at}", "type": case.schema} for at, case in enumerate(cases)]
    schema = {"type": "record", "name": "All", "fields": fields}
    rows = max(len(case.written) for case in cases)

    async def story(world: World, registry: Registry, client: RegistryClient) -> None:
        number = registry.register("t-value", schema)
        values = [{f"c{at}": case.written[row % len(case.written)] for at, case in enumerate(cases)} for row in range(rows)]
        await world.produce("t", [framed(number, schema, value) for value in values])
        await world.land(settings=auto_off(), registry=client)
        found = sorted(await world.rows(TABLE), key=lambda row: row["_offset"])
        assert len(found) == rows
        for row, landed in enumerate(found):
            for at, case in enumerate(cases):
                wanted = case.read[row % len(case.read)]
                got = landed[f"c{at}"]
                assert got == wanted or str(got) == str(wanted) or getattr(got, "bytes", got) == getattr(wanted, "bytes", 0), (
                    case.schema,
                    got,
                )

    play(story)


def test_f42_a_registry_that_is_away_pauses_and_nothing_is_called_bad() -> None:
    schema = record(a="int")

    async def story(world: World, registry: Registry, client: RegistryClient) -> None:
        number = registry.register("t-value", schema)
        registry.fault = lambda _: reply(503, {})
        await world.produce("t", [framed(number, schema, {"a": at}) for at in range(10)])
        landing = world.landing(auto_off(), registry=client)
        task = asyncio.create_task(landing.run())
        await asyncio.sleep(60)
        status = await world.status(TABLE)
        assert (status.state, status.stage) == ("stalled", "registry")
        assert "503" in status.reason
        assert len(registry.seen) < 300, "a growing pause, not a flood"
        registry.fault = lambda _: None
        await asyncio.sleep(10)
        assert [row["a"] for row in await world.rows(TABLE)] == list(range(10))
        assert (await world.status(TABLE)).rows_rejected == 0
        landing.stop()
        await task

    play(story)


def test_f42_a_registry_that_never_answers_is_named_and_left() -> None:
    schema = record(a="int")

    async def story(world: World, registry: Registry, client: RegistryClient) -> None:
        number = registry.register("t-value", schema)
        registry.silent = True
        await world.produce("t", [framed(number, schema, {"a": 1})])
        landing = world.landing(auto_off(), registry=client)
        task = asyncio.create_task(landing.run())
        await asyncio.sleep(45)
        status = await world.status(TABLE)
        assert (status.state, status.stage) == ("stalled", "registry")
        landing.stop()
        await task
        await client.close()

    play(story)


def test_f42_ids_the_registry_does_not_know_are_dead_letters_and_one_question() -> None:
    schema = record(a="int")

    async def story(world: World, registry: Registry, client: RegistryClient) -> None:
        number = registry.register("t-value", schema)
        good, unknown = framed(number, schema, {"a": 1}), framed(999, schema, {"a": 2})
        for _ in range(5):
            await world.produce("t", [good, *[unknown] * 200])
            await world.land(2, settings=auto_off(), registry=client)
        assert len(await world.rows(TABLE)) == 5
        letters = await world.rows(TABLE + "_dead")
        assert len(letters) == 1000
        assert {(letter["code"], letter["value"]) for letter in letters} == {("unknown-schema", unknown)}
        assert "999" in letters[0]["reason"]
        assert registry.seen.count("/schemas/ids/999") == 1

    play(story)


def test_writers_old_and_new_land_in_one_table_that_grows() -> None:
    old, new = record(a="int"), record(a=["null", "long"], b="string")

    async def story(world: World, registry: Registry, client: RegistryClient) -> None:
        first = registry.register("t-value", old)
        await world.produce("t", [framed(first, old, {"a": 1})])
        await world.land(3, settings=auto_off(), registry=client)
        second = registry.register("t-value", new)
        await world.produce("t", [framed(second, new, {"a": 2**40, "b": "x"}), framed(first, old, {"a": 3}), None, b"junk"])
        await world.land(3, settings=auto_off(), registry=client)
        found = sorted(await world.rows(TABLE), key=lambda row: row["_offset"])
        assert [(row["a"], row.get("b")) for row in found] == [(1, None), (2**40, "x"), (3, None), (None, None)]
        (letter,) = await world.rows(TABLE + "_dead")
        assert (letter["offset"], letter["code"], letter["value"]) == (4, "not-framed", b"junk")

    play(story)


def test_declared_columns_make_the_table_before_the_first_record() -> None:
    schema = record(a="int", more="string")

    async def story(world: World, registry: Registry, client: RegistryClient) -> None:
        number = registry.register("t-value", schema)
        await world.land(2, settings=auto_off(), registry=client)
        await world.produce("t", [framed(number, schema, {"a": 1, "more": "x"})])
        await world.land(3, settings=auto_off(), registry=client)
        (row,) = await world.rows(TABLE)
        assert row["a"] == 1 and "more" not in row

    play(story, columns=("a long",))


def test_a_landing_that_needs_a_registry_is_refused_without_one() -> None:
    async def story(world: World, _: Registry, __: RegistryClient) -> None:
        await world.land(2, settings=auto_off())
        status = await world.status(TABLE)
        assert status.state == "failed" and "registry.url" in status.reason

    play(story)


def test_a_kill_between_any_two_stages_neither_loses_nor_doubles() -> None:
    schema = record(a="int")

    async def story(world: World, registry: Registry, client: RegistryClient) -> None:
        number = registry.register("t-value", schema)
        for point in ("P1", "P3", "P4", "P5", "P7"):
            await world.produce("t", [framed(number, schema, {"a": 1}), b"junk", framed(999, schema, {"a": 1})])
            await world.land_until_killed(point, settings=auto_off(), seconds=5, registry=client)
            await world.land(4, settings=auto_off(), registry=client)
        assert await world.offsets(TABLE) == [0, 3, 6, 9, 12]
        assert sorted(letter["offset"] for letter in await world.rows(TABLE + "_dead")) == [1, 2, 4, 5, 7, 8, 10, 11, 13, 14]

    play(story)


def test_an_outage_that_raises_is_an_outage_too() -> None:
    schema = record(a="int")

    class Broken(Registry):
        async def get(self, path: str) -> Answer:
            raise RetryLater("no route")

    async def main() -> None:
        world, registry = World(), Broken()
        await world.topics.create("t", 1)
        await put_landing(world.store, LandingSpec(table=TABLE, topics=("t",), value="avro"))
        await world.produce("t", [framed(1, schema, {"a": 1})])
        await world.land(4, settings=auto_off(), registry=RegistryClient(registry, world.clock))
        status = await world.status(TABLE)
        assert (status.stage, status.reason) == ("registry", "no route")

    run_virtual(main())


def test_json_with_a_schema_takes_the_same_way() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "number"}, "at": {"type": "string", "format": "date-time"}}}

    async def story(world: World, registry: Registry, client: RegistryClient) -> None:
        number = registry.register("t-value", schema, kind="JSON")
        prefix = b"\0" + number.to_bytes(4, "big")
        await put_landing(world.store, LandingSpec(table=TABLE, topics=("t",), value="json-schema"))
        await world.produce(
            "t", [prefix + b'{"a": 1}', prefix + b'{"a": 1.5, "at": "2025-07-01T00:00:00Z"}', b"{}", framed(7, "int", 1), None]
        )
        await world.land(3, settings=auto_off(), registry=client)
        found = sorted(await world.rows(TABLE), key=lambda row: row["_offset"])
        assert [(row["a"], str(row["at"])[:10]) for row in found] == [(1.0, "None"), (1.5, "2025-07-01"), (None, "None")]
        letters = sorted(await world.rows(TABLE + "_dead"), key=lambda letter: letter["offset"])
        assert [(letter["offset"], letter["code"]) for letter in letters] == [(2, "not-framed"), (3, "unknown-schema")]

    play(story)


def test_protobuf_takes_the_same_way() -> None:
    shared = 'syntax = "proto3"; package s; message Money { int64 units = 1; uint64 nanos = 2; }'
    text = 'syntax = "proto3"; import "money.proto"; message M { int32 id = 1; s.Money price = 2; map<string, int32> tags = 3; }'

    async def story(world: World, registry: Registry, client: RegistryClient) -> None:
        registry.register("money", shared, kind="PROTOBUF")
        number = registry.register("t-value", text, kind="PROTOBUF", references=[{"name": "money.proto", "subject": "money", "version": 1}])
        prefix = b"\0" + number.to_bytes(4, "big") + b"\0"
        await put_landing(world.store, LandingSpec(table=TABLE, topics=("t",), value="protobuf"))
        good = prefix + b"\x08\x05\x12\x02\x08\x07\x1a\x05\x0a\x01k\x10\x01"
        await world.produce("t", [good, prefix, prefix + b"\x08", None])
        await world.land(3, settings=auto_off(), registry=client)
        found = sorted(await world.rows(TABLE), key=lambda row: row["_offset"])
        assert [(row["id"], row["tags"]) for row in found] == [(5, [("k", 1)]), (0, []), (None, None)]
        assert [None if row["price"] is None else (row["price"]["units"], int(row["price"]["nanos"])) for row in found] == [
            (7, 0),
            None,
            None,
        ]
        (letter,) = await world.rows(TABLE + "_dead")
        assert (letter["offset"], letter["code"], letter["value"]) == (2, "not-protobuf", prefix + b"\x08")

    play(story)


def test_texts_and_numbers_land_as_what_they_are() -> None:
    async def main() -> None:
        world = World()
        for kind, value, wanted in (("string", b"\xe6\x97\xa5", "日"), ("long", bytes(6) + b"\x01\0", 256)):
            await world.topics.create(kind, 1)
            await put_landing(world.store, LandingSpec(table=f"default.{kind}s", topics=(kind,), value=kind))
            await world.produce(kind, [value, None, b"\xff"])
            await world.land(4, settings=auto_off())
            assert [row["value"] for row in sorted(await world.rows(f"default.{kind}s"), key=lambda row: row["_offset"])] == [wanted, None]
            (letter,) = await world.rows(f"default.{kind}s_dead")
            assert (letter["offset"], letter["value"]) == (2, b"\xff")

    run_virtual(main())


def test_keys_are_text_or_numbers_and_a_wrong_one_costs_its_record() -> None:
    def batch(*keys: bytes | None) -> bytes:
        records = [Record(key=key, value=b'{"a": %d}' % at, timestamp_ms=1000 + at) for at, key in enumerate(keys)]
        return bytes(build_batch(records, options=BatchOptions()))

    async def main() -> None:
        world = World()
        for kind, keys, wanted in (
            ("string", (b"x", None, b"\xff", b""), ["x", None, ""]),
            ("long", (bytes(7) + b"\x05", None, b"\xff", b"\xff" * 8), [5, None, -1]),
        ):
            await world.topics.create(kind, 1)
            spec = LandingSpec(table=f"default.{kind}k", topics=(kind,), options={"key": kind})
            await put_landing(world.store, spec)
            await world.append(kind, 0, batch(*keys))
            await world.land(4, settings=auto_off())
            found = sorted(await world.rows(spec.table), key=lambda row: row["_offset"])
            assert [(row["_key"], row["a"]) for row in found] == list(zip(wanted, (0, 1, 3), strict=True))
            (letter,) = await world.rows(spec.table + "_dead")
            assert (letter["offset"], letter["key"], letter["reason"][:5]) == (2, b"\xff", "key: ")
            await put_landing(world.store, replace(spec, options={}))
            await world.append(kind, 0, batch(b"y"))
            await world.land(4, settings=auto_off())
            status = await world.status(spec.table)
            assert status.state == "failed" and "_key" in status.reason, "a column never changes its type"

    run_virtual(main())


def test_an_option_key_that_cannot_work_is_refused() -> None:
    spec = LandingSpec(table="a.b", topics=("t",), options={"key": "string"})
    check_options(spec)
    for bad in (replace(spec, options={"key": "avro"}), replace(spec, metadata_columns=False)):
        with pytest.raises(Refused, match="option key"):
            check_options(bad)


@pytest.mark.parametrize("mode", ["upsert", "append"])
def test_f19_debezium_events_in_avro_are_applied_or_kept_with_their_operation(mode: str) -> None:
    row = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "long"}, {"name": "v", "type": ["null", "string"]}]}
    source = {"type": "record", "name": "Source", "fields": [{"name": "lsn", "type": "long"}]}
    schema = record(before=["null", row], after=["null", "Value"], source=source, op="string", ts_ms=["null", "long"])

    def event(op: str, before: Any, after: Any) -> dict[str, Any]:
        return {"before": before, "after": after, "source": {"lsn": 1}, "op": op, "ts_ms": 5}

    events = [
        event("c", None, {"id": 1, "v": "a"}),
        event("c", None, {"id": 2, "v": "b"}),
        event("u", {"id": 1, "v": "a"}, {"id": 1, "v": "c"}),
        event("d", {"id": 2, "v": "b"}, None),
    ]

    async def story(world: World, registry: Registry, client: RegistryClient) -> None:
        number = registry.register("t-value", schema)
        await world.produce("t", [*(framed(number, schema, one) for one in events), None, framed(number, schema, event("t", None, None))])
        await world.land(settings=auto_off(), registry=client)
        oracle = MergingOracle(world.bucket.objects)
        found = sorted(oracle.merged(await world.location(TABLE)), key=lambda line: line["_offset"])
        if mode == "upsert":
            assert [(line["id"], line["v"]) for line in found] == [(1, "c")]
            assert "op" not in found[0] and "source" not in found[0]
        else:
            assert [(line["id"], line["v"], line["_op"]) for line in found] == [
                (1, "a", "c"), (2, "b", "c"), (1, "c", "u"), (2, "b", "d"), (None, None, None),
            ]  # fmt: skip
        assert [letter["code"] for letter in await world.rows(TABLE + "_dead")] == ["operation"]

    options = {"envelope": "debezium", "mode": mode}
    play(story, options={**options, "upsert.key": "id"} if mode == "upsert" else options)
