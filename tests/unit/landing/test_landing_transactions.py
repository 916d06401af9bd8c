"""Transactions through the whole of landing: crafted batches in our own log and in a KafScale bucket (F20, R21, R34)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.property.landing.test_transactions_property import marker
from tests.simulation.loop import run_virtual
from tests.unit.landing.test_landing_kafscale import Bucket, play
from tests.unit.landing.world import FAST, World, auto_off

from frazil.metadata.landings import LandingSpec, put_landing
from frazil.records import build_batch
from frazil.records.building import BatchOptions, Record
from frazil.segments.kfs import build_segment

SPEC = LandingSpec(table="db.t", topics=("t",), commit_interval_ms=1_000)
QUICK = replace(auto_off(FAST), progress_idle_ms=1_000)


def data(*ids: int, producer_id: int = -1, epoch: int = 0, base: int = 0, sequence: int = 0) -> bytes:
    records = [Record(value=b'{"id": %d}' % number, timestamp_ms=1_700_000_000_000) for number in ids]
    options = BatchOptions(
        producer_id=producer_id, producer_epoch=epoch, transactional=producer_id >= 0, base_offset=base, base_sequence=sequence
    )
    return bytes(build_batch(records, options=options))


async def world_with(spec: LandingSpec = SPEC) -> World:
    world = World()
    await world.topics.create("t", 1)
    await put_landing(world.store, spec)
    return world


async def ids(world: World) -> list[int]:
    return sorted(row["id"] for row in await world.rows("db.t"))


def test_f20_an_aborted_record_is_no_row_and_its_marker_is_passed() -> None:
    async def main() -> None:
        world = await world_with()
        await world.append("t", 0, data(0, producer_id=7))
        await world.append("t", 0, marker(0, 7, 0, commits=False, sequence=1))
        await world.append("t", 0, data(2))
        await world.land(settings=QUICK)
        assert [(row["id"], row["_offset"]) for row in await world.rows("db.t")] == [(2, 2)]
        status = await world.status("db.t")
        assert (status.state, status.behind_records) == ("idle", 0)

    run_virtual(main())


def test_f20_read_uncommitted_is_a_choice() -> None:
    async def main() -> None:
        world = await world_with(replace(SPEC, options={"isolation": "read_uncommitted"}))
        await world.append("t", 0, data(0, producer_id=7))
        await world.append("t", 0, marker(0, 7, 0, commits=False, sequence=1))
        await world.append("t", 0, data(2))
        await world.append("t", 0, data(3, producer_id=8))
        await world.land(settings=QUICK)
        assert await ids(world) == [0, 2, 3]

    run_virtual(main())


def test_r34_an_open_transaction_is_named_and_ends() -> None:
    async def main() -> None:
        world = await world_with()
        await world.append("t", 0, data(0))
        await world.append("t", 0, data(1, producer_id=4711, epoch=3))
        await world.append("t", 0, data(2))
        await world.land(12.0, settings=QUICK)
        assert await ids(world) == [0]
        status = await world.status("db.t")
        assert (status.state, status.stage, status.topic, status.partition) == ("stalled", "open-transaction", "t", 0)
        assert status.behind_records == 2
        for word in ("producer id 4711", "epoch 3", "offset 1 of t[0]", "2023-11-14", "kafka-transactions.sh abort", "--start-offset 1"):
            assert word in status.reason, status.reason
        await world.append("t", 0, marker(0, 4711, 3, commits=True, sequence=1))
        await world.land(settings=QUICK)
        assert await ids(world) == [0, 1, 2]
        assert (await world.status("db.t")).state == "idle"

    run_virtual(main())


def test_r34_a_transaction_that_is_open_for_a_moment_is_no_trouble() -> None:
    async def main() -> None:
        world = await world_with()
        await world.append("t", 0, data(0))
        await world.append("t", 0, data(1, producer_id=5))
        await world.land(3.0, settings=QUICK)
        assert (await world.status("db.t")).state == "running"

    run_virtual(main())


def test_f20_a_transaction_many_slices_long_lands_once_its_marker_is_found() -> None:
    """Its marker is far beyond what one slice may hold, and the slices before it are not read again and again."""

    async def main() -> None:
        world = await world_with()
        value = b'{"id": %d, "text": "' + b"x" * 5_000 + b'"}'
        for number in range(200):
            options = BatchOptions(producer_id=5, producer_epoch=0, transactional=True, base_sequence=number)
            await world.append("t", 0, bytes(build_batch([Record(value=value % number)], options=options)))
        await world.append("t", 0, data(1_000))
        await world.append("t", 0, marker(0, 5, 0, commits=True, sequence=200))
        await world.land(20.0, settings=replace(QUICK, slice_bytes_max=65_536))
        assert await ids(world) == [*range(200), 1_000]

    run_virtual(main())


@pytest.mark.parametrize("commits", [True, False])
def test_f20_transactions_of_a_kafscale_bucket_whose_marker_is_in_a_later_segment(commits: bool) -> None:
    async def story(bucket: Bucket) -> None:
        async def put(base: int, *batches: bytes) -> None:
            built = build_segment(batches, created_ms=100)
            stem = f"segments/events/0/segment-{base:020d}"
            await bucket.objects.put_if_absent(f"{stem}.kfs", built.kfs)
            await bucket.objects.put_if_absent(f"{stem}.index", built.index)

        await put(0, data(0, base=0), data(1, 2, producer_id=5, base=1), data(3, base=3))
        await bucket.land()
        assert await bucket.ids() == [0]
        await put(4, data(4, base=4), marker(5, 5, 1, commits=commits), data(6, base=6))
        await bucket.land()
        assert await bucket.ids() == ([0, 1, 2, 3, 4, 6] if commits else [0, 3, 4, 6])

    play(story)
