"""A bug's own test: an answer lost for longer than its commit record is kept must not lead to a second append (R02)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.unit.log.world import World, batch, in_world, key, values

from frazil.kit.errors import OutcomeUnknown
from frazil.log.append import Appended, AppendFault, FaultKind
from frazil.metadata.port import Check, RangeDelete, Write
from frazil.metadata.stores.memory import MemoryMetadata


class LongPause(MemoryMetadata):
    """Applies one commit, and answers only after another process has sealed the bundle and dropped its commit record."""

    world: World
    armed = False

    async def commit(self, checks: Sequence[Check], writes: Sequence[Write], range_deletes: Sequence[RangeDelete] = ()) -> Any:
        answer = await super().commit(checks, writes, range_deletes)
        if self.armed and any(write.key.startswith("log/commit/") for write in writes):
            self.armed = False
            other = await self.world.fresh()
            caretaker = other.caretaker(seal_age_ms=-10_000)
            await caretaker.pass_once()
            await caretaker.pass_once()
            assert not self.world.commit_keys()
            raise OutcomeUnknown("the answer was lost, and the process was paused")
        return answer


def test_r02_an_answer_lost_for_longer_than_commit_records_live_never_appends_twice() -> None:
    async def body(world: World) -> None:
        store = LongPause(world.metadata, world.clock)
        store.world = world
        one = world.broker(store=store).start()
        topic = await one.topic("t")
        where = key(topic=topic.topic_id)
        assert await one.append(where, batch(["a"])) == Appended(0, 0, -1)
        store.armed = True
        answer = await one.append(where, batch(["b"]))
        assert isinstance(answer, AppendFault)
        assert answer.kind is FaultKind.RETRY
        assert await one.append(where, batch(["c"])) == Appended(2, 0, -1)
        await one.stop()
        assert await values((await world.fresh()).reader, where) == [(0, "a"), (1, "b"), (2, "c")]

    in_world(body)
