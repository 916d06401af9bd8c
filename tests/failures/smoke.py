"""Touches every way of writing once, with Frazil and what it needs alone: run by tests/failures/versions.py in other environments.

python -m tests.failures.smoke
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace

from tests.simulation.loop import run_virtual
from tests.unit.landing.world import FAST, World

from frazil.assembly.packages import package_troubles, requirements
from frazil.catalogs.care import Care, CareSettings
from frazil.catalogs.history import Keep
from frazil.catalogs.rewrite import Rewriter, RewriteSettings
from frazil.catalogs.rowdelta import RowDelta
from frazil.catalogs.write import FileWriter
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.tasks import spawn
from frazil.metadata.landings import LandingSpec, put_landing


def js(**fields: object) -> bytes:
    return json.dumps(fields).encode()


async def story(world: World) -> dict[str, int]:
    """Append with partitions, a schema change, dead letters, one row per key, a rewrite, expiry; the rows that are there."""
    for name in ("events", "rows"):
        await world.topics.create(name, 1)
    await put_landing(
        world.store, LandingSpec(table="x.events", topics=("events",), options={"partition": "day(_timestamp), bucket(4, id)"})
    )
    upsert = {"mode": "upsert", "upsert.key": "id"}
    await put_landing(world.store, LandingSpec(table="x.rows", topics=("rows",), columns=("id long", "v long"), options=upsert))
    landing = world.landing(replace(FAST, auto=None))
    task = spawn("landing", landing.run())
    for number in range(6):
        more = {"note": f"n{number}", "at": {"lat": 1.5}} if number > 2 else {}
        await world.produce("events", [*(js(id=at, **more) for at in range(5)), b"poison"])
        await world.produce("rows", [js(id=at % 3, v=number) for at in range(5)])
        await asyncio.sleep(3)
    landing.stop()
    await task
    lake = landing._lakes.find("default")
    eager = RewriteSettings(dead_share=0.0, dead_rows_min=0, equality_rows_max=0, cheap_files=2)
    writer = FileWriter(world._catalog_deps(FaultPoints(), world.objects))
    for table in ("x.events", "x.rows"):
        await Rewriter(lake.committer, RowDelta(lake.committer, writer), eager).pass_once(table)
        await Care(lake.committer, CareSettings(keep=Keep(last=2, hours=0, days=0), expire_batch=1, manifests_max=1)).pass_once(table)
    counts = {table: len(await world.rows(table)) for table in ("x.events", "x.events_dead", "x.rows")}
    counts["columns"] = len(world.oracle.columns(await world.location("x.events")))
    return counts


def main() -> int:
    troubles = package_troubles(requirements())
    if troubles:
        print("\n".join(troubles), file=sys.stderr)
        return 1
    found = run_virtual(main_story())
    print(json.dumps(found))
    return 0 if found["x.events"] == 30 and found["x.events_dead"] == 6 and found["x.rows"] == 3 else 2


async def main_story() -> dict[str, int]:
    return await story(World())


if __name__ == "__main__":
    sys.exit(main())
