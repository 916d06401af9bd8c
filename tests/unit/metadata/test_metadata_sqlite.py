"""The SQLite store: several processes, files that are not ours, trouble, speed."""

from __future__ import annotations

import asyncio
import pathlib
import sqlite3
import subprocess
import sys
import threading

import pytest

from frazil.kit.clock import SystemClock
from frazil.kit.errors import Bug, Corrupt, OutcomeUnknown, Refused, RetryLater
from frazil.kit.names import TimestampMs
from frazil.metadata import open_metadata, read_one
from frazil.metadata.port import Check, Committed, Revision, Write
from frazil.metadata.sqlite_file import meaning
from frazil.metadata.stores.sqlite import SqliteMetadata

CLOCK = SystemClock()

INCREMENT = """
import asyncio, sys
from frazil.kit.clock import SystemClock
from frazil.metadata import open_metadata
from frazil.metadata.change import settle
from frazil.metadata.port import Write

async def main(url, me):
    store = open_metadata(url, clock=SystemClock())
    for n in range(40):
        def decide(entries, done=f"done/{me}-{n}"):
            if entries[done].version:
                return []
            return [Write(key="counter", value=b"%d" % (int(entries["counter"].value or b"0") + 1)), Write(key=done, value=b"")]
        await settle(store, ("counter", f"done/{me}-{n}"), decide)
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""

COMMIT_AND_DIE = """
import asyncio, os, signal, sys
from frazil.kit.clock import SystemClock
from frazil.metadata import open_metadata
from frazil.metadata.port import Write

async def main(url):
    store = open_metadata(url, clock=SystemClock())
    n = 0
    while True:
        await store.commit([], [Write(key=f"k/{n:06d}", value=b""), Write(key="last", value=b"%d" % n)])
        print(n, flush=True)
        n += 1

asyncio.run(main(*sys.argv[1:]))
"""


def test_processes_that_create_and_use_one_file_together_lose_nothing(tmp_path: pathlib.Path) -> None:
    url = f"sqlite://{tmp_path}/new/metadata.db"
    processes = [subprocess.Popen([sys.executable, "-c", INCREMENT, url, str(me)]) for me in range(4)]
    assert [process.wait(60) for process in processes] == [0, 0, 0, 0]

    async def main() -> None:
        store = open_metadata(url, clock=CLOCK)
        assert (await read_one(store, "counter")).value == b"160"
        assert len((await store.range("done/", "done0")).entries) == 160
        await store.close()

    asyncio.run(main())


def test_kill_9_keeps_what_was_acknowledged(tmp_path: pathlib.Path) -> None:
    url = f"sqlite://{tmp_path}/metadata.db"
    process = subprocess.Popen([sys.executable, "-c", COMMIT_AND_DIE, url], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    acknowledged = -1
    for line in process.stdout:
        acknowledged = int(line)
        if acknowledged == 50:
            process.kill()
            break
    acknowledged = max([acknowledged, *(int(line) for line in process.stdout if line.endswith("\n"))])
    process.wait()
    process.stdout.close()

    async def main() -> None:
        store = open_metadata(url, clock=CLOCK)
        last = int((await read_one(store, "last")).value)
        assert last >= acknowledged
        assert len((await store.range("k/", "k0")).entries) == last + 1  # whole transactions only
        await store.close()

    asyncio.run(main())


def test_r20_another_process_wakes_a_watcher(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        store, other = (SqliteMetadata(tmp_path / "m.db", CLOCK) for _ in range(2))
        loop = asyncio.get_running_loop()
        hints = store.watch("a")
        await anext(hints)
        took = []
        for n in range(5):
            waiting = asyncio.ensure_future(anext(hints))
            await asyncio.wait([waiting], timeout=0.05)
            if waiting.done():
                waiting = asyncio.ensure_future(anext(hints))
            await other.commit([], [Write(key="a", value=b"%d" % n)])
            start = loop.time()
            await waiting
            took.append(loop.time() - start)
        assert sorted(took)[2] < 0.2  # polled every 10 ms, not every second
        await hints.aclose()  # type: ignore[attr-defined] # a generator
        await store.close()
        await other.close()

    asyncio.run(main())


def test_r20_nobody_polls_when_nobody_watches(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        store = SqliteMetadata(tmp_path / "m.db", CLOCK)
        hints = store.watch("a")
        await anext(hints)
        waiting = asyncio.ensure_future(anext(hints))
        await asyncio.sleep(0.03)
        assert "metadata-poll" in {task.get_name() for task in asyncio.all_tasks()}
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await asyncio.sleep(0.03)
        assert "metadata-poll" not in {task.get_name() for task in asyncio.all_tasks()}
        await store.close()

    asyncio.run(main())


def test_close_ends_the_thread_and_finishes_commits(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        store = SqliteMetadata(tmp_path / "m.db", CLOCK)
        commits = [asyncio.ensure_future(store.commit([], [Write(key=f"{n}", value=b"")])) for n in range(200)]
        await asyncio.sleep(0)
        await store.close()
        await store.close()
        answers = await asyncio.gather(*commits)
        assert [answer.revision for answer in answers if isinstance(answer, Committed)] == list(range(1, 201))
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("metadata")]
        with pytest.raises(Bug):
            await store.range("", "z")
        again = SqliteMetadata(tmp_path / "m.db", CLOCK)
        assert len((await again.range("", "z")).entries) == 200
        await again.close()

    asyncio.run(main())


def test_a_cancelled_caller_does_not_hold_up_the_others(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        store = SqliteMetadata(tmp_path / "m.db", CLOCK)
        commits = [asyncio.ensure_future(store.commit([], [Write(key=f"{n:02d}", value=b"")])) for n in range(20)]
        await asyncio.sleep(0)
        commits[0].cancel()
        commits[7].cancel()
        answers = await asyncio.gather(*commits, return_exceptions=True)
        assert sum(isinstance(answer, Committed) for answer in answers) == 18
        await store.close()

    asyncio.run(main())


def test_one_refused_transaction_does_not_touch_the_others_in_its_batch(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        store = SqliteMetadata(tmp_path / "m.db", CLOCK)
        answers = await asyncio.gather(
            store.commit([], [Write(key="a", value=b"1")]),
            store.commit([Check(key="a", version=Revision(0))], [Write(key="a", value=b"2"), Write(key="b", value=b"2")]),
            store.commit([], [Write(key="c", value=b"3", lease=99)]),
            store.commit([Check(key="a", version=Revision(1))], [Write(key="d", value=b"4")]),
            return_exceptions=True,
        )
        assert [type(answer).__name__ for answer in answers] == ["Committed", "Moved", "Conflict", "Committed"]
        assert [entry.key for entry in (await store.range("", "z")).entries] == ["a", "d"]
        await store.close()

    asyncio.run(main())


def test_r25_the_file_is_fsynced_at_every_commit(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        store = SqliteMetadata(tmp_path / "m.db", CLOCK)
        settings = [store._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
        assert settings == ["wal", 2]
        await store.close()

    asyncio.run(main())


def foreign(path: pathlib.Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs(x)")
    connection.commit()
    connection.close()


def other_format(path: pathlib.Path) -> None:
    asyncio.run(SqliteMetadata(path, CLOCK).close())
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 2")
    connection.close()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (foreign, "another program"),
        (other_format, "format 2"),
        (lambda path: path.write_bytes(b"not a database at all" * 500), "not a SQLite file"),
        (lambda path: path.mkdir(), "cannot open"),
    ],
)
def test_a_file_that_is_not_ours_is_refused_and_left_as_it_is(tmp_path: pathlib.Path, make: object, says: str) -> None:
    path = tmp_path / "m.db"
    make(path)  # type: ignore[operator] # one of the functions above
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(Refused, match=says):
        SqliteMetadata(path, CLOCK)
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_a_damaged_file_is_corrupt(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.db"

    async def fill() -> None:
        store = SqliteMetadata(path, CLOCK)
        for n in range(40):
            await store.commit([], [Write(key=f"{n:03d}-{m}", value=bytes(500)) for m in range(50)])
        await store.close()

    async def read() -> None:
        store = SqliteMetadata(path, CLOCK)
        try:
            with pytest.raises(Corrupt) as caught:
                await store.range("", "z")
            assert str(path) in caught.value.where
        finally:
            await store.close()

    asyncio.run(fill())
    data = bytearray(path.read_bytes())
    data[4096 * 3 :] = b"\xaa" * (len(data) - 4096 * 3)
    path.write_bytes(data)
    asyncio.run(read())


def test_what_another_process_holds_is_retried_later(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        store = SqliteMetadata(tmp_path / "m.db", CLOCK)
        store._connection.execute("PRAGMA busy_timeout = 20")
        other = sqlite3.connect(tmp_path / "m.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(RetryLater) as caught:
            await store.commit([], [Write(key="a", value=b"")])
        assert not isinstance(caught.value, OutcomeUnknown)
        assert (await store.range("", "z")).entries == ()  # readers are not held up
        other.execute("COMMIT")
        other.close()
        assert isinstance(await store.commit([], [Write(key="a", value=b"")]), Committed)
        await store.close()

    asyncio.run(main())


def test_r35_a_full_disk_is_said_and_reading_goes_on(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        store = SqliteMetadata(tmp_path / "m.db", CLOCK)
        await store.commit([], [Write(key="a", value=b"1")])
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(RetryLater, match="disk full"):
            await store.commit([], [Write(key="b", value=bytes(100_000))])
        assert [entry.key for entry in (await store.range("", "z")).entries] == ["a"]
        await store.close()

    asyncio.run(main())


def test_an_error_in_commit_leaves_the_outcome_open(tmp_path: pathlib.Path) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
    assert type(meaning(error, tmp_path, committing=True)) is OutcomeUnknown
    assert type(meaning(error, tmp_path, committing=False)) is RetryLater


def test_f83_the_file_does_not_grow_with_the_number_of_commits(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        store = SqliteMetadata(tmp_path / "m.db", CLOCK)
        for n in range(1000):
            await store.commit([], [Write(key=f"k{n % 10}", value=bytes(60_000) if n % 50 else None)])
        size = sum(path.stat().st_size for path in tmp_path.iterdir())
        assert size < 20_000_000, size  # 60 MB were written, 0.6 MB are alive, the log is cut at about 16 MB
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("url", ["sqlite:", "sqlite://", "sqlite:x.db", "sqlite:///dir/", "memory:x", "etcd-of-nobody://x", "x"])
def test_urls_that_cannot_be_are_refused(url: str) -> None:
    with pytest.raises(Refused):
        open_metadata(url, clock=CLOCK)


def test_a_watcher_can_always_be_cancelled(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        store = SqliteMetadata(tmp_path / "m.db", CLOCK)

        async def follow() -> None:
            async for _ in store.watch("a"):
                pass

        for n in range(50):
            following = asyncio.ensure_future(follow())
            await asyncio.sleep(0.001)
            committing = asyncio.ensure_future(store.commit([], [Write(key="a", value=b"%d" % n)]))
            await committing  # the hint and the cancellation meet
            following.cancel()
            await asyncio.wait([following], timeout=1)
            assert following.cancelled()
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("trouble", ["BEGIN IMMEDIATE", "PRAGMA query_only = ON"])
def test_reads_go_on_when_an_ended_lease_cannot_be_removed(tmp_path: pathlib.Path, trouble: str) -> None:
    """A full disk once stopped every read: the first one after a lease had ended wanted to write."""

    class Ahead(SystemClock):
        ms = 0

        def now_ms(self) -> TimestampMs:
            return TimestampMs(super().now_ms() + self.ms)

    async def main() -> None:
        clock = Ahead()
        store = SqliteMetadata(tmp_path / "m.db", clock)
        lease = await store.grant_lease(600_000)
        await store.commit([], [Write(key="claim", value=b"mine", lease=lease), Write(key="data", value=b"1")])
        clock.ms = 600_001
        store._connection.execute("PRAGMA busy_timeout = 20")
        other = sqlite3.connect(tmp_path / "m.db", isolation_level=None)
        (store._connection if trouble.startswith("PRAGMA") else other).execute(trouble)
        assert [entry.key for entry in (await store.range("", "z")).entries] == ["data"]
        assert [entry.key for entry in (await store.range("", "z", after=Revision(1))).entries] == []
        with pytest.raises((RetryLater, Refused)):
            await store.commit([], [Write(key="data", value=b"2")])
        other.close()
        store._connection.execute("PRAGMA query_only = OFF")
        assert isinstance(await store.commit([Check(key="claim", version=Revision(0))], [Write(key="claim", value=b"theirs")]), Committed)
        await store.close()

    asyncio.run(main())
