"""Progress belongs to a snapshot (R06), stays small in the metadata (R14), and is loud when it cannot be known."""

from __future__ import annotations

import json
import pathlib
import random

import pytest
from tests.simulation.loop import run_virtual
from tests.unit.catalogs.rig import IDENT, TOPIC, Rig, assert_exactly_once, rig, source

from frazil.catalogs import Landed
from frazil.catalogs.commit import Committed, Lost
from frazil.catalogs.progress import (
    PROGRESS,
    RANGES,
    Move,
    SourcePartition,
    decode_inline,
    decode_object,
    encode_inline,
    encode_object,
    encode_ranges,
    read_progress,
)
from frazil.kit.errors import Corrupt, Refused
from frazil.kit.names import TopicId

# --- R06 ---------------------------------------------------------------------------------------------------------------


async def set_main(it: Rig, snapshot_id: int) -> None:
    """What a foreign engine's rollback does: the ref moves, properties stay."""
    update = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
    await it.inner.commit(IDENT, await it.table(), [], [update])


async def foreign_snapshot(it: Rig, *, operation: str = "replace", snapshot_id: int = 4711) -> None:
    """A head by another engine: a new snapshot with the same manifests and none of our keys."""
    table = await it.table()
    parent = table.metadata["snapshots"][-1]
    snapshot = {
        "snapshot-id": snapshot_id,
        "parent-snapshot-id": parent["snapshot-id"],
        "sequence-number": table.metadata["last-sequence-number"] + 1,
        "timestamp-ms": table.metadata["last-updated-ms"],
        "manifest-list": parent["manifest-list"],
        "schema-id": 0,
        "summary": {"operation": operation},
    }
    updates = [
        {"action": "add-snapshot", "snapshot": snapshot},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id},
    ]
    await it.inner.commit(IDENT, table, [], updates)


def test_r06_after_a_rollback_the_progress_of_that_ancestor_counts_and_is_filled_again(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        first = await it.land(50)
        await it.land(100)
        await set_main(it, first.snapshot_id)
        table = await it.table()
        assert json.loads(table.metadata["properties"][PROGRESS])["next"]["cluster-a/1"][TOPIC.hex()] == [100]
        assert await it.progress() == {source(): 50}
        await it.land(100)
        assert_exactly_once(await it.table(), 100)

    run_virtual(run())


def test_r06_a_foreign_compaction_head_keeps_the_progress(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        await it.land(50)
        await foreign_snapshot(it)
        assert await it.progress() == {source(): 50}
        await it.land(60)
        assert_exactly_once(await it.table(), 60)

    run_virtual(run())


def test_r06_f04_progress_survives_a_foreign_expiry_because_our_snapshot_is_tagged(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        await it.land(10)
        landed = await it.land(20)
        await foreign_snapshot(it)
        table = await it.table()
        held = {ref["snapshot-id"] for ref in table.metadata["refs"].values()}
        gone = [item["snapshot-id"] for item in table.metadata["snapshots"] if item["snapshot-id"] not in held]
        assert landed.snapshot_id not in gone
        await it.inner.commit(IDENT, table, [], [{"action": "remove-snapshots", "snapshot-ids": gone}])
        assert await it.progress() == {source(): 20}

    run_virtual(run())


def test_r06_a_broken_chain_stops_loudly(tmp_path: pathlib.Path) -> None:
    """Two foreign snapshots, the middle one expired: whether the head descends from ours cannot be told."""

    async def run() -> None:
        it = await rig(tmp_path)
        await it.land(10)
        await foreign_snapshot(it, snapshot_id=1)
        await foreign_snapshot(it, snapshot_id=2)
        await it.inner.commit(IDENT, await it.table(), [], [{"action": "remove-snapshots", "snapshot-ids": [1]}])
        with pytest.raises(Refused, match="cannot be established"):
            await it.progress()
        with pytest.raises(Refused, match="cannot be established"):
            await it.land_once(20)

    run_virtual(run())


def test_r06_a_property_alone_does_not_count(tmp_path: pathlib.Path) -> None:
    """A property that names a snapshot of another line of history, or another sequence number, is not believed."""

    async def run() -> None:
        it = await rig(tmp_path)
        landed = await it.land(50)
        forged = {"v": 1, "snapshot": landed.snapshot_id, "sequence": 999, "next": {"cluster-a/1": {TOPIC.hex(): [7]}}}
        for value in (forged, {**forged, "snapshot": 12345, "sequence": 1}):
            await it.inner.commit(IDENT, await it.table(), [], [{"action": "set-properties", "updates": {PROGRESS: json.dumps(value)}}])
            assert await it.progress() == {source(): 50}

    run_virtual(run())


def test_r06_progress_without_rows_is_a_snapshot_and_guards_against_a_zombie(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        await it.land(10)
        zombie_base = await it.table()
        committed = await it.committer.commit(Landed(base=zombie_base, moves={source(): Move(10, 40)}))
        assert isinstance(committed, Committed)
        assert committed.table.metadata["current-snapshot-id"] != zombie_base.metadata["current-snapshot-id"]
        zombie = await it.rival().committer.commit(Landed(base=zombie_base, moves={source(): Move(10, 20)}))
        assert isinstance(zombie, Lost)
        assert await it.progress() == {source(): 40}
        assert_exactly_once(await it.table(), 10)

    run_virtual(run())


def test_r06_moves_that_do_not_start_at_the_progress_are_lost_before_anything_is_sent(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        await it.land(10)
        for before in (None, 5, 11):
            outcome = await it.committer.commit(Landed(base=await it.table(), moves={source(): Move(before, 20)}))
            assert isinstance(outcome, Lost)
        assert it.catalog.met == ["ok"]

    run_virtual(run())


def test_a_foreign_table_whose_old_history_is_gone_starts_without_progress(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        table = await it.table()
        snapshot = {
            "snapshot-id": 5,
            "parent-snapshot-id": 4,
            "sequence-number": 1,
            "timestamp-ms": 1,
            "manifest-list": "file:///none",
            "summary": {},
        }
        updates = [
            {"action": "add-snapshot", "snapshot": snapshot},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 5},
        ]
        await it.inner.commit(IDENT, table, [], updates)
        assert await it.progress() == {}

    run_virtual(run())


def test_rolled_back_to_before_our_first_snapshot_means_no_progress(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        empty = await it.committer.commit(Landed(base=await it.table()))
        assert isinstance(empty, Committed)
        await it.land(10)
        await set_main(it, empty.snapshot_id)
        assert await it.progress() == {}

    run_virtual(run())


# --- R14 ---------------------------------------------------------------------------------------------------------------


def many(count: int, seed: int = 1) -> dict[SourcePartition, int]:
    chance = random.Random(seed)
    return {source(partition): chance.getrandbits(40) for partition in range(count)}


def test_r14_large_progress_is_one_immutable_object_named_with_length_and_crc(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        wanted = many(2_000)
        moves = {key: Move(None, after) for key, after in wanted.items()}
        outcome = await it.committer.commit(Landed(base=await it.table(), moves=moves))
        assert isinstance(outcome, Committed)
        metadata = outcome.table.metadata
        text = metadata["properties"][PROGRESS]
        named = json.loads(text)["object"]
        assert named["name"] == f"metadata/frazil-progress-{outcome.commit_id}.bin"
        summary = metadata["snapshots"][-1]["summary"]
        assert summary[PROGRESS] == text
        assert summary[RANGES].startswith("sha256:")
        assert len(json.dumps(summary)) < 2048
        assert await read_progress(it.deps.objects, outcome.table) == wanted
        path = pathlib.Path(outcome.table.location.removeprefix("file://")) / named["name"]
        data = path.read_bytes()
        path.unlink()
        with pytest.raises(Corrupt, match="does not exist"):
            await it.progress()
        path.write_bytes(data[:-1])
        with pytest.raises(Corrupt, match="length or CRC"):
            await it.progress()

    run_virtual(run())


def test_r14_small_progress_is_inline_and_a_hundred_partitions_fit(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        moves = {source(partition): Move(None, 1_000_000) for partition in range(100)}
        outcome = await it.committer.commit(Landed(base=await it.table(), moves=moves))
        assert isinstance(outcome, Committed)
        assert "next" in json.loads(outcome.table.metadata["properties"][PROGRESS])
        keys = [info.key async for info in it.deps.objects.list("warehouse/")]
        assert not any("frazil-progress" in key for key in keys)

    run_virtual(run())


def test_r14_metadata_stays_small_with_20000_partitions(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        wanted = many(20_000)
        table = await it.table()
        before: dict[SourcePartition, int] = {}
        for step in range(5):
            after = {key: offset + step for key, offset in wanted.items()}
            moves = {key: Move(before.get(key), offset) for key, offset in after.items()}
            outcome = await it.committer.commit(Landed(base=table, moves=moves))
            assert isinstance(outcome, Committed)
            table, before = outcome.table, after
        assert len(json.dumps(table.metadata)) < 16_000
        assert await it.progress() == before

    run_virtual(run())


def test_r14_a_lost_progress_object_is_written_again_under_another_name(tmp_path: pathlib.Path) -> None:
    """S-short on the progress object: the commit does not name it."""

    async def run() -> None:
        it = await rig(tmp_path)
        put = it.deps.objects.put_if_absent
        broken: list[str] = []

        async def short(key: str, data: bytes) -> None:
            if "frazil-progress" in key and not broken:
                broken.append(key)
                data = data[: len(data) // 2]
            await put(key, data)

        it.deps.objects.put_if_absent = short  # type: ignore[method-assign,assignment]
        wanted = many(2_000)
        outcome = await it.committer.commit(Landed(base=await it.table(), moves={key: Move(None, at) for key, at in wanted.items()}))
        assert isinstance(outcome, Committed)
        assert broken and not broken[0].endswith(json.loads(outcome.table.metadata["properties"][PROGRESS])["object"]["name"])
        assert await it.progress() == wanted

    run_virtual(run())


# --- encoding ----------------------------------------------------------------------------------------------------------


def test_encodings_keep_gaps_sources_and_topics() -> None:
    other = TopicId(b"\xff" * 16)
    progress = {
        SourcePartition("a/1", TOPIC, 0): 0,
        SourcePartition("a/1", TOPIC, 3): 2**62,
        SourcePartition("a/2", TOPIC, 0): 5,
        SourcePartition("b/1", other, 1): 6,
    }
    assert decode_inline(json.loads(json.dumps(encode_inline(progress))), where="t") == progress
    assert decode_object(encode_object(progress), where="t") == progress


@pytest.mark.parametrize(
    "value",
    [None, [], {"s": []}, {"s": {"zz": [1]}}, {"s": {TOPIC.hex(): [-1]}}, {"s": {TOPIC.hex(): [True]}}, {"s": {TOPIC.hex(): ["1"]}}],
)
def test_damaged_inline_progress_is_corrupt(value: object) -> None:
    with pytest.raises(Corrupt):
        decode_inline(value, where="t")


def test_every_damaged_byte_of_a_progress_object_is_noticed_or_harmless() -> None:
    """The length and CRC in the property come first; this is the second line: never another error than ours."""
    data = encode_object(many(5))
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 0x41
        try:
            decode_object(bytes(changed), where="t")
        except (Corrupt, Refused):
            continue
        pytest.fail(f"byte {at} changed and nobody noticed")


def test_a_newer_version_is_refused_not_guessed() -> None:
    data = bytearray(encode_object(many(1)))
    data[4] = 2
    with pytest.raises(Refused, match="newer"):
        decode_object(bytes(data), where="t")


def test_ranges_are_text_while_short_and_a_hash_when_long() -> None:
    short = encode_ranges({source(): Move(None, 5), source(1): Move(3, 9)})
    assert json.loads(short) == {"cluster-a/1": {TOPIC.hex(): {"0": [None, 5], "1": [3, 9]}}}
    assert encode_ranges({source(at): Move(0, 10**9) for at in range(200)}).startswith("sha256:")
