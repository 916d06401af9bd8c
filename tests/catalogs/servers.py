"""Real catalog servers through everything that lands: the port's suite, foreign tables, a landing that is killed, expiry.

    python -m tests.catalogs.servers             all; writes docs/results/catalog-servers.json
    python -m tests.catalogs.servers fixture     one, nothing is written

Programs come from Maven Central and PyPI (``javaservers``); SeaweedFS is the store of Nessie's tables, and a REST catalog too.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import pathlib
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyiceberg.catalog.rest import RestCatalog as ForeignCatalog
from pyiceberg.table import StaticTable
from tests.catalogs import javaservers
from tests.catalogs.javaservers import Server
from tests.conformance.catalogs import test_catalog_port as port_suite
from tests.conformance.catalogs import test_foreign_tables as foreign_suite
from tests.faults.readers import Position
from tests.faults.results import save
from tests.faults.rig import TABLE, Deployment, Violation, Workload, check_log
from tests.servers import SeaweedFs, running_seaweedfs
from tests.standins.flattened import Flattened
from tests.unit.catalogs.rig import SCHEMA, make, rows

from frazil.catalogs import Catalog, CatalogDeps, CreateTable, open_catalog
from frazil.catalogs.care import Care, CareSettings
from frazil.catalogs.history import Keep, keeps_everything
from frazil.kit.clock import SystemClock
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.tasks import InlineOffload
from frazil.objects.opening import open_objects

NAMES = ("fixture", "nessie", "hive")
POINTS = ("P1", "P2", "P4", "P5", "P6", "P7")
SUITE: Sequence[tuple[str, Callable[..., None]]] = (
    ("create, load, list, drop", port_suite.test_create_load_list_drop),
    ("a commit applies all or nothing", port_suite.test_commit_applies_all_or_nothing),
    ("an old base is brought to the newest metadata", port_suite.test_a_commit_on_an_old_base_is_applied_to_the_newest_metadata),
    ("of six commits on one head one wins", port_suite.test_of_many_commits_on_one_head_exactly_one_wins),
    ("a foreign spec, order and properties stay", foreign_suite.test_f06_spec_sort_order_and_properties_of_a_foreign_table_stay),
    ("a rolled back table is filled again", foreign_suite.test_f58_a_table_that_was_rolled_back_is_filled_again),
    ("a table made anew is not written to", foreign_suite.test_f58_a_table_that_was_made_anew_is_not_written_to),
    ("a deleted progress property is made up", foreign_suite.test_a_deleted_progress_property_is_made_up_by_the_newest_snapshot),
    ("foreign compaction and expiry", foreign_suite.test_f04_foreign_compaction_and_expiry_leave_progress_alone),
    ("write.data.path", foreign_suite.test_files_go_where_the_table_wants_them),
    ("1,503 columns, long comments, a long property", foreign_suite.test_f60_a_wide_table_with_long_comments_and_many_commits),
)


def deps() -> CatalogDeps:
    """In real time; the seed is new each time, because two processes of one seed would give their files the same names."""
    offload, clock = InlineOffload(), SystemClock()
    objects = open_objects("memory:", offload=offload, clock=clock)
    return CatalogDeps(objects=objects, offload=offload, clock=clock, chance=random.Random(os.urandom(8)), faults=FaultPoints())


@dataclass
class Client:
    """Opens the server's catalog under a namespace that nobody else uses, the shape that the suites want."""

    server: Server
    number: int = 0

    def __call__(self, path: pathlib.Path) -> tuple[Catalog, CatalogDeps]:
        self.number += 1
        mine = deps()
        catalog = open_catalog(self.server.url, mine, self.server.properties)
        port_suite.OPEN.append((_Nothing(), catalog))
        prefix = f"s{self.number}_{os.getpid()}_"
        return Flattened(catalog, prefix, "." if self.server.levels else "__"), mine


class _Nothing:
    def stop(self) -> None:
        return


def suite(server: Server, directory: pathlib.Path) -> dict[str, str]:
    """What each test of the suites says: ``ok`` or why not."""
    opened = Client(server)
    said = {}
    for name, test in SUITE:
        try:
            test(directory, opened)
            said[name] = "ok"
        except Exception as error:
            said[name] = server.differs.get(name) or "".join(traceback.format_exception_only(error)).strip()[:600]
        finally:
            port_suite.OPEN.clear()
    return said


# --- a landing that is killed --------------------------------------------------------------------------------------------


async def _located(server: Server, ident: str) -> tuple[str, Mapping[str, str]] | None:
    catalog = open_catalog(server.url, deps(), server.properties)
    try:
        if ident not in await catalog.list(ident.rpartition(".")[0]):
            return None
        table = await catalog.load(ident)
        return table.metadata_location, {**server.storage, **await catalog.reading(table)}
    finally:
        await catalog.close()


def positions(server: Server, ident: str, columns: Sequence[str]) -> list[Position]:
    """Positions of all rows by PyIceberg's reader; duplicates stay."""
    found = asyncio.run(_located(server, ident))
    if found is None:
        return []
    table = StaticTable.from_metadata(found[0], dict(found[1])).scan(selected_fields=tuple(columns)).to_arrow()
    return sorted(zip(*(table[name].to_pylist() for name in columns), strict=True))


def killed_landing(server: Server, directory: pathlib.Path, points: Sequence[str] = POINTS, *, within_s: float = 60.0) -> dict[str, Any]:
    """Broker and landing as processes; landing dies at each point; then table and dead letters hold exactly the log."""
    deployment = Deployment(directory, settings=(f"catalog.uri={server.url}", *server.settings), variables=dict(server.variables))
    try:
        deployment.start("broker")
        work = Workload(deployment, idempotent=True)
        for point in points:
            deployment.start("land", fault=f"{point}:2")
            end = time.monotonic() + within_s
            while not deployment.dead("land"):
                if time.monotonic() > end:
                    raise Violation(f"{point} did not fire: {(directory / 'land.log').read_text()[-1500:]}")
                work.send(60)
                work.settle()
                time.sleep(0.2)  # landing takes what was sent; the kill comes at its own point, or the deadline
            if not deployment.fired("land"):
                raise Violation(f"landing died without {point}: {(directory / 'land.log').read_text()[-1500:]}")
        deployment.start("land")
        work.send(200)
        work.settle()
        content = check_log(deployment, work)
        good = sorted(at for at, value in content.values.items() if not value.startswith(b"not json"))
        bad = sorted(at for at, value in content.values.items() if value.startswith(b"not json"))
        end = time.monotonic() + within_s
        while True:
            have = positions(server, TABLE, ("_kafka_partition", "_offset"))
            letters = positions(server, f"{TABLE}_dead", ("partition", "offset"))
            if have == good and letters == bad:
                return {"deaths": len(points), "records": len(content.values), "lost": 0, "doubled": 0}
            if time.monotonic() > end:
                log = (directory / "land.log").read_text()[-1500:]
                raise Violation(f"{len(have)} of {len(good)} rows, {len(letters)} of {len(bad)} letters\n{log}")
            time.sleep(0.3)  # rows show up with the landing's next commit, or the deadline
    finally:
        deployment.close()


# --- expiry --------------------------------------------------------------------------------------------------------------


async def expiry(server: Server, namespace: str) -> dict[str, int]:
    """Snapshots expire, metadata and data stay whole for PyIceberg; the old objects go."""
    mine = deps()
    catalog = open_catalog(server.url, mine, server.properties)
    ident = f"{namespace}.events"
    try:
        await catalog.create(ident, CreateTable(schema=SCHEMA))
        shared = replace(mine, objects=catalog.objects or mine.objects)
        rig = make(shared, Flattened(catalog, namespace.removesuffix("lake")), seed=11)
        for end in range(10, 210, 10):
            await rig.land(end)
        before = len((await rig.table()).metadata["snapshots"])
        settings = CareSettings(keep=Keep(last=3), expire_batch=1, delete_grace_ms=0, metadata_grace_ms=0, data_sweep_interval_ms=0)
        care = Care(rig.committer, settings)
        deleted = 0
        for _ in range(3):
            deleted += (await care.pass_once("lake.events")).deleted
        table = await rig.table()
        storage = {**server.storage, **await catalog.reading(table)}
        found = StaticTable.from_metadata(table.metadata_location, storage).scan().to_arrow()
        assert sorted(found["_offset"].to_pylist()) == list(range(200))
        after = len(table.metadata["snapshots"])
        if keeps_everything(table.metadata):
            assert (after, deleted) == (before, 0), (before, after, deleted)
        else:
            assert after < before, (before, after)
        return {"snapshots_before": before, "snapshots_after": after, "objects_deleted": deleted}
    finally:
        await catalog.close()


def foreign_writer(server: Server) -> str:
    """PyIceberg's own client of the same server appends to our table and reads what we landed."""
    if not server.foreign:
        return "PyIceberg has no client for this server"
    theirs = ForeignCatalog("theirs", **server.foreign)
    table = theirs.load_table("e1_lake.events")
    have = table.scan().to_arrow().num_rows
    table.append(rows(0, 5, partition=7))
    assert theirs.load_table("e1_lake.events").scan().to_arrow().num_rows == have + 5
    return "ok"


# --- all of it -----------------------------------------------------------------------------------------------------------


def examine(server: Server, directory: pathlib.Path) -> dict[str, Any]:
    """Everything for one server; a part that fails says why, the rest still runs."""
    parts: dict[str, Callable[[], Any]] = {
        "suite": lambda: suite(server, directory / "suite"),
        "expiry": lambda: asyncio.run(expiry(server, "e1_lake")),
        "foreign_writer": lambda: foreign_writer(server),
        "killed_landing": lambda: killed_landing(server, directory / "landing"),
    }
    said: dict[str, Any] = {"server": server.name, "version": server.version}
    for name, part in parts.items():
        try:
            said[name] = part()
        except Exception as error:
            said[name] = {"failed": "".join(traceback.format_exception_only(error)).strip()[:1500]}
    return said


@contextlib.contextmanager
def weed_if(names: Sequence[str]) -> Iterator[SeaweedFs | None]:
    """SeaweedFS while one of ``names`` keeps its tables there."""
    if "nessie" not in names:
        yield None
        return
    with running_seaweedfs() as weed:
        yield weed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=", ".join(NAMES))
    names = parser.parse_args().names or list(NAMES)
    if not set(names) <= set(NAMES):
        parser.error(f"known: {', '.join(NAMES)}")
    results = []
    with tempfile.TemporaryDirectory() as text, weed_if(names) as weed:
        for name in names:
            directory = pathlib.Path(text) / name
            with javaservers.running(name, directory, weed) as server:
                results.append(examine(server, directory))
            print(json.dumps(results[-1], indent=1), flush=True)
    if set(names) == set(NAMES):
        save("catalog-servers.json", "python -m tests.catalogs.servers", {"servers": results})
    return 0 if all("failed" not in json.dumps(result) for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
