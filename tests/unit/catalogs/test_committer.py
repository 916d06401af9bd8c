"""The committer under every word of the fault vocabulary: each record once, whole files, decided outcomes (R06, R16)."""

from __future__ import annotations

import asyncio
import pathlib

import pytest
from tests.simulation.loop import run_virtual
from tests.unit.catalogs.rig import IDENT, Rig, assert_exactly_once, offsets, rig, source

from frazil.catalogs import Landed
from frazil.catalogs.commit import Committed, Lost
from frazil.catalogs.progress import COMMIT_ID, LANDED_TAG, LAST_COMMIT, Move
from frazil.kit.errors import Corrupt, Refused

WORDS = [
    "ok",
    "C-409",
    "C-429",
    "C-401",
    "C-404",
    "C-5xx/n",
    "C-5xx/a",
    "C-cut/n",
    "C-cut/a",
    "C-409/a",
    "C-hang",
    "C-late(0.01)",
    "C-late(7)",
]


@pytest.mark.parametrize("word", WORDS)
def test_r16_every_fault_word_lands_each_record_once(tmp_path: pathlib.Path, word: str) -> None:
    async def run() -> None:
        it = await rig(tmp_path, script=["ok", word, word, "ok", word])
        for end in (10, 25, 40):
            committed = await it.land(end)
            assert committed.progress == {source(): end}
        await it.catalog.settle()
        table = await it.table()
        assert await it.progress() == {source(): 40}
        assert_exactly_once(table, 40)
        snapshots = table.metadata["snapshots"]
        assert len({snapshot["summary"][COMMIT_ID] for snapshot in snapshots}) == len(snapshots) == 3

    run_virtual(run())


def test_r16_an_unknown_commit_sends_the_same_files_again_until_decided(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path, script=["C-cut/n"] * 6)
        outcome = await it.land_once(10)
        assert isinstance(outcome, Committed)
        keys = [info.key async for info in it.deps.objects.list("warehouse/")]
        assert sum(key.endswith(".parquet") for key in keys) == 1
        assert sum("-m0.avro" in key for key in keys) == 1
        assert it.catalog.met == ["C-cut/n"] * 6 + ["ok"]

    run_virtual(run())


def test_r16_late_commit_of_a_dead_process_and_its_successor_land_once(tmp_path: pathlib.Path) -> None:
    """F14: the successor has looked before the old request arrives; its commit asserts the head it looked at."""

    async def run() -> None:
        it = await rig(tmp_path, script=["C-late(5)"])
        dead = asyncio.ensure_future(it.land_once(100))
        await asyncio.sleep(0.01)
        dead.cancel()
        successor = it.rival()
        base = await successor.table()
        file = await successor.file(0, 150)
        await it.catalog.settle()
        landed = Landed(base=base, files=[file], moves={source(): Move(None, 150)})
        outcome = await successor.committer.commit(landed)
        assert isinstance(outcome, Lost)
        assert outcome.progress == {source(): 100}
        assert outcome.orphans and file.path.endswith(outcome.orphans[0])
        await successor.deps.objects.delete(outcome.orphans)
        await successor.land(150)
        assert_exactly_once(await it.table(), 150)

    run_virtual(run())


def test_r16_files_of_an_open_commit_are_never_called_orphans(tmp_path: pathlib.Path) -> None:
    """The head goes back while a request is unknown: it could still land if the head came back, so its file stays."""

    async def run() -> None:
        it = await rig(tmp_path)
        await it.land(10)
        first = (await it.table()).metadata["current-snapshot-id"]
        await it.land(20)
        base = await it.table()
        file = await it.file(20, 30)
        faulty = it.rival(script=["C-late(30)"])
        task = asyncio.ensure_future(faulty.committer.commit(Landed(base=base, files=[file], moves={source(): Move(20, 30)})))
        await asyncio.sleep(0.01)
        await roll_back(it, first)
        outcome = await task
        assert isinstance(outcome, Lost)
        assert outcome.progress == {source(): 10}
        assert outcome.orphans == ()
        await faulty.catalog.settle()
        assert faulty.catalog.met[-1] == "late request refused: Conflict"
        await it.land(30)
        assert_exactly_once(await it.table(), 30)

    run_virtual(run())


async def roll_back(it: Rig, snapshot_id: int) -> None:
    """What a foreign engine's rollback does."""
    update = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
    await it.inner.commit(IDENT, await it.table(), [], [update])


def test_r16_a_head_that_went_and_came_back_does_not_hold_the_committer_for_ever(tmp_path: pathlib.Path) -> None:
    """The sequence number the request claims is used up although its head stands: it can never be applied and is made anew."""

    async def run() -> None:
        it = await rig(tmp_path)
        landed = await it.land(10)
        base = await it.table()
        file = await it.file(10, 20)
        await it.rival().land(30)
        await roll_back(it, landed.snapshot_id)
        outcome = await asyncio.wait_for(it.committer.commit(Landed(base=base, files=[file], moves={source(): Move(10, 20)})), 60)
        assert isinstance(outcome, Committed)
        assert_exactly_once(await it.table(), 20)

    run_virtual(run())


def test_f13_of_two_committers_on_one_base_one_is_refused(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        other = it.rival()
        base = await it.table()
        ours, theirs = await it.file(0, 10), await other.file(0, 10)
        both = await asyncio.gather(
            it.committer.commit(Landed(base=base, files=[ours], moves={source(): Move(None, 10)})),
            other.committer.commit(Landed(base=base, files=[theirs], moves={source(): Move(None, 10)})),
        )
        assert sorted(type(outcome).__name__ for outcome in both) == ["Committed", "Lost"]
        lost = next(outcome for outcome in both if isinstance(outcome, Lost))
        assert len(lost.orphans) == 1 and lost.progress == {source(): 10}
        await it.deps.objects.delete(lost.orphans)
        assert_exactly_once(await it.table(), 10)

    run_virtual(run())


def test_f22_a_foreign_commit_does_not_cost_the_files_again(tmp_path: pathlib.Path) -> None:
    """Ten commits, each passed by a foreign one: same data files, no loss."""

    async def run() -> None:
        it = await rig(tmp_path)
        other = it.rival()
        for at in range(10):
            base = await it.table()
            file = await it.file(at * 5, at * 5 + 5)
            await other.land_once((at + 1) * 3, partition=1)
            before = at * 5 if at else None
            outcome = await it.committer.commit(Landed(base=base, files=[file], moves={source(): Move(before, at * 5 + 5)}))
            assert isinstance(outcome, Committed)
            assert outcome.progress == {source(): at * 5 + 5, source(1): (at + 1) * 3}
        keys = [info.key async for info in it.deps.objects.list("warehouse/")]
        assert sum(key.endswith(".parquet") for key in keys) == 20
        table = await it.table()
        assert_exactly_once(table, 50)
        assert_exactly_once(table, 30, partition=1)

    run_virtual(run())


def test_rows_without_progress_are_not_rebased_when_asked_not_to(tmp_path: pathlib.Path) -> None:
    """R15: a dead-letter commit whose head moved must look again which keys are there."""

    async def run() -> None:
        it = await rig(tmp_path)
        base = await it.table()
        file = await it.file(0, 5)
        await it.rival().land_once(7, partition=1)
        outcome = await it.committer.commit(Landed(base=base, files=[file], rebase=False))
        assert isinstance(outcome, Lost)
        assert outcome.orphans
        again = await it.committer.commit(Landed(base=outcome.table, files=[file], rebase=False))
        assert isinstance(again, Committed)
        assert again.progress == {source(1): 7}

    run_virtual(run())


def test_c_400_is_refused_and_says_why(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path, script=["C-400"])
        with pytest.raises(Refused, match="C-400"):
            await it.land_once(10)
        await it.land(10)
        assert_exactly_once(await it.table(), 10)

    run_virtual(run())


def test_trouble_is_visible_while_it_lasts(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path, script=["C-5xx/n"] * 8)
        assert it.committer.trouble(IDENT) is None
        task = asyncio.ensure_future(it.land_once(10))
        await asyncio.sleep(0.2)
        assert "C-5xx/n" in (it.committer.trouble(IDENT) or "")
        await task
        assert it.committer.trouble(IDENT) is None

    run_virtual(run())


def test_f58_a_recreated_table_stops_the_committer(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        await it.land(10)
        base = await it.table()
        file = await it.file(10, 20)
        await it.inner.drop(IDENT)
        await rig_again(it)
        with pytest.raises(Refused, match="re-created"):
            await it.committer.commit(Landed(base=base, files=[file], moves={source(): Move(10, 20)}))
        assert offsets(await it.table()) == []

    run_virtual(run())


async def rig_again(it: Rig) -> None:
    from tests.unit.catalogs.rig import SCHEMA

    from frazil.catalogs import CreateTable

    await it.inner.create(IDENT, CreateTable(schema=SCHEMA))


def test_f61_a_short_or_missing_data_file_is_not_committed(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        for damage in ("short", "gone"):
            file = await it.file(0, 10)
            path = pathlib.Path(file.path.removeprefix("file://"))
            data = path.read_bytes()
            path.unlink()
            if damage == "short":
                path.write_bytes(data[: len(data) // 2])
            with pytest.raises(Corrupt) as caught:
                await it.committer.commit(Landed(base=await it.table(), files=[file], moves={source(): Move(None, 10)}))
            assert caught.value.where == file.path
        assert (await it.table()).metadata["snapshots"] == []

    run_virtual(run())


def test_commit_marks_snapshot_properties_and_tag(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        committed = await it.land(10)
        metadata = committed.table.metadata
        assert metadata["properties"][LAST_COMMIT] == committed.commit_id
        assert metadata["refs"][LANDED_TAG] == {"type": "tag", "snapshot-id": committed.snapshot_id}
        summary = metadata["snapshots"][-1]["summary"]
        assert summary["total-records"] == "10"
        assert summary["operation"] == "append"

    run_virtual(run())


def test_kill_points_p4_p5_p6_are_passed_in_order(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        passed: list[str] = []
        # The catalog was opened with other fault points than the committer has; both get the hook.
        it.inner._deps.faults.arm(passed.append)  # type: ignore[attr-defined]
        it.deps.faults.arm(passed.append)
        await it.land(10)
        assert passed == ["P4", "P5", "P6"]

    run_virtual(run())


@pytest.mark.parametrize("seed", range(6))
def test_r16_random_faults_and_a_rival_keep_exactly_once(tmp_path: pathlib.Path, seed: int) -> None:
    rates = {word: 0.08 for word in WORDS if word not in ("ok", "C-late(0.01)", "C-late(7)")} | {"C-late(0.4)": 0.08}

    async def run() -> None:
        it = await rig(tmp_path, seed=seed, rates=rates, load_failures=0.1)
        other = it.rival(seed=seed + 100)

        async def drive(mine: Rig) -> None:
            for end in range(4, 40, 4):
                while (await mine.progress()).get(source(), 0) < end:
                    outcome = await mine.land_once(end)
                    if isinstance(outcome, Lost):
                        await mine.deps.objects.delete(outcome.orphans)

        await asyncio.gather(drive(it), drive(other))
        await it.catalog.settle()
        assert_exactly_once(await it.table(), 36)
        assert await it.progress() == {source(): 36}

    run_virtual(run())
