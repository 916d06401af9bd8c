"""One suite for every catalog back-end, and for the faulty wrapper when it behaves."""

from __future__ import annotations

import asyncio
import pathlib
import random
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any, Protocol

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from tests.simulation.loop import run_virtual
from tests.standins import glue as glue_double
from tests.standins.flattened import Flattened
from tests.standins.glue import GlueDouble
from tests.standins.hive import HiveDouble
from tests.standins.rest_catalog import DoubleRules, RestCatalogDouble
from tests.unit.catalogs.rig import SCHEMA, deps_at, rows

from frazil.catalogs import Catalog, CatalogDeps, Committer, CreateTable, Landed, open_catalog
from frazil.catalogs.commit import Committed
from frazil.catalogs.faulty import FaultPlan, FaultyCatalog
from frazil.catalogs.layout import (
    Layout,
    PartitionField,
    SortField,
    order_of_new_table,
    order_to_write,
    plan_layout,
    spec_of_new_table,
    spec_to_write,
)
from frazil.catalogs.metadata_json import current_schema
from frazil.catalogs.schema import new_schema
from frazil.catalogs.transforms import parse_transform
from frazil.catalogs.write import FileWriter
from frazil.kit.clock import SystemClock
from frazil.kit.errors import Conflict, Missing, OutcomeUnknown, Refused
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.tasks import InlineOffload


class Stoppable(Protocol):
    """A server of this test."""

    def stop(self) -> None: ...


Opened = Callable[[pathlib.Path], tuple[Catalog, CatalogDeps]]


def sql(path: pathlib.Path) -> tuple[Catalog, CatalogDeps]:
    deps = deps_at(path)
    return open_catalog(f"sql://{path}/catalog.db", deps), deps


def memory(path: pathlib.Path) -> tuple[Catalog, CatalogDeps]:
    deps = deps_at(path)
    return open_catalog("memory:", deps), deps


def faulty(path: pathlib.Path) -> tuple[Catalog, CatalogDeps]:
    inner, deps = memory(path)
    return FaultyCatalog(inner, random.Random(1), FaultPlan()), deps


def glue(path: pathlib.Path) -> tuple[Catalog, CatalogDeps]:
    """Through real HTTP and signatures. Databases have no levels, so namespaces are flattened on the way."""
    double = GlueDouble().start()
    deps = real_deps(path)
    properties = {
        "glue.region": glue_double.REGION,
        "glue.access-key-id": glue_double.KEY,
        "glue.secret-access-key": glue_double.SECRET,
        "warehouse": f"file://{path}/warehouse",
    }
    catalog = open_catalog(f"glue+{double.uri}", deps, properties)
    OPEN.append((double, catalog))
    return Flattened(catalog), deps


def hive(path: pathlib.Path) -> tuple[Catalog, CatalogDeps]:
    """Through real thrift. Databases have no levels, so namespaces are flattened on the way."""
    double = HiveDouble().start()
    deps = real_deps(path)
    catalog = open_catalog(double.uri, deps, {"warehouse": f"file://{path}/warehouse"})
    OPEN.append((double, catalog))
    return Flattened(catalog), deps


def rest(path: pathlib.Path) -> tuple[Catalog, CatalogDeps]:
    """Through real HTTP, in real time, with sign-in, a prefix and pages of two tables."""
    rules = DoubleRules(client_id="id", client_secret="a-secret", scope="all", prefix="main/lake", warehouse="wh", page=2)
    double = RestCatalogDouble(path / "warehouse", rules).start()
    deps = real_deps(path)
    properties = {"credential": "id:a-secret", "scope": "all", "warehouse": "wh"}
    catalog = open_catalog(f"rest+{double.uri}", deps, properties)
    OPEN.append((double, catalog))
    return catalog, deps


def real_deps(path: pathlib.Path) -> CatalogDeps:
    """In real time."""
    return CatalogDeps(
        objects=deps_at(path).objects, offload=InlineOffload(), clock=SystemClock(), chance=random.Random(4), faults=FaultPoints()
    )


OPEN: list[tuple[Stoppable, Catalog]] = []
"""What the kinds with a server opened in this test."""


@pytest.fixture(autouse=True)
def _stopped() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop()[0].stop()


def drive(opened: Opened, work: Coroutine[Any, Any, None]) -> None:
    """In virtual time, or on a plain loop where sockets are."""

    async def whole() -> None:
        try:
            await work
        finally:
            for _, catalog in OPEN:
                await catalog.close()

    if opened in VIRTUAL:
        run_virtual(work)
    else:
        asyncio.run(whole())


VIRTUAL = (sql, memory, faulty)
"""Kinds in this process. The others are behind a server: real time, and the server or the warehouse decides about locations."""
KINDS = pytest.mark.parametrize("opened", [*VIRTUAL, rest, glue, hive])
POINTER_KINDS = pytest.mark.parametrize("opened", [sql, memory, faulty])
TABLE = CreateTable(schema=SCHEMA, properties={"owner": "tests"})


@KINDS
def test_create_load_list_drop(tmp_path: pathlib.Path, opened: Opened) -> None:
    async def run() -> None:
        catalog, deps = opened(tmp_path)
        made = await catalog.create("lake.deep.t", TABLE)
        assert made.ident == "lake.deep.t"
        assert opened not in VIRTUAL or made.location.startswith(deps.objects.uri("warehouse/lake/deep/t-"))
        assert made.metadata["properties"]["owner"] == "tests"
        assert (await catalog.load("lake.deep.t")).metadata == made.metadata
        with pytest.raises(Conflict):
            await catalog.create("lake.deep.t", TABLE)
        for name in ("c", "a", "b"):
            await catalog.create(f"lake.deep.{name}", TABLE)
        assert await catalog.list("lake.deep") == ("lake.deep.a", "lake.deep.b", "lake.deep.c", "lake.deep.t")
        assert await catalog.list("lake") == ()
        await catalog.drop("lake.deep.t")
        with pytest.raises(Missing):
            await catalog.load("lake.deep.t")
        with pytest.raises(Missing):
            await catalog.drop("lake.deep.t")
        again = await catalog.create("lake.deep.t", TABLE)
        assert again.uuid != made.uuid and (opened not in VIRTUAL or again.location != made.location)

    drive(opened, run())


@KINDS
def test_commit_applies_all_or_nothing(tmp_path: pathlib.Path, opened: Opened) -> None:
    async def run() -> None:
        catalog, _ = opened(tmp_path)
        base = await catalog.create("a.t", TABLE)
        set_one = {"action": "set-properties", "updates": {"one": "1"}}
        after = await catalog.commit("a.t", base, [{"type": "assert-table-uuid", "uuid": base.uuid}], [set_one])
        assert after.metadata["properties"]["one"] == "1"
        assert after.metadata["metadata-log"][-1]["metadata-file"] == base.metadata_location
        for requirement, update, error in (
            ({"type": "assert-table-uuid", "uuid": "00000000-0000-4000-8000-000000000000"}, set_one, Conflict),
            ({"type": "assert-nothing"}, set_one, (Refused, OutcomeUnknown)),  # Iceberg's own handlers answer 500
            ({"type": "assert-table-uuid", "uuid": base.uuid}, {"action": "unknown"}, (Refused, OutcomeUnknown)),
        ):
            with pytest.raises(error):
                await catalog.commit("a.t", after, [requirement], [{"action": "set-properties", "updates": {"two": "2"}}, update])
        assert (await catalog.load("a.t")).metadata == after.metadata
        with pytest.raises(Missing):
            await catalog.commit("a.none", base, [], [set_one])

    drive(opened, run())


@KINDS
def test_a_commit_on_an_old_base_is_applied_to_the_newest_metadata(tmp_path: pathlib.Path, opened: Opened) -> None:
    async def run() -> None:
        catalog, _ = opened(tmp_path)
        base = await catalog.create("a.t", TABLE)
        await catalog.commit("a.t", base, [], [{"action": "set-properties", "updates": {"one": "1"}}])
        both = await catalog.commit("a.t", base, [], [{"action": "set-properties", "updates": {"two": "2"}}])
        assert {"one", "two"} <= both.metadata["properties"].keys()

    drive(opened, run())


@KINDS
def test_of_many_commits_on_one_head_exactly_one_wins(tmp_path: pathlib.Path, opened: Opened) -> None:
    async def run() -> None:
        catalog, _ = opened(tmp_path)
        base = await catalog.create("a.t", TABLE)

        async def attempt(number: int) -> bool:
            snapshot = {
                "snapshot-id": number,
                "sequence-number": 1,
                "timestamp-ms": int(base.metadata["last-updated-ms"]),
                "manifest-list": "x",
                "summary": {"operation": "append"},
            }
            updates = [
                {"action": "add-snapshot", "snapshot": snapshot},
                {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": number},
            ]
            try:
                await catalog.commit("a.t", base, [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}], updates)
            except Conflict:
                return False
            return True

        won = await asyncio.gather(*(attempt(number) for number in range(1, 7)))
        assert sum(won) == 1
        table = await catalog.load("a.t")
        assert [item["snapshot-id"] for item in table.metadata["snapshots"]] == [won.index(True) + 1]

    drive(opened, run())


@KINDS
@pytest.mark.parametrize("ident", ["t", "", "a..t", ".t", "a.", "a/b.t", "a." + "x" * 500])
def test_names_that_are_no_names(tmp_path: pathlib.Path, opened: Opened, ident: str) -> None:
    async def run() -> None:
        catalog, _ = opened(tmp_path)
        with pytest.raises(Refused):
            await catalog.create(ident, TABLE)

    drive(opened, run())


def test_sql_survives_the_process_and_pyiceberg_works_in_it(tmp_path: pathlib.Path) -> None:
    """The layout is SqlCatalog's: it lists, reads, and its own append is seen by us."""

    async def run() -> None:
        catalog, _ = sql(tmp_path)
        await catalog.create("lake.t", TABLE)
        foreign = SqlCatalog("frazil", uri=f"sqlite:///{tmp_path}/catalog.db")
        try:
            assert foreign.list_namespaces() == [("lake",)]
            assert foreign.list_tables("lake") == [("lake", "t")]
            table = foreign.load_table("lake.t")
            table.append(pa.table({"_partition": [0], "_offset": [5], "text": ["x"]}, schema=SCHEMA))
        finally:
            foreign.engine.dispose()
        reopened, _ = sql(tmp_path)
        assert (await reopened.load("lake.t")).metadata["snapshots"][0]["summary"]["added-records"] == "1"
        assert (await catalog.load("lake.t")).metadata_location == (await reopened.load("lake.t")).metadata_location

    run_virtual(run())


@pytest.mark.parametrize("url", ["", "sql", "sql://host/x.db", "sql:relative.db", "sql:///", "sql:///x.db?y=1", "memory:/x", "ftp:///x"])
def test_urls_that_cannot_be_opened_are_refused(tmp_path: pathlib.Path, url: str) -> None:
    with pytest.raises(Refused):
        open_catalog(url, deps_at(tmp_path))


def test_faulty_words_say_what_they_do(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        inner, _ = memory(tmp_path)
        base = await inner.create("a.t", TABLE)
        script = ("C-5xx/a", "C-cut/n", "C-late(2)", "C-409/a")
        catalog = FaultyCatalog(inner, random.Random(1), FaultPlan(script=script))
        applied = []
        for number, word in enumerate(script):
            with pytest.raises(Conflict if word == "C-409/a" else OutcomeUnknown):
                await catalog.commit("a.t", base, [], [{"action": "set-properties", "updates": {f"p{number}": word}}])
            applied.append(f"p{number}" in (await inner.load("a.t")).metadata["properties"])
        assert applied == [True, False, False, True]
        await catalog.settle()
        assert "p2" in (await inner.load("a.t")).metadata["properties"]
        with pytest.raises(Refused):
            FaultyCatalog(inner, random.Random(1), FaultPlan(script=("C-moon",)))

    run_virtual(run())


def test_a_killed_commit_leaves_the_pointer_old_or_new(tmp_path: pathlib.Path) -> None:
    """P4 and P5: before the swap nothing is seen, after it everything."""

    class Killed(BaseException):
        pass

    async def run() -> None:
        for point, seen in (("P4", False), ("P5", True)):
            folder = tmp_path / point
            deps = deps_at(folder)
            catalog = open_catalog(f"sql://{folder}/catalog.db", deps)
            base = await catalog.create("a.t", TABLE)

            def hook(reached: str, point: str = point) -> None:
                if reached == point:
                    raise Killed

            deps.faults.arm(hook)
            with pytest.raises(Killed):
                await catalog.commit("a.t", base, [], [{"action": "set-properties", "updates": {"one": "1"}}])
            reopened = open_catalog(f"sql://{folder}/catalog.db", deps_at(folder))
            assert ("one" in (await reopened.load("a.t")).metadata["properties"]) is seen
        assert isinstance(deps.faults, FaultPoints)

    run_virtual(run())


@POINTER_KINDS
@pytest.mark.parametrize("name", ["t" * 249 + "_dead", "é" * 150])
def test_the_longest_topic_has_a_table_and_dead_letters(tmp_path: pathlib.Path, opened: Opened, name: str) -> None:
    """A topic may have 249 characters; a file name at most 255 bytes, suffixes included."""

    async def run() -> None:
        catalog, _ = opened(tmp_path)
        made = await catalog.create(f"lake.{name}", TABLE)
        assert (await catalog.load(made.ident)).metadata == made.metadata
        assert all(len(part.encode()) <= 255 for part in made.location.split("/"))

    run_virtual(run())


@KINDS
def test_layouts_are_made_with_the_table_and_evolve(tmp_path: pathlib.Path, opened: Opened) -> None:
    """A new spec is added and the old one stays; files of both are in the table; an equal one is used again (F45)."""

    def by(text: str, column: str) -> PartitionField:
        return PartitionField(column=column, transform=parse_transform(text))

    async def run() -> None:
        catalog, deps = opened(tmp_path)
        if catalog.objects is not None:
            deps = replace(deps, objects=catalog.objects)
        writer, committer = FileWriter(deps), Committer(catalog, deps)
        first = Layout(
            partition=(by("bucket[2]", "_offset"), by("identity", "_partition")), sort=(SortField(column="text", descending=True),)
        )
        schema = new_schema(SCHEMA)
        table = await catalog.create(
            "lake.laid",
            CreateTable(schema=SCHEMA, partition_spec=spec_of_new_table(first, schema), sort_order=order_of_new_table(first, schema)),
        )
        assert [field["name"] for field in spec_to_write(table)["fields"]] == ["_offset_bucket_2", "_partition"]
        assert [field["direction"] for field in order_to_write(table)["fields"]] == ["desc"]
        old = await writer.write(table, rows(0, 20))
        assert len(old) == 2

        second = Layout(partition=(by("truncate[10]", "_offset"), by("bucket[2]", "_offset")), sort=())
        planned = plan_layout(table, current_schema(table.metadata), second)
        assert planned is not None
        changed = await catalog.commit(table.ident, table, planned.requirements, planned.updates)
        assert len(changed.metadata["partition-specs"]) == 2 and len(order_to_write(changed)["fields"]) == 0
        ids = [[field["field-id"] for field in spec["fields"]] for spec in changed.metadata["partition-specs"]]
        assert ids == [[1000, 1001], [1002, 1000]]
        with pytest.raises(Conflict):
            await catalog.commit(table.ident, table, planned.requirements, planned.updates)
        outcome = await committer.commit(Landed(base=table, files=old))
        assert isinstance(outcome, Committed)
        new = await writer.write(outcome.table, rows(20, 40))
        outcome = await committer.commit(Landed(base=outcome.table, files=new))
        assert isinstance(outcome, Committed)
        lines = await committer.lists.lines(outcome.table.metadata["snapshots"][-1])
        specs = [spec["spec-id"] for spec in outcome.table.metadata["partition-specs"]]
        assert sorted((line.partition_spec_id, line.added_files_count) for line in lines) == [(specs[0], 2), (specs[1], len(new))]

        back = plan_layout(outcome.table, current_schema(outcome.table.metadata), first)
        assert back is not None
        again = await catalog.commit(table.ident, outcome.table, back.requirements, back.updates)
        assert again.metadata["default-spec-id"] == specs[0] and len(again.metadata["partition-specs"]) == 2
        assert again.metadata["default-sort-order-id"] == table.metadata["default-sort-order-id"]

    drive(opened, run())
