"""R22: metadata and bucket count marks together; whichever is put back from a copy shows, and concurrent starts do not trip it."""

from __future__ import annotations

import asyncio
import copy
import random

import pytest

from frazil.assembly.marks import Marks
from frazil.kit.clock import SystemClock
from frazil.kit.errors import Refused, RetryLater
from frazil.kit.names import PartitionId, PartitionKey, TopicId
from frazil.metadata.faulty import FaultyMetadata, MetadataFaults
from frazil.metadata.marks import MARK_PREFIX
from frazil.metadata.stores.memory import MemoryMetadata, MemoryState
from frazil.objects.stores.memory import MemoryBucket, MemoryObjects

WHERE = PartitionKey(TopicId(bytes(16)), PartitionId(3))


class _Deaf(MemoryObjects):
    async def put_if_absent(self, key: str, data: object) -> None:
        raise RetryLater("no")


class Place:
    def __init__(self) -> None:
        self.state, self.bucket, self.seed = MemoryState(), MemoryBucket(), 0

    def marks(self, plan: MetadataFaults | None = None, *, deaf: bool = False) -> Marks:
        """A process of its own."""
        self.seed += 1
        clock, chance = SystemClock(), random.Random(self.seed)
        store = MemoryMetadata(self.state, clock)
        objects = (_Deaf if deaf else MemoryObjects)(self.bucket, clock)
        return Marks(FaultyMetadata(store, random.Random(self.seed), plan) if plan else store, objects, chance)

    def numbers(self) -> list[int]:
        return [int(name[len(MARK_PREFIX) : -len(".json")]) for name in self.bucket.keys if name.startswith(MARK_PREFIX)]


def test_r22_a_copy_older_than_the_last_mark_is_refused_and_a_restore_joins_them() -> None:
    async def body() -> None:
        place = Place()
        await place.marks().check()
        await place.marks().advance({WHERE: 5})
        old = copy.deepcopy(place.state)
        await place.marks().advance({WHERE: 9})  # the clean stop of the process that was copied
        await place.marks().check()
        assert place.numbers() == [2], "older marks go"
        place.state = old
        for refused in (place.marks().check(), place.marks().advance({})):
            with pytest.raises(Refused, match=r"metadata is older than the bucket.*frazil restore"):
                await refused
        _, found = await place.marks().read()
        assert found.ends == {WHERE: 9}
        await place.marks().join({WHERE: 9})
        await place.marks().check()
        await place.marks().advance({})

    asyncio.run(body())


def test_r22_two_copies_that_both_went_on_are_told_apart() -> None:
    async def body() -> None:
        place = Place()
        await place.marks().advance({})
        other = copy.deepcopy(place)
        other.seed = 100
        await place.marks().advance({})
        await other.marks().advance({})
        place.state = other.state  # as many marks, not the same ones
        with pytest.raises(Refused, match="went on apart"):
            await place.marks().check()

    asyncio.run(body())


def test_r22_an_older_bucket_is_refused_too() -> None:
    async def body() -> None:
        place = Place()
        await place.marks().advance({})
        old = copy.deepcopy(place.bucket)
        await place.marks().advance({})
        await place.marks().advance({})
        place.bucket = old
        with pytest.raises(Refused, match="bucket is older than metadata"):
            await place.marks().check()

    asyncio.run(body())


def test_r22_death_between_metadata_and_bucket_is_no_copy() -> None:
    async def body() -> None:
        place = Place()
        await place.marks().advance({})
        for number in (2, 3, 4):
            with pytest.raises(RetryLater):
                await place.marks(deaf=True).advance({})  # the mark is taken and never stored
            assert place.numbers() == [1]
            await place.marks().check()
            assert (await place.marks().read())[0].number == 2, f"none is taken before the last is stored, try {number}"
        await place.marks().advance({})
        await place.marks().check()

    asyncio.run(body())


@pytest.mark.parametrize("seed", range(8))
def test_r22_processes_that_start_at_once_do_not_trip_each_other(seed: int) -> None:
    plan = MetadataFaults(unavailable=0.2, lost_applied=0.1, lost_unapplied=0.1, lost_late=0.05, late_ms=5)

    async def start(place: Place) -> None:
        marks = place.marks(plan)
        while True:
            try:
                await marks.advance({})
                await marks.check()
                return
            except RetryLater:
                await asyncio.sleep(0)

    async def body() -> None:
        place = Place()
        place.seed = 1000 * seed
        await asyncio.gather(*(start(place) for _ in range(6)))
        await place.marks().check()
        assert len(place.numbers()) <= 6

    asyncio.run(body())


@pytest.mark.parametrize("call", ["put_if_absent", "delete", "get", "list"])
def test_a_store_that_refuses_is_trouble_that_may_pass_and_no_other_history(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """A read-only file system once ended every broker within seconds, reads and all."""

    def refuse(*_: object, **__: object) -> None:
        raise Refused("Read-only file system; check the directory and its permissions")

    async def body() -> None:
        place = Place()
        await place.marks().advance({WHERE: 5})
        marks = place.marks()
        with monkeypatch.context() as patched:
            patched.setattr(MemoryObjects, call, refuse)
            with pytest.raises(RetryLater, match="Read-only"):
                await marks.advance({WHERE: 6})
        await marks.advance({WHERE: 7})
        _, found = await marks.read()
        assert found.ends == {WHERE: 7}

    asyncio.run(body())
