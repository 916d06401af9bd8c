"""A bug's own test: a segment PUT that arrives after retention removed the segment leaves nothing for ever."""

from __future__ import annotations

import asyncio

from tests.unit.log.world import World, batch, in_world, key, values


def test_a_segment_put_back_after_its_removal_is_swept() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        topic = await one.topic("t", retention_bytes="1")
        where = key(topic=topic.topic_id)
        caretaker = one.caretaker(seal_age_ms=0, close_age_ms=0, grace_ms=1_000, orphan_interval_ms=1_000)
        await one.append(where, batch(["a"]))
        await asyncio.sleep(1)
        await caretaker.pass_once()
        late = {name: await one.objects.get(name) for name in world.objects("default/t/0/")}
        assert len(late) == 3
        await one.append(where, batch(["b"]))
        for _ in range(5):
            await asyncio.sleep(2)
            await caretaker.pass_once()
        kept = world.objects("default/t/0/")
        assert not set(late) & set(kept)
        for name, data in late.items():
            await one.objects.put_if_absent(name, data)  # the slow PUT arrives
        await asyncio.sleep(2)
        await caretaker.pass_once()
        assert world.objects("default/t/0/") == kept
        assert [value for _, value in await values((await world.fresh()).reader, where, start=1)] == ["b"]
        await one.stop()

    in_world(body)
