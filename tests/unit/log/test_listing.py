"""A log known by its sealed segments alone (R27): order, gaps, overlaps, what is not whole, what changed, and the reader over it."""

from __future__ import annotations

import asyncio
import hashlib
import pathlib
from collections.abc import Awaitable, Callable

import pytest
from tests.simulation.loop import run_virtual

from frazil.kit.clock import LoopClock
from frazil.kit.names import PartitionId, PartitionKey
from frazil.kit.tasks import InlineOffload
from frazil.log.cache import BlockCache
from frazil.log.listing import ListingPolicy, SegmentListing, topic_id_of
from frazil.log.read import LogReader
from frazil.log.refs import Bounds, Slice
from frazil.objects.stores.memory import MemoryBucket, MemoryObjects
from frazil.records import build_batch, split_batches
from frazil.records.building import BatchOptions, Record
from frazil.segments.kfs import build_segment

KEY = PartitionKey(topic_id_of("events"), PartitionId(0))
PATIENCE_MS = 60_000


def segment(base: int, count: int, *, created_ms: int = 1) -> tuple[bytes, bytes]:
    """``.kfs`` and ``.index`` with one record per offset, its value the offset."""
    records = [Record(key=None, value=b"%d" % offset, timestamp_ms=offset) for offset in range(base, base + count)]
    built = build_segment([build_batch(records, options=BatchOptions(base_offset=base))], created_ms=created_ms)
    return built.kfs, built.index


class Bucket:
    def __init__(self, prefix: str = "segments/", *, policy: ListingPolicy | None = None) -> None:
        self.bucket = MemoryBucket()
        self.clock = LoopClock()
        self.objects = MemoryObjects(self.bucket, self.clock)
        policy = policy or ListingPolicy(interval_ms=1_000, gap_patience_ms=PATIENCE_MS)
        self.listing = SegmentListing(self.objects, self.clock, prefix=prefix, topics=("events",), policy=policy)
        self.reader = LogReader(self.objects, self.listing, BlockCache(1 << 20), offload=InlineOffload())
        self.listing.changed = self.reader.forget
        self.prefix = prefix

    async def put(self, base: int, count: int, *, index: bool = True, created_ms: int = 1, partition: int = 0) -> str:
        kfs, index_bytes = segment(base, count, created_ms=created_ms)
        stem = f"{self.prefix}events/{partition}/segment-{base:020d}"
        await self.objects.put_if_absent(f"{stem}.kfs", kfs)
        if index:
            await self.objects.put_if_absent(f"{stem}.index", index_bytes)
        return stem

    async def look(self) -> None:
        await asyncio.sleep(1.1)
        await self.listing.refresh()

    async def read(self, offset: int) -> list[int]:
        """The offsets a reader gets from ``offset`` on, slice by slice, as landing asks."""
        found: list[int] = []
        while True:
            slice_: Slice = await self.reader.fetch(KEY, offset, bytes_max=1 << 20)
            if slice_.end <= offset:
                return found
            for batch in split_batches(slice_.data, batch_bytes_max=1 << 20):
                found += [at for at in range(batch.base_offset, batch.last_offset + 1) if at >= offset]
            offset = self.listing.past_lost(KEY, slice_.end)


def run(work: Callable[[], Awaitable[None]]) -> None:
    run_virtual(work())  # type: ignore[arg-type]


def test_segments_are_one_log_whatever_the_prefix() -> None:
    async def work(prefix: str) -> None:
        bucket = Bucket(prefix)
        await bucket.put(0, 10)
        await bucket.put(10, 5)
        await bucket.put(3, 4, partition=11)
        await bucket.look()
        assert bucket.listing.bounds(KEY) == Bounds(start=0, end=15)
        assert await bucket.read(0) == list(range(15))
        assert await bucket.read(12) == [12, 13, 14]
        (topic,) = bucket.listing.all()
        assert (topic.name, topic.partitions) == ("events", 12)
        assert topic.topic_id == hashlib.sha1(b"events").digest()[:16]
        assert bucket.listing.get("other") is None

    for prefix in ("", "segments/", "a/b/"):
        run(lambda prefix=prefix: work(prefix))  # type: ignore[misc]


def test_a_prefix_without_its_slash_means_the_same() -> None:
    async def work() -> None:
        bucket = Bucket()
        await bucket.put(0, 10)
        listing = SegmentListing(bucket.objects, bucket.clock, prefix="segments", topics=("events",))
        await listing.refresh()
        assert listing.end(KEY) == 10

    run(work)


STRAYS = (
    *("x", "0/segment-10.kfst", "0/segment-.kfs", "0/x/segment-10.kfs", "-1/segment-10.kfs", "00/segment-10.kfs", "lfs/2026/x"),
    *("0/segment-99999999999999999999.kfs", "99999999/segment-0.kfs", "0/segment-10.index"),
)


def test_what_stands_beside_segments_is_nothing() -> None:
    async def work() -> None:
        bucket = Bucket()
        await bucket.put(0, 10)
        kfs, _ = segment(10, 5)
        for name in STRAYS:
            await bucket.objects.put_if_absent(f"segments/events/{name}", kfs)
        await bucket.objects.put_if_absent("segments/events-2/0/segment-00000000000000000010.kfs", kfs)
        await bucket.objects.put_if_absent("segments/events!2/0/segment-00000000000000000010.kfs", kfs)
        await bucket.look()
        assert bucket.listing.bounds(KEY) == Bounds(start=0, end=10)
        assert bucket.listing.trouble(KEY) is None
        assert len(bucket.listing.all()) == 1 and bucket.listing.all()[0].partitions == 1

    run(work)


def test_offsets_in_keys_need_no_zeros() -> None:
    async def work() -> None:
        bucket = Bucket()
        kfs, index = segment(7, 3)
        await bucket.objects.put_if_absent("segments/events/0/segment-7.kfs", kfs)
        await bucket.objects.put_if_absent("segments/events/0/segment-7.index", index)
        await bucket.look()
        assert await bucket.read(7) == [7, 8, 9]

    run(work)


def test_a_segment_without_its_index_counts_when_a_later_one_is_there() -> None:
    async def work() -> None:
        bucket = Bucket()
        await bucket.put(0, 10)
        await bucket.put(10, 10, index=False)
        await bucket.look()
        assert bucket.listing.end(KEY) == 10
        assert bucket.listing.trouble(KEY) is None
        await bucket.put(20, 10)
        await bucket.look()
        assert await bucket.read(0) == list(range(30))

    run(work)


def test_a_segment_that_is_not_whole_does_not_count() -> None:
    async def work() -> None:
        bucket = Bucket()
        await bucket.put(0, 10)
        kfs, index = segment(10, 10)
        for number, data in enumerate((b"", kfs[:20], kfs[:-1], kfs[:-16])):
            bucket.bucket.objects.pop("segments/events/0/segment-00000000000000000010.kfs", None)
            bucket.bucket.keys[:] = sorted(bucket.bucket.objects)
            await asyncio.sleep(1)
            await bucket.objects.put_if_absent("segments/events/0/segment-00000000000000000010.kfs", data)
            if number == 0:
                await bucket.objects.put_if_absent("segments/events/0/segment-00000000000000000010.index", index)
            await bucket.look()
            assert bucket.listing.end(KEY) == 10
        await bucket.objects.delete(["segments/events/0/segment-00000000000000000010.kfs"])
        await bucket.objects.put_if_absent("segments/events/0/segment-00000000000000000010.kfs", kfs)
        await bucket.look()
        assert await bucket.read(0) == list(range(20))

    run(work)


def test_a_missing_segment_is_waited_for_said_and_at_last_lost() -> None:
    async def work() -> None:
        bucket = Bucket()
        await bucket.put(0, 10)
        await bucket.put(20, 10)
        await bucket.look()
        assert bucket.listing.end(KEY) == 10
        assert "offsets 10-19 are in no whole segment" in (bucket.listing.trouble(KEY) or "")
        assert "segment-00000000000000000020.kfs goes on after them" in (bucket.listing.trouble(KEY) or "")
        await asyncio.sleep(PATIENCE_MS / 1000)
        await bucket.look()
        assert bucket.listing.end(KEY) == 30
        assert bucket.listing.trouble(KEY) is None
        assert [bucket.listing.past_lost(KEY, offset) for offset in (5, 9, 10, 15, 19, 20, 25, 30)] == [5, 9, 20, 20, 20, 20, 25, 30]
        assert await bucket.read(0) == [*range(10), *range(20, 30)]

    run(work)


def test_a_missing_segment_that_comes_late_is_read() -> None:
    async def work() -> None:
        bucket = Bucket()
        await bucket.put(0, 10)
        await bucket.put(20, 10)
        await bucket.look()
        await bucket.put(10, 10)
        await bucket.look()
        assert await bucket.read(0) == list(range(30))

    run(work)


def test_overlapping_segments_give_each_offset_once_and_from_the_first() -> None:
    """A stale KafScale owner writes offsets again: process in base order, drop what is below the next expected."""

    async def work() -> None:
        bucket = Bucket()
        await bucket.put(0, 10)
        await bucket.put(5, 10)
        await bucket.put(7, 2)
        await bucket.put(15, 5)
        await bucket.look()
        assert bucket.listing.bounds(KEY) == Bounds(start=0, end=20)
        assert await bucket.read(0) == list(range(20))
        for offset in range(20):
            assert await bucket.read(offset) == list(range(offset, 20))
        assert bucket.listing.refs(KEY, 6, bytes_max=1)[0].base == 0
        assert bucket.listing.refs(KEY, 10, bytes_max=1)[0].base == 5

    run(work)


def test_refs_stop_at_the_bytes_asked_for() -> None:
    async def work() -> None:
        bucket = Bucket()
        for number in range(10):
            await bucket.put(number * 10, 10)
        await bucket.look()
        assert len(bucket.listing.refs(KEY, 0, bytes_max=1)) == 1
        assert len(bucket.listing.refs(KEY, 35, bytes_max=1 << 30)) == 7
        assert bucket.listing.refs(KEY, 100, bytes_max=1) == () == bucket.listing.refs(KEY, 10**9, bytes_max=1)

    run(work)


def test_the_bucket_is_listed_no_more_often_than_the_policy_says_and_once_for_all_callers() -> None:
    async def work() -> None:
        bucket = Bucket()
        lists = 0
        inner = bucket.objects.list

        def counting(prefix: str):  # type: ignore[no-untyped-def]
            nonlocal lists
            lists += 1
            return inner(prefix)

        bucket.objects.list = counting  # type: ignore[method-assign]
        await asyncio.gather(*(bucket.listing.refresh() for _ in range(20)))
        await bucket.listing.refresh()
        assert lists == 1
        await bucket.look()
        assert lists == 2

    run(work)


def test_only_new_segments_are_looked_at() -> None:
    async def work() -> None:
        bucket = Bucket()
        gets = 0
        inner = bucket.objects.get

        async def counting(key: str, **options: int) -> bytes:
            nonlocal gets
            gets += 1
            return await inner(key, **options)

        bucket.objects.get = counting  # type: ignore[method-assign,assignment]
        for number in range(10):
            await bucket.put(number * 10, 10)
        await bucket.look()
        assert gets == 11  # ten footers, one header
        await bucket.put(100, 10)
        await bucket.look()
        await bucket.look()
        assert gets == 12

    run(work)


def test_retention_moves_the_start_and_the_identity_stays_that_of_the_lowest() -> None:
    async def work() -> None:
        bucket = Bucket()
        first = await bucket.put(0, 10, created_ms=100)
        await bucket.put(10, 10, created_ms=200)
        await bucket.look()
        identity = bucket.listing.identity(KEY)
        assert identity is not None and (identity.base, identity.created_ms) == (0, 100)
        await bucket.objects.delete([f"{first}.kfs", f"{first}.index"])
        await bucket.look()
        assert bucket.listing.bounds(KEY) == Bounds(start=10, end=20)
        identity = bucket.listing.identity(KEY)
        assert identity is not None and (identity.base, identity.created_ms) == (10, 200)

    run(work)


def test_f03_a_log_written_anew_under_the_same_keys_is_read_anew() -> None:
    async def work() -> None:
        bucket = Bucket()
        await bucket.put(0, 10, created_ms=100)
        await bucket.look()
        before = bucket.listing.identity(KEY)
        assert await bucket.read(0) == list(range(10))  # now it is in the cache
        await bucket.objects.delete(list(bucket.bucket.objects))
        await bucket.put(0, 4, created_ms=500)
        await bucket.look()
        assert bucket.listing.identity(KEY) != before
        assert await bucket.read(0) == [0, 1, 2, 3]
        await bucket.objects.delete(list(bucket.bucket.objects))
        await bucket.look()
        assert bucket.listing.identity(KEY) is None and bucket.listing.bounds(KEY) == Bounds(start=0, end=0)

    run(work)


def test_trouble_of_the_store_reaches_every_caller_and_the_next_look_is_a_new_one() -> None:
    async def work() -> None:
        from frazil.kit.errors import RetryLater

        bucket = Bucket()
        await bucket.put(0, 10)
        inner = bucket.objects.list

        def failing(prefix: str):  # type: ignore[no-untyped-def]
            raise RetryLater("no")

        bucket.objects.list = failing  # type: ignore[method-assign]
        results = await asyncio.gather(*(bucket.listing.refresh() for _ in range(3)), return_exceptions=True)
        assert [type(result) for result in results] == [RetryLater] * 3
        bucket.objects.list = inner  # type: ignore[method-assign]
        await bucket.listing.refresh()
        assert bucket.listing.end(KEY) == 10

    run(work)


@pytest.mark.parametrize("policy", [ListingPolicy()])
def test_defaults(policy: ListingPolicy) -> None:
    assert policy.interval_ms == 1_000 and policy.gap_patience_ms == 900_000


def test_a_lowest_segment_that_cannot_be_identified_shows_no_log_and_says_why() -> None:
    """Its footer is whole and its header is not: rows landed under a made-up name would be landed twice later."""

    async def work() -> None:
        bucket = Bucket()
        kfs, index = segment(0, 10)
        damaged = b"XXXX" + kfs[4:]
        await bucket.objects.put_if_absent("segments/events/0/segment-00000000000000000000.kfs", damaged)
        await bucket.objects.put_if_absent("segments/events/0/segment-00000000000000000000.index", index)
        await bucket.put(0, 5, partition=1)
        await bucket.look()
        assert bucket.listing.bounds(KEY) == Bounds(start=0, end=0)
        assert bucket.listing.identity(KEY) is None
        assert "is not that of a segment" in (bucket.listing.trouble(KEY) or "")
        assert bucket.listing.end(PartitionKey(KEY.topic_id, PartitionId(1))) == 5  # the others go on (F30)

    run(work)


def test_segments_of_one_log_are_never_seen_beside_the_identity_of_another() -> None:
    async def work() -> None:
        bucket = Bucket()
        await bucket.put(0, 10, created_ms=100)
        await bucket.look()
        await bucket.objects.delete(list(bucket.bucket.objects))
        await bucket.put(0, 20, created_ms=500)
        await asyncio.sleep(1.1)
        inner = bucket.objects.get

        async def slow(key: str, **options: int) -> bytes:
            await asyncio.sleep(1)
            return await inner(key, **options)

        bucket.objects.get = slow  # type: ignore[method-assign,assignment]
        task = asyncio.create_task(bucket.listing.refresh())
        seen = set()
        while not task.done():
            identity = bucket.listing.identity(KEY)
            seen.add((bucket.listing.end(KEY), None if identity is None else identity.created_ms))
            await asyncio.sleep(0.1)
        await task
        identity = bucket.listing.identity(KEY)
        assert seen == {(10, 100)} and identity is not None and (bucket.listing.end(KEY), identity.created_ms) == (20, 500)

    run(work)


GOLDEN = sorted(path for path in (pathlib.Path(__file__).resolve().parents[2] / "corpus" / "kfs").glob("*.kfs.hex"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name.removesuffix(".kfs.hex"))
def test_every_golden_segment_of_kafscale_is_read_whole(path: pathlib.Path) -> None:
    """Bytes of the original's writer and of an independent one (tests/corpus): found by listing, read batch by batch."""
    kfs = bytes.fromhex(path.read_text())
    base, last = int.from_bytes(kfs[8:16], "big"), int.from_bytes(kfs[-12:-4], "big")

    async def work() -> None:
        bucket = Bucket("default/")
        stem = f"default/events/0/segment-{base:020d}"
        await bucket.objects.put_if_absent(f"{stem}.kfs", kfs)
        await bucket.objects.put_if_absent(
            f"{stem}.index", bytes.fromhex(path.with_name(path.name.replace(".kfs.", ".index.")).read_text())
        )
        await bucket.look()
        assert bucket.listing.bounds(KEY) == Bounds(start=base, end=last + 1)
        slice_ = await bucket.reader.fetch(KEY, base, bytes_max=1 << 20)
        assert (slice_.data, slice_.end) == (kfs[32:-16], last + 1)

    run(work)
