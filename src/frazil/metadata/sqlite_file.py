"""The SQLite file itself: opening it, knowing it for ours, and what SQLite's errors mean to a caller."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from frazil.kit.errors import Bug, Corrupt, FrazilError, OutcomeUnknown, Refused, RetryLater
from frazil.metadata.directory import refuse_network_filesystem

T = TypeVar("T")

APPLICATION_ID: Final = 0x46525A4C
"""``FRZL``: marks the file as ours in its header."""
FORMAT: Final = 1
"""``user_version`` of the file."""
_BUSY_MS: Final = 2000
_OPEN_TRIES: Final = 40
_CHECKPOINT_PAGES: Final = 4096
"""16 MiB of log. With SQLite's own 4 MiB a busy broker would move pages, and fsync twice more, every few dozen commits."""

_SCHEMA: Final = f"""
CREATE TABLE kv(key TEXT PRIMARY KEY NOT NULL, value BLOB NOT NULL, version INTEGER NOT NULL, lease INTEGER);
CREATE INDEX kv_version ON kv(version, key);
CREATE INDEX kv_lease ON kv(lease) WHERE lease IS NOT NULL;
CREATE TABLE leases(id INTEGER PRIMARY KEY AUTOINCREMENT, ttl_ms INTEGER NOT NULL, ends_ms INTEGER NOT NULL);
CREATE TABLE meta(revision INTEGER NOT NULL);
INSERT INTO meta(revision) VALUES (0);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
"""

_PASSING: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_PROTOCOL)
_SETUP: Final = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH)


def open_file(path: Path) -> sqlite3.Connection:
    """Opens or creates the metadata file: WAL, every commit fsynced. Used by one thread at a time.

    Raises Refused for a file that is not ours, of another format, or in a place SQLite cannot work; Corrupt for a damaged one.
    """
    refuse_network_filesystem(path.parent)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(path, timeout=_BUSY_MS / 1000, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise Refused(f"cannot open metadata file {path}: {error}; check the directory and its permissions") from error
    try:
        _prepare_patiently(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise meaning(error, path, committing=False) from error
    except FrazilError:
        connection.close()
        raise
    return connection


def _prepare_patiently(connection: sqlite3.Connection, path: Path) -> None:
    """Several processes may create the file at once, and SQLite does not wait for the change to WAL by itself."""
    left = _OPEN_TRIES
    while True:
        try:
            _prepare(connection, path)
        except sqlite3.OperationalError as error:
            left -= 1
            if _primary_code(error) not in _PASSING or left == 0:
                raise
            time.sleep(0.05)
        else:
            return


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    if _in_transaction(connection, "BEGIN", lambda: _is_new(connection, path)):
        _to_wal(connection, path)
        _in_transaction(connection, "BEGIN IMMEDIATE", lambda: _create(connection, path))
    _to_wal(connection, path)


def _to_wal(connection: sqlite3.Connection, path: Path) -> None:
    mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    if mode != "wal":
        raise Refused(f"{path}: this file system gives SQLite no write-ahead log (got {mode!r}); put the file on a local disk")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")


def _create(connection: sqlite3.Connection, path: Path) -> None:
    if _is_new(connection, path):  # another process may have been first
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)


def _in_transaction(connection: sqlite3.Connection, begin: str, work: Callable[[], T]) -> T:
    connection.execute(begin)
    try:
        result = work()
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return result


def _is_new(connection: sqlite3.Connection, path: Path) -> bool:
    """True for an empty file, False for one of ours. Looks before anything is changed; raises Refused for any other.

    Inside a transaction, or the three answers may be of different moments.
    """
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    written: int = connection.execute("PRAGMA user_version").fetchone()[0]
    tables: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if (application, written, tables) == (0, 0, 0):
        return True
    if application != APPLICATION_ID:
        raise Refused(f"{path} is the SQLite file of another program; choose another path for metadata")
    if written != FORMAT:
        raise Refused(
            f"{path} has metadata format {written}, but this program reads {FORMAT}; upgrade Frazil, or use the version that wrote it"
        )
    return False


def meaning(error: sqlite3.Error, path: Path, *, committing: bool) -> FrazilError:
    """SQLite's error as ours. ``committing``: it came from COMMIT, so the transaction may be there after all."""
    code = _primary_code(error)
    if code in _PASSING:
        return RetryLater(f"{path}: {error}", after_ms=20)
    if code == sqlite3.SQLITE_NOTADB:
        return Refused(f"{path} is not a SQLite file; choose another path for metadata, or restore it from a backup")
    if code == sqlite3.SQLITE_CORRUPT:
        return Corrupt(f"{error}; stop all processes and restore the file from a backup", where=str(path))
    if code in _SETUP:
        return Refused(f"{path}: {error}; check the file, its directory and their permissions")
    if code == sqlite3.SQLITE_FULL:
        why = f"{path}: disk full ({error}); free space"
    elif code == sqlite3.SQLITE_IOERR:
        why = f"{path}: {error}"
    else:
        return Bug(f"{path}: {error}")
    return OutcomeUnknown(why, after_ms=1000) if committing else RetryLater(why, after_ms=1000)


def _primary_code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
