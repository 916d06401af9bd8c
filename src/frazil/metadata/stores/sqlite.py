"""Metadata in one SQLite file on a local disk; any number of processes of one machine may open it.

One thread per handle does all the work. Commits that wait while another is being fsynced go together into the next
SQLite transaction, each with its own revision. Reads see the last committed state. Changes by other processes are
noticed by polling ``PRAGMA data_version`` while somebody watches (R20).
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from frazil.kit.clock import Clock
from frazil.kit.errors import Bug, Conflict, Refused, RetryLater
from frazil.kit.tasks import Offload, ThreadOffload, spawn
from frazil.metadata.hints import HintBoard
from frazil.metadata.limits import check_transaction
from frazil.metadata.port import START, Check, Committed, Entry, MetadataStore, Moved, Range, RangeDelete, Revision, Write
from frazil.metadata.sqlite_file import meaning, open_file

_POLL_SECONDS: Final = 0.01
_JOBS_AT_ONCE: Final = 64
_FEW_CHANGES: Final = 20_000
"""Up to so many revisions back, a range reads by version; beyond, by key."""

Outcome = Committed | Moved | Exception


@dataclass(frozen=True, slots=True)
class _Job:
    """One transaction waiting for the thread."""

    checks: Sequence[Check]
    writes: Sequence[Write]
    range_deletes: Sequence[RangeDelete]
    done: asyncio.Future[Committed | Moved]


@dataclass(slots=True)
class _Stage:
    """How far the thread is in a write transaction; an error in COMMIT leaves its outcome open."""

    committing: bool = False
    changed: bool = False


class SqliteMetadata(MetadataStore):
    """One handle on a metadata file. Without ``offload`` it makes, and closes, a thread of its own."""

    def __init__(self, path: Path, clock: Clock, *, offload: Offload | None = None) -> None:
        """Opens or creates the file (blocking). Raises as ``sqlite_file.open_file``."""
        self._path = path
        self._clock = clock
        self._connection = open_file(path)
        self._own_thread = ThreadOffload("metadata", threads_max=1) if offload is None else None
        self._offload: Offload = offload or cast(Offload, self._own_thread)
        self._hints = HintBoard(on_wait=self._start_poller)
        self._jobs: deque[_Job] = deque()
        self._committer: asyncio.Task[None] | None = None
        self._poller: asyncio.Task[None] | None = None
        self._data_version = -1
        self._data_version = self._read_data_version()
        self._closed = False

    async def range(self, start: str, end: str, *, after: Revision = START) -> Range:
        """See ``MetadataStore.range``."""
        self._check_open()
        now_ms = self._clock.now_ms()
        return await self._offload.run(lambda: self._read(start, end, after, now_ms))

    async def commit(
        self, checks: Sequence[Check], writes: Sequence[Write], range_deletes: Sequence[RangeDelete] = ()
    ) -> Committed | Moved:
        """See ``MetadataStore.commit``."""
        self._check_open()
        check_transaction(checks, writes, range_deletes)
        job = _Job(checks, writes, range_deletes, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        if self._committer is None or self._committer.done():
            self._committer = spawn("metadata-commit", self._commit_jobs())
        return await job.done

    def watch(self, prefix: str) -> AsyncIterator[None]:
        """See ``MetadataStore.watch``."""
        return self._hints.follow(prefix)

    async def grant_lease(self, ttl_ms: int) -> int:
        """See ``MetadataStore.grant_lease``."""
        self._check_open()
        now_ms = self._clock.now_ms()
        return await self._offload.run(lambda: self._grant(ttl_ms, now_ms))

    async def renew_lease(self, lease: int) -> bool:
        """See ``MetadataStore.renew_lease``."""
        self._check_open()
        now_ms = self._clock.now_ms()
        return await self._offload.run(lambda: self._renew(lease, now_ms))

    async def close(self) -> None:
        """Finishes waiting commits, then closes the file."""
        if self._closed:
            return
        self._closed = True
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.gather(self._poller, return_exceptions=True)
        if self._committer is not None:
            await asyncio.gather(self._committer, return_exceptions=True)
        await self._offload.run(self._connection.close)
        if self._own_thread is not None:
            self._own_thread.close()

    def _check_open(self) -> None:
        if self._closed:
            raise Bug(f"metadata store {self._path} is used after close")

    async def _commit_jobs(self) -> None:
        while self._jobs:
            jobs = [self._jobs.popleft() for _ in range(min(len(self._jobs), _JOBS_AT_ONCE))]
            jobs = [job for job in jobs if not job.done.done()]  # its caller was cancelled while it waited
            now_ms = self._clock.now_ms()
            try:
                outcomes: Sequence[Outcome] = await self._offload.run(lambda: self._apply_all(jobs, now_ms))  # noqa: B023 - awaited at once
            except Exception as error:  # noqa: BLE001 - it goes to every caller, who is waiting for nothing else
                outcomes = [error] * len(jobs)
            for job, outcome in zip(jobs, outcomes, strict=True):
                if isinstance(outcome, Committed):
                    self._hints.changed(job.writes, job.range_deletes)
                if job.done.done():
                    continue
                if isinstance(outcome, Exception):
                    job.done.set_exception(outcome)
                else:
                    job.done.set_result(outcome)

    def _start_poller(self) -> None:
        if not self._closed and (self._poller is None or self._poller.done()):
            self._poller = spawn("metadata-poll", self._poll())

    async def _poll(self) -> None:
        while self._hints.waiting:
            found = await self._offload.run(self._read_data_version)
            if found != self._data_version:
                self._data_version = found
                self._hints.changed_somewhere()
            await asyncio.sleep(_POLL_SECONDS)

    # below: runs in the thread, and takes the time from the caller

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[_Stage]:
        """One SQLite transaction; SQLite's errors leave it as ours, with nothing applied unless COMMIT itself failed."""
        stage = _Stage()
        try:
            self._connection.execute(begin)
            try:
                yield stage
                stage.committing = stage.changed
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise meaning(error, self._path, committing=stage.committing) from error

    def _read_data_version(self) -> int:
        try:
            found: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error:
            return self._data_version - 1  # a hint too many: who reads next meets the error itself
        return found

    def _read(self, start: str, end: str, after: int, now_ms: int) -> Range:
        with self._transaction("BEGIN"):
            revision = self._revision()
            rows = None if self._lease_has_ended(now_ms) else self._rows(start, end, after, revision)
        if rows is None:
            try:
                with self._transaction("BEGIN IMMEDIATE") as stage:
                    revision = self._end_leases(now_ms, stage)
                    rows = self._rows(start, end, after, revision)
            except (RetryLater, Refused):  # the disk is full, or another process writes for long: reads go on all the same
                with self._transaction("BEGIN"):
                    revision = self._revision()
                    rows = self._rows(start, end, after, revision, ended_by_ms=now_ms)
        entries = tuple(Entry(key=key, value=value, version=Revision(version)) for key, value, version in rows)
        return Range(entries=entries, revision=Revision(revision))

    def _rows(self, start: str, end: str, after: int, revision: int, *, ended_by_ms: int = -1) -> list[tuple[str, bytes, int]]:
        """The rows of a range, without those whose lease has ended by ``ended_by_ms`` and could not be removed."""
        few = after > 0 and revision - after <= _FEW_CHANGES
        by_index = "INDEXED BY kv_version WHERE version > ?1" if few else "WHERE +version > ?1"  # the plus forbids that index
        sql = f"SELECT key, value, version FROM kv {by_index} AND key >= ?2 AND key < ?3"
        given: tuple[object, ...] = (after, start, end)
        if ended_by_ms >= 0:
            sql += " AND (lease IS NULL OR lease NOT IN (SELECT id FROM leases WHERE ends_ms <= ?4))"
            given += (ended_by_ms,)
        return self._connection.execute(f"{sql} ORDER BY key", given).fetchall()

    def _revision(self) -> int:
        found: int = self._connection.execute("SELECT revision FROM meta").fetchone()[0]
        return found

    def _apply_all(self, jobs: Sequence[_Job], now_ms: int) -> list[Outcome]:
        """All jobs in one SQLite transaction. A job that fails its checks changes nothing, so the others need no savepoints.

        As few statements as can be: after each one this thread may have to wait for the interpreter.
        """
        with self._transaction("BEGIN IMMEDIATE") as stage:
            revision = self._end_leases(now_ms, stage)
            outcomes: list[Outcome] = []
            for job in jobs:
                refusal = self._refusal(job)
                if refusal is not None:
                    outcomes.append(refusal)
                    continue
                if job.writes or job.range_deletes:
                    revision += 1
                    self._apply(job, revision)
                    stage.changed = True
                outcomes.append(Committed(revision=Revision(revision)))
            if stage.changed:
                self._connection.execute("UPDATE meta SET revision = ?", (revision,))
        return outcomes

    def _refusal(self, job: _Job) -> Moved | Conflict | None:
        execute = self._connection.execute
        moved: list[Entry] = [] if self._holds(job.checks) else self._moved(job.checks)
        if moved:
            return Moved(entries=tuple(moved))
        for write in job.writes:
            if write.lease is not None and execute("SELECT 1 FROM leases WHERE id = ?", (write.lease,)).fetchone() is None:
                return Conflict(f"lease {write.lease} of {write.key!r} has ended")
        return None

    def _holds(self, checks: Sequence[Check]) -> bool:
        """True when every checked key has the version it should have (0: it is not there)."""
        if not checks:
            return True
        rows = ",".join(["(?,?)"] * len(checks))
        sql = f"SELECT count(*) FROM (VALUES {rows}) v LEFT JOIN kv ON kv.key = v.column1 WHERE ifnull(kv.version, 0) = v.column2"
        given = [value for check in checks for value in (check.key, check.version)]
        found: int = self._connection.execute(sql, given).fetchone()[0]
        return found == len(checks)

    def _moved(self, checks: Sequence[Check]) -> list[Entry]:
        execute = self._connection.execute
        moved: list[Entry] = []
        for check in checks:
            found = execute("SELECT version FROM kv WHERE key = ?", (check.key,)).fetchone()
            version = found[0] if found else 0
            if version != check.version:
                row = execute("SELECT value FROM kv WHERE key = ?", (check.key,)).fetchone()
                moved.append(Entry(key=check.key, value=row[0] if row else b"", version=Revision(version)))
        return moved

    def _apply(self, job: _Job, revision: int) -> None:
        execute = self._connection.execute
        for gone in job.range_deletes:
            execute("DELETE FROM kv WHERE key >= ? AND key < ?", (gone.start, gone.end))
        kept: list[object] = []
        for write in job.writes:
            if write.value is None:
                execute("DELETE FROM kv WHERE key = ?", (write.key,))
            else:
                kept += (write.key, bytes(write.value), revision, write.lease)
        if kept:
            execute(
                f"INSERT INTO kv(key, value, version, lease) VALUES {','.join(['(?,?,?,?)'] * (len(kept) // 4))} "
                "ON CONFLICT(key) DO UPDATE SET value = excluded.value, version = excluded.version, lease = excluded.lease",
                kept,
            )

    def _lease_has_ended(self, now_ms: int) -> bool:
        return self._connection.execute("SELECT 1 FROM leases WHERE ends_ms <= ? LIMIT 1", (now_ms,)).fetchone() is not None

    def _end_leases(self, now_ms: int, stage: _Stage) -> int:
        """Drops ended leases and their keys; inside a write transaction. Returns the revision now."""
        revision = self._revision()
        if not self._lease_has_ended(now_ms):
            return revision
        execute = self._connection.execute
        ended = "(SELECT id FROM leases WHERE ends_ms <= ?)"
        if execute(f"DELETE FROM kv WHERE lease IN {ended}", (now_ms,)).rowcount:
            revision += 1
            execute("UPDATE meta SET revision = ?", (revision,))
        execute("DELETE FROM leases WHERE ends_ms <= ?", (now_ms,))
        stage.changed = True
        return revision

    def _grant(self, ttl_ms: int, now_ms: int) -> int:
        with self._transaction("BEGIN IMMEDIATE") as stage:
            stage.changed = True
            cursor = self._connection.execute("INSERT INTO leases(ttl_ms, ends_ms) VALUES (?, ?)", (ttl_ms, now_ms + ttl_ms))
        return cast(int, cursor.lastrowid)

    def _renew(self, lease: int, now_ms: int) -> bool:
        with self._transaction("BEGIN IMMEDIATE") as stage:
            stage.changed = True
            cursor = self._connection.execute("UPDATE leases SET ends_ms = ?1 + ttl_ms WHERE id = ?2 AND ends_ms > ?1", (now_ms, lease))
        return cursor.rowcount == 1


def open_store(url: str, clock: Clock) -> MetadataStore:
    """The store for ``sqlite:///absolute/path``. Raises Refused, Corrupt."""
    path = url.removeprefix("sqlite://")
    if path == url or not path.startswith("/") or path.endswith("/") or "\0" in path:
        raise Refused(f"metadata url {url!r}: write sqlite:///absolute/path/metadata.db")
    return SqliteMetadata(Path(path), clock)
