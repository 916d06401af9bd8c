"""The same log on the plain loop over SQLite and files, through a restart, sealing and collection."""

from __future__ import annotations

import asyncio
import pathlib
import random

from tests.unit.log.world import batch, key, run_of, values

from frazil.kit.clock import SystemClock
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.tasks import ThreadOffload
from frazil.log.append import AppendDeps, Appended, Appender, FlushPolicy
from frazil.log.cache import BlockCache
from frazil.log.caretaker import Caretaker
from frazil.log.index import LogIndex
from frazil.log.read import LogReader
from frazil.log.upkeep import UpkeepDeps, UpkeepPolicy
from frazil.metadata import open_metadata
from frazil.metadata.topics import Topics
from frazil.objects import open_objects


async def session(directory: pathlib.Path, first: int) -> None:
    clock, chance, offload = SystemClock(), random.Random(first), ThreadOffload("test")
    store = open_metadata(f"sqlite://{directory}/metadata.db", clock=clock)
    objects = open_objects(f"file://{directory}/objects", offload=offload, clock=clock)
    index, cache, topics = LogIndex(store, shards=64), BlockCache(1 << 20), Topics(store, clock, chance)
    deps = AppendDeps(store=store, objects=objects, index=index, clock=clock, chance=chance, faults=FaultPoints(), cache=cache)
    appender = Appender(deps, FlushPolicy())
    running = asyncio.create_task(appender.run())
    follower = asyncio.create_task(index.follow())
    await topics.refresh()
    topic = topics.get("t") or await topics.create("t", 4, {"retention.ms": "-1"})
    where = [key(p, topic.topic_id) for p in range(4)]
    for n in range(first, first + 20):
        answers = await appender.append([run_of(w, batch([str(n)])) for w in where])
        assert answers == tuple(Appended(n, 0, -1) for _ in where)
    reader = LogReader(objects, index, cache, offload=offload)
    assert [v for _, v in await values(reader, where[3])] == [str(n) for n in range(first + 20)]
    upkeep = UpkeepDeps(
        store=store, objects=objects, index=index, topics=topics, clock=clock, chance=chance, offload=offload, cache=cache
    )  # fmt: skip
    care = Caretaker(upkeep, UpkeepPolicy(seal_age_ms=0, close_age_ms=0, grace_ms=0), name="test")
    await asyncio.sleep(0.01)
    await care.pass_once()
    await care.pass_once()
    assert [info.key async for info in objects.list("bundles/")] == []
    assert not care.troubles() and not index.troubles()
    assert [v for _, v in await values(reader, where[0])] == [str(n) for n in range(first + 20)]
    await appender.close()
    await running
    follower.cancel()
    await asyncio.gather(follower, return_exceptions=True)
    await store.close()
    offload.close()


def test_log_over_sqlite_and_files(tmp_path: pathlib.Path) -> None:
    asyncio.run(session(tmp_path, 0))
    asyncio.run(session(tmp_path, 20))
