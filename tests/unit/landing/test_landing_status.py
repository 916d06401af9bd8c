"""What a status says, and how often it is written."""

from __future__ import annotations

from tests.simulation.loop import run_virtual

from frazil.kit.clock import LoopClock
from frazil.kit.names import PartitionId, PartitionKey, TopicId
from frazil.landing.decode import BadPartition
from frazil.landing.plan import Loss
from frazil.landing.status import Board, StatusBook, status_of
from frazil.metadata.landings import LandingStatus, list_statuses
from frazil.metadata.stores.memory import MemoryMetadata, MemoryState

KEY = PartitionKey(TopicId(b"t" * 16), PartitionId(3))


def board() -> Board:
    return Board(table="x.t", topics=("t",), interval_ms=5_000)


def verdict(board: Board, at_ms: float = 0.0, trouble: str | None = None) -> tuple[str, str, str, str, int]:
    status = status_of(board, now_ms=1, monotonic_ms=at_ms, trouble=trouble)
    return status.state, status.stage, status.reason, status.topic, status.partition


def test_nothing_waits_is_idle_and_records_waiting_is_running() -> None:
    one = board()
    assert verdict(one)[0] == "idle"
    one.see_lag(5, 0.0)
    assert verdict(one, 9_999.0)[0] == "running"


def test_f23_waiting_for_more_than_two_intervals_is_stalled_with_stage_and_partition() -> None:
    one = board()
    one.see_lag(5, 0.0)
    one.waiting_partition = 2
    one.enter("commit", 10.0)
    state, stage, reason, topic, partition = verdict(one, 10_001.0)
    assert (state, stage, topic, partition) == ("stalled", "commit", "t", 2)
    assert "nothing was committed" in reason
    assert verdict(one, 10_001.0, trouble="the catalog is away")[2] == "the catalog is away"
    one.note_commit(7, rows=1, rejected=0)
    one.see_lag(4, 10_002.0)
    assert verdict(one, 10_003.0)[0] == "running"


def test_an_error_that_may_pass_is_stalled_and_one_that_may_not_is_failed() -> None:
    one = board()
    one.enter("write", 0.0)
    one.fail("disk full", may_pass=True)
    assert verdict(one)[:3] == ("stalled", "write", "disk full")
    one.fail("wrong schema", may_pass=False)
    assert verdict(one)[:3] == ("failed", "write", "wrong schema")
    one.recover()
    assert verdict(one)[0] == "idle"


def test_f30_an_unreadable_partition_is_named() -> None:
    one = board()
    one.bad_partitions = (BadPartition(key=KEY, topic="t", stage="read", why="gone"),) * 3
    assert verdict(one) == ("failed", "read", "gone (and 2 more partitions)", "t", 3)


def test_f10_losses_stay_in_sight() -> None:
    one = board()
    one.note_times(1, took_ms=1, losses=[Loss(key=KEY, topic="t", first=5, end=9)])
    assert verdict(one)[2] == "lost to retention: t[3] 5-8"


def test_status_is_written_at_once_for_trouble_and_commits_and_seldom_otherwise() -> None:
    async def story() -> list[int]:
        store = MemoryMetadata(MemoryState(), LoopClock())
        book = StatusBook(store=store, interval_ms=1_000)
        written = []

        async def see(now_ms: int, **changes: object) -> None:
            await book.publish([LandingStatus(table="x.t", updated_ms=now_ms, **{"state": "idle", **changes})])  # type: ignore[arg-type] # by name
            (found,) = await list_statuses(store)
            if found.updated_ms == now_ms:
                written.append(now_ms)

        await see(0)
        await see(1_000)  # nothing new
        await see(2_000, state="running", behind_records=1)  # can wait
        await see(3_000, snapshot_id=1)  # a commit
        await see(4_000, snapshot_id=1, state="failed", reason="x")  # trouble
        await see(5_000, snapshot_id=1)  # its end
        await see(6_000, snapshot_id=1, freshness_ms=5)  # only numbers, too soon
        await see(10_000, snapshot_id=1, freshness_ms=9)  # only numbers, due
        await see(69_000, snapshot_id=1, freshness_ms=9)  # nothing new
        await see(70_000, snapshot_id=1, freshness_ms=9)  # a sign of life
        return written

    assert run_virtual(story()) == [0, 3_000, 4_000, 5_000, 10_000, 70_000]
