"""Routes: where records go, and what is told of those that have no table (R07)."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.simulation.loop import run_virtual
from tests.unit.landing.routes import HOME, ROUTE, Selective, Sent, event, home_mark, own_mark, rows_of, spec, started
from tests.unit.landing.world import World, auto_off

from frazil.kit.errors import Refused
from frazil.kit.tasks import spawn
from frazil.landing.options import check_options
from frazil.landing.routing import CODES, clean, route_of
from frazil.log.pins import read_pin
from frazil.metadata.landings import LandingSpec, put_landing
from frazil.metadata.routes import list_route_tables
from frazil.records import build_batch
from frazil.records.building import BatchOptions, Record

OFF = auto_off()


def test_r07_records_go_to_the_table_of_their_field() -> None:
    async def work() -> None:
        world = World()
        await started(world)
        await world.produce("t", [event(n, "ab"[n % 2]) for n in range(10)] + [b"{", b'{"n": 1}', None])
        await world.land(5, OFF)
        assert await world.offsets("lake.e_a") == [0, 2, 4, 6, 8]
        assert await world.offsets("lake.e_b") == [1, 3, 5, 7, 9]
        letters = {row["offset"]: (row["code"], row["target_name"]) for row in await world.rows(HOME)}
        assert letters == {10: ("not-json", ROUTE), 11: ("route-none", ROUTE), 12: ("route-none", ROUTE)}
        assert (await world.status(ROUTE)).state == "idle"
        assert [(one.table, one.value) for one in await list_route_tables(world.store, ROUTE)] == [("lake.e_a", "a"), ("lake.e_b", "b")]
        assert (await home_mark(world), await own_mark(world, "lake.e_a")) == (13, 13)

    run_virtual(work())


def test_each_table_has_the_columns_of_its_own_records_and_its_own_verdicts() -> None:
    async def work() -> None:
        world = World()
        await started(world)
        await world.produce("t", [event(1, "a", x=1), event(2, "b", x="text"), event(3, "a", x="no number"), event(4, "b", y=True)])
        await world.land(5, OFF)
        columns = {table: world.oracle.columns(await world.location(table)) for table in ("lake.e_a", "lake.e_b")}
        assert (columns["lake.e_a"]["x"], columns["lake.e_b"]["x"]) == ("long", "string")
        assert "y" in columns["lake.e_b"] and "y" not in columns["lake.e_a"]
        (letter,) = await world.rows(HOME)
        assert (letter["offset"], letter["target_name"]) == (2, "lake.e_a")
        assert letter["target_table"] == (await world.catalog().load("lake.e_a")).uuid

    run_virtual(work())


def test_a_map_and_a_default_name_tables_by_hand() -> None:
    async def work() -> None:
        world = World()
        await started(world, spec(route__table="", route__map="a:lake.one, b:lake.one,10:lake.ten", route__default="lake.rest"))
        await world.produce("t", [event(n, kind) for n, kind in enumerate(["a", "b", 10, "c", None, 1.5])])
        await world.land(5, OFF)
        assert await world.offsets("lake.one") == [0, 1]
        assert await world.offsets("lake.ten") == [2]
        assert await world.offsets("lake.rest") == [3, 4]
        assert [(row["offset"], row["code"]) for row in await world.rows(HOME)] == [(5, "route-value")]

    run_virtual(work())


def test_a_route_by_header_takes_the_last_one_and_any_kind_of_value() -> None:
    async def work() -> None:
        world = World()
        await started(world, spec(value="raw", route="header:table"))
        headers: list[list[tuple[str, bytes | None]]] = [
            [("table", b"x"), ("table", b"a")],
            [("other", b"a")],
            [("table", None)],
            [("table", b"\xff")],
            [("table", b"b")],
        ]
        records = [Record(key=None, value=b"v", timestamp_ms=1, headers=tuple(one)) for one in headers]
        await world.append("t", 0, bytes(build_batch(records, options=BatchOptions())))
        await world.land(5, OFF)
        assert await world.offsets("lake.e_a") == [0]
        assert await world.offsets("lake.e_b") == [4]
        assert {row["offset"]: row["code"] for row in await world.rows(HOME)} == {1: "route-none", 2: "route-none", 3: "route-value"}

    run_virtual(work())


def test_f44_two_values_with_one_table_name_the_later_is_refused_loudly_after_restarts_too() -> None:
    async def work() -> None:
        world = World()
        await started(world)
        await world.produce("t", [event(0, "Shop.Order"), event(1, "shop_order"), event(2, "other")])
        await world.land(5, OFF)
        await world.produce("t", [event(3, "shop_order"), event(4, "Shop.Order")])
        await world.land(5, OFF)
        assert await world.offsets("lake.e_shop_order") == [0, 4]
        assert await world.offsets("lake.e_other") == [2]
        assert sorted((row["offset"], row["code"]) for row in await world.rows(HOME)) == [(1, "route-collision"), (3, "route-collision")]
        status = await world.status(ROUTE)
        assert (status.state, status.stage) == ("alert", "route")
        assert (
            "'shop_order' would land in lake.e_shop_order, but it is named for 'Shop.Order'; give it a table in route.map" in status.reason
        )

    run_virtual(work())


def test_more_values_than_tables_allowed_are_dead_letters_and_told() -> None:
    async def work() -> None:
        world = World()
        await started(world, spec(route__tables_max="3"))
        await world.produce("t", [event(n, f"k{n % 5}") for n in range(10)])
        await world.land(5, OFF)
        await world.land(5, OFF)
        assert sorted(one.table for one in await list_route_tables(world.store, ROUTE)) == ["lake.e_k0", "lake.e_k1", "lake.e_k2"]
        assert {row["code"] for row in await world.rows(HOME)} == {"route-tables-max"}
        assert sorted(row["offset"] for row in await world.rows(HOME)) == [3, 4, 8, 9]

    run_virtual(work())


def test_a_value_never_gets_a_table_that_is_another_landings_or_holds_dead_letters() -> None:
    async def work() -> None:
        world = World()
        await started(world, spec(route__table="lake.{}"))
        await world.topics.create("u", 1)
        await put_landing(world.store, LandingSpec(table="lake.u", topics=("u",)))
        await world.produce("u", [b"{}", b"{"])
        await world.produce("t", [event(n, kind) for n, kind in enumerate(["u", "u_dead", "events", "events_dead", "fine", "", "x" * 200])])
        await world.land(6, OFF)
        assert {row["offset"]: row["code"] for row in await world.rows(HOME)} == {
            0: "route-reserved",
            1: "route-reserved",
            2: "route-reserved",
            3: "route-reserved",
            5: "route-name",
            6: "route-name",
        }
        assert await world.offsets("lake.fine") == [4]
        assert await world.offsets("lake.u") == [0]

    run_virtual(work())


def test_r07_a_table_of_a_route_is_nobody_elses() -> None:
    async def work() -> None:
        world = World()
        await started(world)
        await world.topics.create("u", 1)
        await world.produce("u", [b'{"n": 1}'])
        await world.produce("t", [event(0, "a")])
        await world.land(5, OFF)
        await put_landing(world.store, LandingSpec(table="lake.e_a", topics=("u",)))
        await world.land(5, OFF)
        status = await world.status("lake.e_a")
        assert status.state == "failed" and f"fed by route {ROUTE}" in status.reason
        assert await world.offsets("lake.e_a") == [0]

    run_virtual(work())


def test_routes_that_name_each_others_or_landed_tables_are_refused_at_start() -> None:
    async def work() -> None:
        world = World()
        await started(world, spec(route__map="a:lake.u"))
        await world.topics.create("u", 1)
        await put_landing(world.store, LandingSpec(table="lake.u", topics=("u",)))
        for name in ("lake.x", "lake.y"):
            options = {"route": "field:k", "route.table": "lake.z_{}"}
            await put_landing(world.store, LandingSpec(table=name, topics=("u",), options=options))
        await world.land(4, OFF)
        assert "route lake.events names lake.u, which takes u" in (await world.status(ROUTE)).reason
        assert (await world.status("lake.x")).state == "idle"
        assert "routes lake.y and lake.x would both write lake.z_{}" in (await world.status("lake.y")).reason

    run_virtual(work())


def test_r07_a_table_made_later_starts_at_the_home_mark_and_quiet_tables_do_not_commit() -> None:
    async def work() -> None:
        world = World()
        await started(world)
        sent = Sent(world)
        await sent.send(["a"] * 98 + ["b"])
        await world.land(4, OFF)
        for _ in range(3):
            await sent.send(["a"])
            await world.land(4, OFF)
        assert len(await world.snapshots("lake.e_b")) == 1
        assert len(await world.snapshots("lake.e_a")) == 4
        await sent.send(["c"])
        await world.land(4, OFF)
        assert await own_mark(world, "lake.e_c") == 103 == await home_mark(world)
        await sent.check()

    run_virtual(work())


def test_r18_the_pin_of_a_route_is_its_home_mark() -> None:
    async def work() -> None:
        world = World()
        await started(world)
        sent = Sent(world)
        await sent.send(["a", "b", "c"])

        def refuse(call: str, ident: str) -> None:
            if (call, ident) == ("commit", "lake.e_b"):
                raise Refused("403")

        await world.land(6, OFF, catalogs={"default": Selective(world.catalog(), refuse)})
        pin = await read_pin(world.store, ROUTE)
        assert pin is not None and pin.offsets[world.key("t")] == 1 == await home_mark(world)
        await world.land(6, OFF)
        pin = await read_pin(world.store, ROUTE)
        assert pin is not None and pin.offsets[world.key("t")] == 3
        await sent.check()

    run_virtual(work())


def test_f58_a_table_of_a_route_that_was_dropped_is_told_and_the_others_go_on() -> None:
    async def work() -> None:
        world = World()
        await started(world)
        await world.produce("t", [event(0, "a"), event(1, "b")])
        await world.land(4, OFF)
        await world.catalog().drop("lake.e_a")
        await world.produce("t", [event(2, "a"), event(3, "b")])
        await world.land(6, OFF)
        assert await world.offsets("lake.e_b") == [1, 3]
        status = await world.status(ROUTE)
        assert status.state == "failed" and "table lake.e_a is gone" in status.reason and "1 records wait" in status.reason
        await put_landing(world.store, spec(recreated="fill"))
        await world.land(6, OFF)
        assert await world.offsets("lake.e_a") == [2]
        assert (await world.status(ROUTE)).state == "idle"

    run_virtual(work())


def test_deadletters_stop_holds_a_route_before_the_first_letter() -> None:
    async def work() -> None:
        world = World()
        await started(world, spec(deadletters__stop="0"))
        await world.produce("t", [event(0, "a"), b"{"])
        await world.land(4, OFF)
        assert (await world.status(ROUTE)).state == "failed"
        assert await rows_of(world, HOME) == []
        await put_landing(world.store, spec())
        await world.land(4, OFF)
        assert await world.offsets("lake.e_a") == [0]
        assert len(await world.rows(HOME)) == 1

    run_virtual(work())


def test_a_route_rolls_on_without_rows_and_moves_its_mark_when_that_has_waited() -> None:
    async def work() -> None:
        world = World()
        await started(world)
        landing = world.landing(OFF)
        task = spawn("landing", landing.run())
        await world.produce("t", [event(0, "a")])
        await asyncio.sleep(3)
        await world.produce("t", [b"?"])
        await asyncio.sleep(3)
        landing.stop()
        await task
        assert await home_mark(world) == 2

    run_virtual(work())


@pytest.mark.parametrize(
    ("value", "named"),
    [("Order", "order"), ("a.b-c d", "a_b_c_d"), ("日本", "u65e5_u672c_"), ("ÄB", "ue4_b"), ("a'; --", "a_____"), ("", ""), ("9", "9")],
)
def test_f44_names_of_tables_are_what_every_catalog_takes(value: str, named: str) -> None:
    assert clean(value) == named


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"route": "field:"}, "use field:NAME, header:NAME or type"),
        ({"route": "column:x"}, "use field:NAME"),
        ({"route": "type:x"}, "use field:NAME"),
        ({"route": "type"}, "values that are json name no type"),
        ({"route__table": "lake.e"}, "with {} once in the name"),
        ({"route__table": "lake{}.e"}, "with {} once in the name"),
        ({"route__table": "{}"}, "with {} once in the name"),
        ({"route__table": "lake.E_{}"}, "lower case"),
        ({"route__table": "lake.{}_{}"}, "once"),
        ({"route__map": "a"}, "is not VALUE:NAMESPACE.NAME"),
        ({"route__map": "a:x"}, "write namespace.name"),
        ({"route__map": "a:l.x,a:l.y"}, "'a' has two tables"),
        ({"route__map": f"a:{HOME}"}, "is its home"),
        ({"route__default": ROUTE}, "names the route"),
        ({"route__default": "x"}, "route.default: table 'x'"),
        ({"route__tables_max": "0"}, "1 to 999999"),
        ({"route__tables_max": "1", "route__map": "a:l.x,b:l.y"}, "more than route.tables_max=1"),
        ({"route__table": ""}, "needs route.table, route.map or route.default"),
        ({"route": ""}, "option route.table needs the option route"),
        ({"mode": "upsert", "upsert__key": "n"}, "do not go together"),
    ],
)
def test_a_route_that_cannot_work_is_refused_with_what_to_change(options: dict[str, str], why: str) -> None:
    with pytest.raises(Refused, match=why.replace("{}", r"\{\}")):
        check_options(spec(**options))


def test_values_without_fields_or_types_are_refused() -> None:
    with pytest.raises(Refused, match="values that are raw have no fields"):
        route_of(spec(value="raw"))
    assert route_of(spec(value="raw", route="header:h")) is not None
    assert route_of(LandingSpec(table="a.b", topics=("t",))) is None


def test_every_code_of_a_route_has_words() -> None:
    assert all(code.startswith("route-") and why for code, why in CODES.items())
    assert json.dumps(dict(CODES))
