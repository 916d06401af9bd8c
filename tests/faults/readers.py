"""Judges that share no code with Frazil: the log through a foreign client, the table through DuckDB and plain Avro and Parquet."""

from __future__ import annotations

import json
import os
import pathlib
import sqlite3
import urllib.parse
from dataclasses import dataclass, field

import confluent_kafka
import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import fastavro
import pyarrow.parquet as pq

Position = tuple[int, int]
"""(partition, offset)"""


@dataclass
class LogContent:
    """What a foreign consumer reads: value by position."""

    values: dict[Position, bytes] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)


def read_log(bootstrap: str, topic: str) -> LogContent:
    """Reads every partition from the start to its end with librdkafka, checking CRCs."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "judge", "enable.auto.commit": False, "check.crcs": True, "auto.offset.reset": "error"}
    )
    content = LogContent()
    try:
        partitions = sorted(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
        starts = {}
        for p in partitions:
            low, high = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, p), timeout=10)
            starts[p], content.ends[p] = low, high
        consumer.assign([confluent_kafka.TopicPartition(topic, p, starts[p]) for p in partitions])
        missing = sum(content.ends[p] - starts[p] for p in partitions)
        idle = 0
        while missing > 0 and idle < 20:
            batch = consumer.consume(5000, timeout=0.5)
            idle = 0 if batch else idle + 1
            for message in batch:
                assert message.error() is None, message.error()
                position = (message.partition(), message.offset())
                assert position not in content.values, f"offset delivered twice: {position}"
                content.values[position] = message.value() or b""
                missing -= 1
        assert missing == 0, f"{missing} offsets below the end could not be read"
    finally:
        consumer.close()
    return content


def metadata_location(directory: pathlib.Path, table: str) -> str | None:
    """Current metadata file of ``namespace.name``, asked of the catalog's own SQLite file."""
    path = directory / "catalog.db"
    if not path.exists():
        return None
    namespace, name = table.split(".")
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        try:
            row = connection.execute(
                "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?", (namespace, name)
            ).fetchone()
        except sqlite3.OperationalError:
            return None
    return str(row[0]) if row else None


def query(sql: str) -> list[tuple[object, ...]]:
    """Rows of a DuckDB question; ``iceberg_scan('…')`` is DuckDB's own reader."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for extension in (duckdb_extension_avro, duckdb_extension_iceberg):
            folder = pathlib.Path(extension.__path__[0])
            connection.load_extension(str(next(folder.glob(f"extensions/v{duckdb.__version__}/*.duckdb_extension"))))
        return connection.execute(sql).fetchall()


def landed(directory: pathlib.Path, table: str) -> list[Position]:
    """Positions of all rows of a landed table, sorted; duplicates stay."""
    location = metadata_location(directory, table)
    if location is None or not has_snapshot(location):
        return []
    return [(int(str(p)), int(str(o))) for p, o in query(f"SELECT _kafka_partition, _offset FROM iceberg_scan('{location}') ORDER BY 1, 2")]


def dead_letters(directory: pathlib.Path, table: str) -> list[Position]:
    """Positions in the dead-letter table of ``table``."""
    location = metadata_location(directory, f"{table}_dead")
    if location is None or not has_snapshot(location):
        return []
    return [(int(str(p)), int(str(o))) for p, o in query(f'SELECT "partition", "offset" FROM iceberg_scan(\'{location}\') ORDER BY 1, 2')]


def has_snapshot(location: str) -> bool:
    """True when the table has a current snapshot."""
    current = json.loads(local(location).read_bytes()).get("current-snapshot-id")
    return current is not None and current != -1


def local(location: str) -> pathlib.Path:
    """A ``file://`` address or a plain path as a path."""
    return (
        pathlib.Path(urllib.parse.unquote(urllib.parse.urlparse(location).path)) if location.startswith("file:") else pathlib.Path(location)
    )


def check_whole(location: str) -> int:
    """WHOLE: every live data file exists once, has its recorded size and row count. Returns the number of files."""
    metadata = json.loads(local(location).read_bytes())
    current = metadata.get("current-snapshot-id")
    if current in (None, -1):
        return 0
    snapshot = next(s for s in metadata["snapshots"] if s["snapshot-id"] == current)
    seen: set[str] = set()
    for manifest in avro(snapshot["manifest-list"]):
        assert os.path.getsize(local(manifest["manifest_path"])) == manifest["manifest_length"], manifest["manifest_path"]
        for entry in avro(manifest["manifest_path"]):
            if entry["status"] == 2:
                continue
            data_file = entry["data_file"]
            path = local(data_file["file_path"])
            assert data_file["file_path"] not in seen, f"two live entries for {path}"
            seen.add(data_file["file_path"])
            assert path.stat().st_size == data_file["file_size_in_bytes"], path
            assert pq.read_metadata(path).num_rows == data_file["record_count"], path
    return len(seen)


def avro(location: str) -> list[dict]:  # type: ignore[type-arg]
    """Records of an Avro file, by fastavro."""
    with local(location).open("rb") as opened:
        return list(fastavro.reader(opened))  # type: ignore[arg-type]
