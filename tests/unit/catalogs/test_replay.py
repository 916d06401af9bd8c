"""One seed is one history: with memory stores every name and every byte is a function of it."""

from __future__ import annotations

import random

from tests.simulation.loop import run_virtual
from tests.unit.catalogs.rig import IDENT, SCHEMA, rows, source
from tests.unit.catalogs.test_care import LIGHT

from frazil.catalogs import CatalogDeps, Committer, CreateTable, Landed, open_catalog
from frazil.catalogs.care import Care
from frazil.catalogs.commit import CommitPolicy, Committed
from frazil.catalogs.faulty import FaultPlan, FaultyCatalog
from frazil.catalogs.progress import Move
from frazil.catalogs.write import FileWriter
from frazil.kit.clock import LoopClock
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.tasks import InlineOffload
from frazil.objects.opening import open_objects


async def history(seed: int) -> dict[str, bytes]:
    chance, clock, offload = random.Random(seed), LoopClock(), InlineOffload()
    objects = open_objects("memory:", offload=offload, clock=clock)
    deps = CatalogDeps(objects=objects, offload=offload, clock=clock, chance=chance, faults=FaultPoints())
    plan = FaultPlan(rates={"C-5xx/n": 0.2, "C-cut/a": 0.2, "C-late(0.3)": 0.1})
    catalog = FaultyCatalog(open_catalog("memory:", deps), chance, plan)
    table = await catalog.create(IDENT, CreateTable(schema=SCHEMA))
    committer, writer = Committer(catalog, deps, CommitPolicy(backoff_min_ms=10)), FileWriter(deps)
    care = Care(committer, LIGHT)
    for end in range(2, 42, 2):
        (file,) = await writer.write(table, rows(end - 2, end))
        outcome = await committer.commit(Landed(base=table, files=[file], moves={source(): Move(end - 2 if end > 2 else None, end)}))
        assert isinstance(outcome, Committed)
        table = outcome.table
        if end % 10 == 0:
            await care.pass_once(IDENT)
    await catalog.settle()
    return {info.key: await objects.get(info.key) async for info in objects.list("")}


def test_the_same_seed_gives_the_same_objects_and_another_seed_others() -> None:
    first, again, other = (run_virtual(history(seed)) for seed in (3, 3, 4))
    assert first == again
    assert first.keys().isdisjoint(other)
