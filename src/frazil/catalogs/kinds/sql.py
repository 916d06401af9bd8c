"""The embedded catalog: one SQLite file in the layout of PyIceberg's SqlCatalog (and of Iceberg's JDBC catalog), so that those open it too.

A connection per call, in the offload: no connection is ever shared between threads. One more is only kept open, because SQLite folds its
write-ahead log back into the file, with two more fsyncs, whenever the last connection closes.
"""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

from frazil.catalogs.pointers import PointerCatalog, Pointers
from frazil.catalogs.port import Catalog, CatalogDeps, JsonObject, split_ident
from frazil.kit.errors import Corrupt, OutcomeUnknown, Refused, RetryLater
from frazil.kit.tasks import Offload

CATALOG_NAME: Final = "frazil"
"""Column ``catalog_name``: the name a foreign SqlCatalog must be opened with."""
_BUSY_SECONDS: Final = 5.0
_LAYOUT: Final = """
CREATE TABLE IF NOT EXISTS iceberg_tables (
    catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL,
    metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5),
    PRIMARY KEY (catalog_name, table_namespace, table_name));
CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (
    catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL, property_key VARCHAR(255) NOT NULL,
    property_value VARCHAR(1000) NOT NULL, PRIMARY KEY (catalog_name, namespace, property_key));
"""
_ROW: Final = "catalog_name = ? AND table_namespace = ? AND table_name = ? AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)"

T = TypeVar("T")


class SqlitePointers(Pointers):
    """The pointer table in a SQLite file on a local disk."""

    def __init__(self, path: Path, offload: Offload) -> None:
        self._path = path
        self._offload = offload

    def prepare(self) -> None:
        """Makes the file and its tables. Raises Refused when the path cannot be used."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._connect()) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.executescript(_LAYOUT)
            idle = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            idle.execute("SELECT count(*) FROM iceberg_tables").fetchone()  # opens the log
            weakref.finalize(self, idle.close)
        except (OSError, sqlite3.Error) as error:
            raise Refused(f"catalog file {self._path}: {error}") from error

    async def read(self, ident: str) -> str | None:
        """See ``Pointers.read``."""
        key = (CATALOG_NAME, *split_ident(ident))

        def work(connection: sqlite3.Connection) -> str | None:
            row = connection.execute(f"SELECT metadata_location FROM iceberg_tables WHERE {_ROW}", key).fetchone()
            return None if row is None else str(row[0])

        return await self._offload.run(lambda: self._query(work))

    async def swap(self, ident: str, old: str | None, new: str, table: JsonObject) -> bool:
        """See ``Pointers.swap``: one UPDATE (or INSERT) decides."""
        key = (CATALOG_NAME, *split_ident(ident))

        def work(connection: sqlite3.Connection) -> bool:
            if old is None:
                return _insert(connection, key, new)
            changed = connection.execute(
                f"UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ? WHERE {_ROW} AND metadata_location = ?",
                (new, old, *key, old),
            )
            return changed.rowcount == 1

        return await self._offload.run(lambda: self._transact(work))

    async def names(self, namespace: str) -> tuple[str, ...]:
        """See ``Pointers.names``."""

        def work(connection: sqlite3.Connection) -> tuple[str, ...]:
            rows = connection.execute(
                "SELECT table_namespace, table_name FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? "
                "AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL) ORDER BY table_name",
                (CATALOG_NAME, namespace),
            )
            return tuple(f"{found}.{name}" for found, name in rows)

        return await self._offload.run(lambda: self._query(work))

    async def forget(self, ident: str) -> bool:
        """See ``Pointers.forget``."""
        key = (CATALOG_NAME, *split_ident(ident))
        return await self._offload.run(
            lambda: self._transact(lambda connection: connection.execute(f"DELETE FROM iceberg_tables WHERE {_ROW}", key).rowcount == 1)
        )

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None)
        connection.execute("PRAGMA synchronous = FULL")  # an answered commit survives a power cut
        return connection

    def _query(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with closing(self._connect()) as connection:
                return work(connection)
        except sqlite3.OperationalError as error:
            raise RetryLater(f"catalog file {self._path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise Corrupt(str(error), where=str(self._path)) from error

    def _transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        committing = False
        try:
            with closing(self._connect()) as connection:
                connection.execute("BEGIN IMMEDIATE")
                result = work(connection)
                committing = True
                connection.execute("COMMIT")
                committing = False
                return result
        except sqlite3.OperationalError as error:
            kind = OutcomeUnknown if committing else RetryLater
            raise kind(f"catalog file {self._path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise Corrupt(str(error), where=str(self._path)) from error


def _insert(connection: sqlite3.Connection, key: tuple[str, str, str], location: str) -> bool:
    catalog, namespace, _ = key
    connection.execute(
        "INSERT OR IGNORE INTO iceberg_namespace_properties VALUES (?, ?, 'exists', 'true')",
        (catalog, namespace),
    )
    added = connection.execute("INSERT OR IGNORE INTO iceberg_tables VALUES (?, ?, ?, ?, NULL, 'TABLE')", (*key, location))
    return added.rowcount == 1


def open_catalog(url: str, deps: CatalogDeps) -> Catalog:
    """The catalog in the SQLite file of ``sql:///absolute/path/catalog.db``; made when absent. Raises Refused for another shape of URL."""
    parts = urlsplit(url)
    path = Path(unquote(parts.path))
    if parts.netloc or not path.is_absolute() or path.name == "" or parts.query or parts.fragment:
        raise Refused(f"catalog url {url!r}: write sql:///absolute/path/catalog.db")
    pointers = SqlitePointers(path, deps.offload)
    pointers.prepare()
    return PointerCatalog(pointers, deps)
