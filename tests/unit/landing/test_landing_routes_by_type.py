"""Routes by the type of each record: Avro full names, Protobuf messages, titles of JSON Schemas; fields of Avro values."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.simulation.loop import run_virtual
from tests.unit.landing.routes import HOME, ROUTE, spec, started
from tests.unit.landing.test_landing_by_schema import Registry
from tests.unit.landing.world import World, auto_off
from tests.unit.schemas.avro_cases import framed

from frazil.metadata.landings import LandingSpec
from frazil.schemas.framing import Unknown, WriterSchema
from frazil.schemas.registry import RegistryClient
from frazil.schemas.typenames import TypeNames


def play(landing: LandingSpec, story: object) -> None:
    async def main() -> None:
        world, registry = World(), Registry()
        await started(world, landing)
        await story(world, registry, RegistryClient(registry, world.clock))  # type: ignore[operator]  # an async function

    run_virtual(main())


def avro(name: str, /, **fields: str) -> dict[str, object]:
    return {"type": "record", "name": name, "namespace": "shop", "fields": [{"name": key, "type": kind} for key, kind in fields.items()]}


@pytest.mark.parametrize("by", ["type", "field:kind"])
def test_avro_values_go_by_their_full_name_or_by_a_field(by: str) -> None:
    async def story(world: World, registry: Registry, client: RegistryClient) -> None:
        order, user = avro("Order", id="long", kind="string"), avro("User", name="string", kind="string")
        first, second = registry.register("order", order), registry.register("user", user)
        await world.produce(
            "t",
            [
                framed(first, order, {"id": 1, "kind": "shop.Order"}),
                framed(second, user, {"name": "x", "kind": "shop.User"}),
                framed(first, order, {"id": 2, "kind": "shop.Order"}),
                framed(99, order, {"id": 3, "kind": "shop.Order"}),
                b"no schema",
                None,
            ],
        )
        await world.land(5, auto_off(), registry=client)
        assert await world.offsets("lake.e_shop_order") == [0, 2]
        assert await world.offsets("lake.e_shop_user") == [1]
        assert "name" not in world.oracle.columns(await world.location("lake.e_shop_order"))
        codes = {row["offset"]: (row["code"], row["target_name"]) for row in await world.rows(HOME)}
        assert codes == {3: ("unknown-schema", ROUTE), 4: ("not-framed", ROUTE), 5: ("route-none", ROUTE)}

    play(spec(value="avro", route=by), story)


def test_protobuf_messages_of_one_file_go_to_tables_of_their_own() -> None:
    text = 'syntax = "proto3"; package p; message A { int32 id = 1; message In { int32 x = 1; } } message B { string s = 1; }'

    async def story(world: World, registry: Registry, client: RegistryClient) -> None:
        number = registry.register("t-value", text, kind="PROTOBUF")
        head = b"\0" + number.to_bytes(4, "big")
        values = [
            head + b"\0\x08\x05",
            head + b"\x02\x02\x0a\x01k",
            head + b"\x04\0\0\x08\x07",
            head + b"\x02\x00\x08\x06",
            head + b"\x02\x08",
        ]
        await world.produce("t", values)
        await world.land(5, auto_off(), registry=client)
        assert await world.offsets("lake.e_p_a") == [0, 3]
        assert await world.offsets("lake.e_p_b") == [1]
        assert await world.offsets("lake.e_p_a_in") == [2]
        assert [(row["offset"], row["code"]) for row in await world.rows(HOME)] == [(4, "not-protobuf")]

    play(spec(value="protobuf", route="type"), story)


def test_the_name_of_a_json_schema_is_its_title() -> None:
    names = TypeNames("json-schema")
    names.learn(
        {
            1: WriterSchema(kind="JSON", text='{"title": "Order"}'),
            2: WriterSchema(kind="JSON", text="true"),
            3: WriterSchema(kind="AVRO", text='"string"'),
            4: Unknown(code="unknown-schema", why="no"),
            5: WriterSchema(kind="JSON", text="{"),
        }
    )
    values = pa.array([b"\0\0\0\0" + bytes([number]) + b"{}" for number in range(1, 6)] + [None, b""], pa.binary())
    found = names.read(values)
    assert found.texts.to_pylist() == ["Order", None, None, None, None, None, None]
    assert [(reject.row, reject.code) for reject in found.rejects] == [
        (2, "bad-schema"),
        (3, "unknown-schema"),
        (4, "bad-schema"),
        (6, "not-framed"),
    ]
