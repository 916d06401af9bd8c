"""A bundle whose PUT is slow is put a second time under an id of its own (R25)."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from tests.unit.log.test_rules import in_world, values
from tests.unit.log.world import World, batch, key

from frazil.kit.delays import Delay
from frazil.kit.errors import OutcomeUnknown
from frazil.log.append import Appended, FlushPolicy
from frazil.objects.faulty import FaultyObjects, ObjectFaults
from frazil.objects.stores.memory import MemoryObjects
from frazil.segments.keys import bundle_ulid

POLICY = FlushPolicy(inflight=4, hedge_share=0.05)


class Slow(MemoryObjects):
    """Takes 10 ms for a put, except for those that are told to hang."""

    hang: int = 0
    late: bool = False
    """A hanging put is applied although its caller has left."""
    seen: list[str]

    async def put_if_absent(self, name: str, data: Any) -> None:
        self.seen.append(name)
        if self.hang:
            self.hang -= 1
            try:
                await asyncio.sleep(1e6)
            except asyncio.CancelledError:
                if self.late:
                    await super().put_if_absent(name, data)
                raise
        await asyncio.sleep(0.01)
        await super().put_if_absent(name, data)


async def warmed(world: World) -> tuple[Any, Slow]:
    objects = Slow(world.bucket, world.clock)
    objects.seen = []
    one = world.broker(objects=objects, policy=POLICY).start()
    for n in range(40):
        assert await one.append(key(), batch([f"w{n}"])) == Appended(n, 0, -1)
    return one, objects


def test_r25_a_slow_put_is_sent_again_under_a_new_id() -> None:
    async def body(world: World) -> None:
        one, objects = await warmed(world)
        objects.hang = 1
        began = asyncio.get_running_loop().time()
        assert await one.append(key(), batch(["a"])) == Appended(40, 0, -1)
        assert asyncio.get_running_loop().time() - began < 0.1
        first, second = objects.seen[-2:]
        assert bundle_ulid(first) != bundle_ulid(second)
        assert (one.appender.puts.hedged, one.appender.puts.won) == (1, 1)
        assert (await values((await world.fresh()).reader, key()))[-1] == (40, "a")
        await one.stop()

    in_world(body)


def test_r25_the_slower_of_two_leaves_no_second_copy_in_the_log() -> None:
    async def body(world: World) -> None:
        one, objects = await warmed(world)
        objects.hang, objects.late = 1, True
        assert await one.append(key(), batch(["a"])) == Appended(40, 0, -1)
        assert await one.append(key(), batch(["b"])) == Appended(41, 0, -1)
        assert len(world.objects("bundles/")) == 43  # the loser was stored as well; nobody ever refers to it
        assert [value for _, value in await values((await world.fresh()).reader, key())][-2:] == ["a", "b"]
        await one.stop()

    in_world(body)


def test_r25_hedging_is_off_unless_asked_for() -> None:
    async def body(world: World) -> None:
        objects = Slow(world.bucket, world.clock)
        objects.seen = []
        one = world.broker(objects=objects, policy=FlushPolicy(put_deadline_ms=3000)).start()
        for n in range(40):
            await one.append(key(), batch([f"w{n}"]))
        objects.hang = 1
        began = asyncio.get_running_loop().time()
        await one.append(key(), batch(["a"]))
        assert asyncio.get_running_loop().time() - began > 3
        assert len(set(objects.seen)) == 41  # the retry is for the same key
        await one.stop()

    in_world(body)


def test_r25_two_lost_answers_are_settled_on_the_first_id() -> None:
    async def body(world: World) -> None:
        one, objects = await warmed(world)
        sent: list[str] = []
        put = MemoryObjects.put_if_absent

        async def lost(name: str, data: Any) -> None:
            sent.append(name)
            if len(sent) <= 2:
                await asyncio.sleep(0.05)
                await put(objects, name, data)
                raise OutcomeUnknown("the answer was lost")
            await put(objects, name, data)

        objects.put_if_absent = lost  # type: ignore[method-assign]
        assert await one.append(key(), batch(["a"])) == Appended(40, 0, -1)
        assert len(sent) == 3
        assert sent[0] == sent[2] != sent[1]
        assert (await values((await world.fresh()).reader, key()))[-1] == (40, "a")
        await one.stop()

    in_world(body)


def test_r25_the_slowest_twentieth_gets_faster_at_five_percent_more_puts() -> None:
    """On the latencies of S3 Standard; the same seed without hedging beside it."""

    def tail(share: float) -> tuple[float, int]:
        found: list[tuple[float, int]] = []

        async def body(world: World) -> None:
            model = ObjectFaults(put_delay=Delay(p50_ms=60, p99_ms=300))
            objects = FaultyObjects(MemoryObjects(world.bucket, world.clock), random.Random(5), model)
            one = world.broker(objects=objects, policy=FlushPolicy(inflight=1, hedge_share=share)).start()
            took: list[float] = []
            for _ in range(1500):
                began = asyncio.get_running_loop().time()
                await one.append(key(), batch(["x"]))
                took.append(asyncio.get_running_loop().time() - began)
            found.append((sorted(took)[int(len(took) * 0.99)], one.appender.puts.hedged))
            await one.stop()

        in_world(body)
        return found[0]

    plain, none = tail(0.0)
    helped, sent_twice = tail(0.05)
    assert none == 0
    assert 20 < sent_twice <= 1500 * 0.05 + 5
    assert helped < 0.85 * plain, (helped, plain)
