"""A topic that was deleted and made anew: a broker with an old view must not append to the old one (found by simulation, F03)."""

from __future__ import annotations

import random

from tests.unit.log.world import SHARDS, World, batch, in_world, run_of

from frazil.kit.faultpoints import FaultPoints
from frazil.kit.names import PartitionId, PartitionKey
from frazil.kit.tasks import spawn
from frazil.log.append import AppendDeps, Appended, Appender, AppendFault, FaultKind, FlushPolicy
from frazil.log.index import LogIndex
from frazil.metadata.stores.memory import MemoryMetadata
from frazil.metadata.topics import Topics
from frazil.objects.stores.memory import MemoryObjects


def test_f03_nothing_is_appended_to_a_topic_that_is_gone() -> None:
    async def body(world: World) -> None:
        store = MemoryMetadata(world.metadata, world.clock)
        mine = Topics(store, world.clock, random.Random(1))
        theirs = Topics(MemoryMetadata(world.metadata, world.clock), world.clock, random.Random(2))
        old = await mine.create("t", 1)
        await mine.refresh()
        deps = AppendDeps(
            store=store,
            objects=MemoryObjects(world.bucket, world.clock),
            index=LogIndex(store, shards=SHARDS),
            clock=world.clock,
            chance=random.Random(3),
            faults=FaultPoints(),
            topics=mine,
        )
        appender = Appender(deps, FlushPolicy())
        running = spawn("appender", appender.run())
        before = PartitionKey(old.topic_id, PartitionId(0))
        (outcome,) = await appender.append([run_of(before, batch(["a"]))])
        assert isinstance(outcome, Appended)

        await theirs.refresh()
        await theirs.delete("t")
        new = await theirs.create("t", 1)
        after = PartitionKey(new.topic_id, PartitionId(0))
        assert mine.get("t") == old, "the view has to be old for this test"
        (outcome,) = await appender.append([run_of(before, batch(["b"]))])
        assert isinstance(outcome, AppendFault)
        assert outcome.kind is FaultKind.RETRY
        assert mine.get("t") == new, "the client's next try finds the new topic"
        (outcome,) = await appender.append([run_of(after, batch(["b"]))])
        assert isinstance(outcome, Appended)
        assert outcome.base_offset == 0
        await appender.close()
        await running

    in_world(body)
