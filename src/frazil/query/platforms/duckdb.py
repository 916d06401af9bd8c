"""DuckDB with its own Iceberg extension: an engine that shares no code with our writer."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from urllib.parse import urlsplit

import duckdb
import duckdb_extension_avro
import duckdb_extension_httpfs
import duckdb_extension_iceberg

from frazil.kit.errors import Refused, RetryLater
from frazil.query.ask import Answer, TableSource


class DuckdbPlatform:
    """A fresh in-memory DuckDB per question, so that no question sees another's state."""

    def names(self, sql: str) -> frozenset[str]:
        """Mentioned table names as ``namespace.name``."""
        try:
            with duckdb.connect() as connection:
                mentioned = connection.get_table_names(sql, qualified=True)
        except duckdb.Error as error:
            raise Refused(f"the question does not parse: {error}") from error
        return frozenset(name.split(" AS ")[0].replace('"', "") for name in mentioned)

    def run(self, sql: str, tables: Sequence[TableSource]) -> Answer:
        """Binds each table as a view over ``iceberg_scan`` and runs the question."""
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            for extension in (duckdb_extension_avro, duckdb_extension_iceberg):
                connection.load_extension(str(_extension_file(extension.__path__[0])))
            try:
                if any(table.metadata_location.startswith("s3://") for table in tables):
                    connection.load_extension(str(_extension_file(duckdb_extension_httpfs.__path__[0])))
                for number, table in enumerate(tables):
                    if table.metadata_location.startswith("s3://"):
                        _reach(connection, table, number)
                    _bind(connection, table)
                result = connection.execute(sql)
                columns = tuple(column[0] for column in result.description or ())
                rows = tuple(tuple(row) for row in result.fetchall()) if columns else ()
            except duckdb.IOException as error:
                raise RetryLater(f"a table file could not be read: {error}") from error
            except duckdb.Error as error:
                raise Refused(f"DuckDB refused the question: {error}") from error
        return Answer(columns=columns, rows=rows)


def _extension_file(package: str) -> pathlib.Path:
    found = sorted(pathlib.Path(package).glob(f"extensions/v{duckdb.__version__}/*.duckdb_extension"))
    if not found:
        raise Refused(f"no DuckDB extension for {duckdb.__version__} in {package}; reinstall frazil so that the versions match")
    return found[0]


def _reach(connection: duckdb.DuckDBPyConnection, table: TableSource, number: int) -> None:
    """A secret of this connection, for the files of one table. DuckDB masks it wherever it shows secrets."""
    given = table.storage
    endpoint = urlsplit(given.get("s3.endpoint", ""))
    options = {
        "KEY_ID": given.get("s3.access-key-id", ""),
        "SECRET": given.get("s3.secret-access-key", ""),
        "SESSION_TOKEN": given.get("s3.session-token", ""),
        "REGION": given.get("s3.region") or given.get("client.region", ""),
        "ENDPOINT": endpoint.netloc + endpoint.path.rstrip("/"),
        "URL_STYLE": "path" if given.get("s3.path-style-access", "true") == "true" and endpoint.netloc else "",
        "USE_SSL": "false" if endpoint.scheme == "http" else "",
        "SCOPE": f"{table.location.rstrip('/')}/",
    }
    if not options["KEY_ID"]:
        _load_chain(connection)
        options["PROVIDER"] = "credential_chain"
    if given.get("s3.cabundle"):
        connection.execute(f"SET ca_cert_file = {_text(given['s3.cabundle'])}")
    texts = ", ".join(f"{name} {_text(value)}" for name, value in options.items() if value)
    connection.execute(f"CREATE SECRET table_{number} (TYPE s3, {texts})")


def _load_chain(connection: duckdb.DuckDBPyConnection) -> None:
    """Without keys DuckDB asks the AWS chain (variables, profile, web identity, instance), as the object store does."""
    try:
        import duckdb_extension_aws
    except ImportError as error:
        raise Refused("SQL over S3 without keys in the settings needs DuckDB's aws extension: pip install 'frazil[aws]'") from error
    connection.load_extension(str(_extension_file(duckdb_extension_aws.__path__[0])))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _bind(connection: duckdb.DuckDBPyConnection, table: TableSource) -> None:
    namespace, _, name = table.name.rpartition(".")
    schema = namespace.replace('"', '""') or "main"
    location = table.metadata_location.replace("'", "''")
    connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
    quoted = name.replace('"', '""')
    connection.execute(f'CREATE VIEW "{schema}"."{quoted}" AS SELECT * FROM iceberg_scan(\'{location}\')')
