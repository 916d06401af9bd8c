"""A bug's own test: what is left of a removed topic, seen by a process that starts then, is collected and not kept in doubt for ever."""

from __future__ import annotations

import asyncio

from tests.unit.log.world import World, batch, in_world, key


def test_later_runs_of_a_removed_topic_are_collected_by_a_process_that_never_saw_the_first() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        topic = await one.topic("t")
        where = key(topic=topic.topic_id)
        before = one.caretaker(seal_age_ms=0, close_age_ms=0, grace_ms=1_000)
        await one.append(where, batch(["a"]))
        await asyncio.sleep(1)
        await before.pass_once()  # sealed; its commit record goes, so the next ones do not start at 0
        assert not world.commit_keys()
        await one.append(where, batch(["b"]))
        await one.append(where, batch(["c"]))
        await one.topics.delete("t")
        for _ in range(5):  # the topic is removed, but the process ends before it collects
            await before.remover.pass_once()
            await asyncio.sleep(2)
        await one.stop()
        assert len(world.commit_keys()) == 2
        fresh = await world.fresh()
        after = fresh.caretaker(seal_age_ms=0, close_age_ms=0, grace_ms=1_000, orphan_interval_ms=1_000)
        for _ in range(4):
            await asyncio.sleep(2)
            await after.pass_once()
        assert not world.commit_keys()
        assert not world.objects("bundles/")

    in_world(body)
