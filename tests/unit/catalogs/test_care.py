"""Care: bounded metadata, nothing reachable deleted, sequence numbers and specs kept (R17, R24, F51, F54, F55)."""

from __future__ import annotations

import asyncio
import pathlib
from dataclasses import replace
from typing import Any

from pyiceberg.table import StaticTable
from tests.simulation.loop import run_virtual
from tests.unit.catalogs.rig import IDENT, Rig, assert_exactly_once, offsets, rig, source

from frazil.catalogs import Landed
from frazil.catalogs.care import Care, CareSettings
from frazil.catalogs.commit import Committed
from frazil.catalogs.condemned import PREFIX
from frazil.catalogs.history import Keep, expired
from frazil.catalogs.progress import COMMIT_ID, Move
from frazil.catalogs.scan import Span, live_files, read_rows

LIGHT = CareSettings(
    keep=Keep(last=5, hours=0, days=0),
    expire_batch=3,
    manifests_max=8,
    metadata_grace_ms=2_000,
    delete_grace_ms=10_000,
    data_sweep_interval_ms=5_000,
)


async def metadata_keys(it: Rig) -> list[str]:
    return [info.key async for info in it.deps.objects.list("warehouse/") if "/metadata/" in info.key]


def test_r17_metadata_is_bounded_and_every_kept_snapshot_readable(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        care = Care(it.committer, LIGHT)
        most = 0
        for end in range(2, 122, 2):
            await it.land(end)
            await asyncio.sleep(0.5)
            if end % 8 == 0:
                await care.pass_once(IDENT)
                most = max(most, len(await metadata_keys(it)))
        table = await it.table()
        assert most < 110  # of about 200 that were written
        assert len(table.metadata["snapshots"]) <= 5 + 3 + 4
        assert len(await it.committer.lists.lines(table.metadata["snapshots"][-1])) <= 8 + 4
        assert_exactly_once(table, 120)
        static = StaticTable.from_metadata(table.metadata_location)
        for snapshot in table.metadata["snapshots"]:
            rows = static.scan(snapshot_id=snapshot["snapshot-id"]).to_arrow().num_rows
            assert rows == int(snapshot["summary"]["total-records"])
        assert await it.progress() == {source(): 120}

    run_virtual(run())


def test_f51_merged_manifests_keep_sequence_numbers_and_files(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        for end in range(1, 11):
            await it.land(end)
        before = StaticTable.from_metadata((await it.table()).metadata_location).inspect.entries().to_pylist()
        care = Care(it.committer, LIGHT)
        assert await care.merge_manifests(IDENT) > 0
        table = await it.table()
        after = StaticTable.from_metadata(table.metadata_location).inspect.entries().to_pylist()

        def facts(entries: list[dict[str, object]]) -> list[tuple[object, ...]]:
            return sorted(
                (entry["data_file"]["file_path"], entry["snapshot_id"], entry["sequence_number"], entry["file_sequence_number"])  # type: ignore[index]
                for entry in entries
            )

        assert facts(after) == facts(before)
        head = table.metadata["snapshots"][-1]
        assert head["summary"]["operation"] == "replace"
        assert head["summary"]["total-records"] == "10"
        assert COMMIT_ID in head["summary"]
        assert await it.progress() == {source(): 10}
        assert_exactly_once(table, 10)
        await it.land(12)
        assert_exactly_once(await it.table(), 12)

    run_virtual(run())


def test_r24_merging_beside_appends_neither_fails_nor_blocks_them(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        for end in range(1, 12):
            await it.land(end)
        care = Care(it.committer, LIGHT)
        merged, *_ = await asyncio.gather(care.merge_manifests(IDENT), it.land(12))
        await it.land(13)
        assert merged > 0
        assert_exactly_once(await it.table(), 13)

    run_virtual(run())


def test_r17_files_go_only_after_their_grace_and_the_list_survives_a_restart(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        for end in range(1, 15):
            await it.land(end)
        before = set(await metadata_keys(it))
        report = await Care(it.committer, LIGHT).pass_once(IDENT)
        assert report.expired > 0 and report.condemned > 0 and report.deleted == 0
        assert before <= set(await metadata_keys(it))
        assert any(PREFIX in key for key in await metadata_keys(it))
        await asyncio.sleep(1.9)
        assert (await Care(it.committer, LIGHT).pass_once(IDENT)).deleted == 0
        await asyncio.sleep(0.2)
        again = await Care(it.committer, LIGHT).pass_once(IDENT)  # a new process: it knows only what is stored
        assert again.deleted == report.condemned
        assert_exactly_once(await it.table(), 14)

    run_virtual(run())


def test_f55_what_a_tag_holds_stays(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        first = await it.land(3)
        tag = {"action": "set-snapshot-ref", "ref-name": "audit", "type": "tag", "snapshot-id": first.snapshot_id}
        await it.inner.commit(IDENT, await it.table(), [], [tag])
        care = Care(it.committer, LIGHT)
        for end in range(4, 30):
            await it.land(end)
            await asyncio.sleep(1)
            await care.pass_once(IDENT)
        table = await it.table()
        assert StaticTable.from_metadata(table.metadata_location).scan(snapshot_id=first.snapshot_id).to_arrow().num_rows == 3

    run_virtual(run())


def test_f56_leftovers_of_lost_commits_go_and_files_under_way_stay(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        care = Care(it.committer, LIGHT)
        await it.land(5)
        orphan = await it.file(0, 99)
        held = await it.file(5, 10)
        faulty = it.rival(script=["C-cut/n"] * 60)
        task = asyncio.ensure_future(faulty.committer.commit(Landed(base=await it.table(), files=[held], moves={source(): Move(5, 10)})))
        beside = Care(faulty.committer, LIGHT)
        await beside.pass_once(IDENT)
        for _ in range(10):
            await asyncio.sleep(3)
            await beside.pass_once(IDENT)
        assert not task.done()
        stored = {info.key async for info in it.deps.objects.list("warehouse/")}
        assert it.committer.locations.key_of(orphan.path) not in stored
        assert it.committer.locations.key_of(held.path) in stored
        assert isinstance(await task, Committed)
        assert_exactly_once(await it.table(), 10)
        await asyncio.sleep(30)
        await care.pass_once(IDENT)

    run_virtual(run())


def test_r17_what_became_reachable_after_it_was_condemned_stays(tmp_path: pathlib.Path) -> None:
    """The second sighting: a file held back for long is committed at last, minutes before its list is due."""

    async def run() -> None:
        it = await rig(tmp_path)
        care = Care(it.committer, LIGHT)
        await it.land(5)
        late = await it.file(5, 10)
        await care.pass_once(IDENT)
        await asyncio.sleep(6)
        report = await care.pass_once(IDENT)
        assert report.condemned > 0
        await it.committer.commit(Landed(base=await it.table(), files=[late], moves={source(): Move(5, 10)}))
        for _ in range(4):
            await asyncio.sleep(6)
            await care.pass_once(IDENT)
        assert not any(PREFIX in key for key in await metadata_keys(it)), "the list was worked off"
        assert_exactly_once(await it.table(), 10)

    run_virtual(run())


def test_r17_a_list_that_ripens_while_the_table_is_read_is_left_to_the_next_pass(tmp_path: pathlib.Path) -> None:
    """Found by simulation: it was worked off although nobody had looked which data files the table reaches."""

    async def run() -> None:
        it = await rig(tmp_path)
        care = Care(it.committer, LIGHT)
        await it.land(5)
        late = await it.file(5, 10)
        await care.pass_once(IDENT)
        await asyncio.sleep(6)
        assert (await care.pass_once(IDENT)).condemned > 0
        await it.committer.commit(Landed(base=await it.table(), files=[late], moves={source(): Move(5, 10)}))
        other = Care(it.committer, replace(LIGHT, data_sweep_interval_ms=10**9))
        condemn = other._condemn

        async def slowly(*arguments: Any) -> int:
            await asyncio.sleep(2)
            return await condemn(*arguments)

        other._condemn = slowly  # type: ignore[method-assign]
        await asyncio.sleep(9)
        await other.pass_once(IDENT)
        assert_exactly_once(await it.table(), 10)

    run_virtual(run())


def test_f55_rows_dropped_by_another_engine_are_deleted_only_when_no_snapshot_holds_them(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        await it.land(4)
        await it.land(8)
        dropped = (await live_files(it.deps.objects, await it.table()))[-1]
        await foreign_delete(it)
        assert offsets(await it.table()) == [4, 5, 6, 7]
        care = Care(it.committer, LIGHT)
        await care.pass_once(IDENT)
        await asyncio.sleep(6)
        await care.pass_once(IDENT)
        for end in range(10, 26, 2):  # pushes the snapshots that hold the file out of history
            await it.land(end)
            await asyncio.sleep(3)
            await care.pass_once(IDENT)
        stored = pathlib.Path(dropped.path.removeprefix("file://"))
        assert stored.exists()
        for _ in range(4):
            await asyncio.sleep(6)
            await care.pass_once(IDENT)
        assert not stored.exists()
        assert offsets(await it.table()) == list(range(4, 24))

    run_virtual(run())


async def foreign_delete(it: Rig) -> None:
    """PyIceberg deletes the rows below 4: the first file leaves the table."""
    from pyiceberg.catalog.sql import SqlCatalog

    path = it.inner._pointers._path  # type: ignore[attr-defined]
    catalog = SqlCatalog("frazil", uri=f"sqlite:///{path}")
    try:
        catalog.load_table(IDENT).delete("_offset < 4")
    finally:
        catalog.engine.dispose()


def test_f56_a_location_that_is_not_the_tables_own_is_never_swept(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        await it.land(5)
        await it.inner.commit(IDENT, await it.table(), [], [{"action": "remove-properties", "removals": ["frazil.owns-location"]}])
        orphan = await it.file(0, 99)
        for _ in range(8):
            await asyncio.sleep(6)
            report = await Care(it.committer, LIGHT).pass_once(IDENT)
            assert report.condemned == report.deleted == 0
        assert pathlib.Path(orphan.path.removeprefix("file://")).exists()

    run_virtual(run())


def test_history_keeps_last_hourly_daily_and_refs() -> None:
    hour = 3_600_000
    snapshots = [
        {"snapshot-id": at + 1, "parent-snapshot-id": at or None, "timestamp-ms": 10 * 24 * hour + at * hour // 4, "sequence-number": at}
        for at in range(200)  # 50 hours, four a hour
    ]
    metadata = {
        "snapshots": snapshots,
        "refs": {"main": {"type": "branch", "snapshot-id": 200}, "old": {"type": "tag", "snapshot-id": 7}},
        "current-snapshot-id": 200,
    }
    kept = {item["snapshot-id"] for item in snapshots} - set(expired(metadata, Keep(last=10, hours=24, days=7)))
    assert set(range(191, 201)) <= kept
    assert 7 in kept
    assert {96, 192} <= kept  # the last of day one and two
    assert len(kept) == 10 + 1 + 1 + (24 - 3)  # snapshots 192 and 200 are among the last ten
    assert expired({"snapshots": []}, Keep()) == []


def test_read_rows_prunes_by_bounds_and_filters(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        for end in (10, 20, 30):
            await it.land(end)
        gets: list[str] = []
        get = it.deps.objects.get

        async def counted(key: str, *, start: int = 0, end: int | None = None) -> bytes:
            gets.append(key)
            return await get(key, start=start, end=end)

        it.deps.objects.get = counted  # type: ignore[method-assign]
        found = await read_rows(it.deps.objects, await it.table(), ["text", "_offset"], Span(column="_offset", low=12, high=15))
        assert found.to_pylist() == [{"text": f"v{at}", "_offset": at} for at in (12, 13, 14)]
        assert sum(key.endswith(".parquet") for key in gets) == 1

    run_virtual(run())
