"""Readers of what is stored, from the specifications alone: nothing of the product is imported here.

``Table`` reads an Iceberg table (metadata JSON → manifest lists → manifests → Parquet) with fastavro and pyarrow, and checks
on the way that every file that can be reached is whole. ``segment`` reads a sealed ``.kfs`` object (docs/formats/kfs.md).
"""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import fastavro
import pyarrow.parquet as pq
from crc32c import crc32c
from tests.simulation.kafka import Seen, records

Objects = dict[str, tuple[bytes, int]]


class Table:
    """One table as of one metadata file; parts that were read before are not read again."""

    def __init__(self, objects: Objects, location: str, cache: dict[str, Any]) -> None:
        self._objects, self._cache = objects, cache
        self.problems: list[str] = []
        self.metadata: dict[str, Any] = json.loads(self._bytes(location))

    def snapshot(self) -> dict[str, Any] | None:
        """The head of the main branch."""
        wanted = self.metadata.get("current-snapshot-id")
        return next((found for found in self.metadata.get("snapshots", []) if found["snapshot-id"] == wanted), None)

    def total_records(self) -> int:
        """What the head's summary claims; cheap to look at."""
        head = self.snapshot()
        return 0 if head is None else int(head["summary"].get("total-records", 0))

    def rows(self) -> list[dict[str, Any]]:
        """Every row of the head, by current column names."""
        head = self.snapshot()
        if head is None:
            return []
        schema = next(found for found in self.metadata["schemas"] if found["schema-id"] == self.metadata["current-schema-id"])
        names = {field["id"]: field["name"] for field in schema["fields"]}
        rows: list[dict[str, Any]] = []
        paths = [file["file_path"] for file in self._files(head)]
        if len(paths) != len(set(paths)):
            self.problems.append("a data file is in the table twice")
        for path in paths:
            for row in self._parquet(path):
                rows.append({names[number]: value for number, value in row.items() if number in names})
        return rows

    def check_all(self) -> None:
        """WHOLE, for every snapshot that the metadata names."""
        for snapshot in self.metadata.get("snapshots", []):
            self._files(snapshot)

    def _files(self, snapshot: dict[str, Any]) -> list[dict[str, Any]]:
        found = []
        for manifest in self._avro(snapshot["manifest-list"]):
            path = manifest["manifest_path"]
            if len(self._bytes(path)) != manifest["manifest_length"]:
                self.problems.append(f"{path} has not its {manifest['manifest_length']} bytes")
                continue
            files = [entry["data_file"] for entry in self._avro(path) if entry["status"] != 2]
            for file in files:
                self._check(file)
            found += files
        return found

    def _check(self, file: dict[str, Any]) -> None:
        path = file["file_path"]
        size, count = file["file_size_in_bytes"], file["record_count"]
        if len(self._bytes(path)) != size:
            self.problems.append(f"{path} has {len(self._bytes(path))} bytes, not {size}")
        elif len(self._parquet(path)) != count:
            self.problems.append(f"{path} has {len(self._parquet(path))} rows, not {count}")

    def _parquet(self, path: str) -> list[dict[int, Any]]:
        """Rows by field id."""
        key = f"parquet {path}"
        if key not in self._cache:
            try:
                table = pq.ParquetFile(io.BytesIO(self._bytes(path))).read(use_threads=False)
            except Exception as error:
                self.problems.append(f"{path} does not open: {error}")
                return []
            ids = [int(field.metadata[b"PARQUET:field_id"]) for field in table.schema]
            columns = [column.to_pylist() for column in table.columns]
            self._cache[key] = [dict(zip(ids, row, strict=True)) for row in zip(*columns, strict=True)]
        return self._cache[key]

    def _avro(self, path: str) -> list[dict[str, Any]]:
        key = f"avro {path}"
        if key not in self._cache:
            data = self._bytes(path)
            self._cache[key] = list(fastavro.reader(io.BytesIO(data))) if data else []
        return self._cache[key]

    def _bytes(self, path: str) -> bytes:
        found = self._objects.get(path.removeprefix("memory:///"))
        if found is None:
            self.problems.append(f"{path} does not exist")
            return b""
        return found[0]


def segment(data: bytes) -> list[Seen]:
    """The records of a ``.kfs`` object. AssertionError when it is not as its format page says."""
    magic, version, flags, base, count, _, reserved = struct.unpack_from(">4sHHqiqI", data)
    body_crc, last, end = struct.unpack_from(">Iq4s", data, len(data) - 16)
    assert (magic, version, flags, reserved, end) == (b"KAFS", 1, 0, 0, b"END!"), "frame"
    body = data[32:-16]
    assert crc32c(body) == body_crc, "checksum of the body"
    found = records(body)
    assert len(found) == count and found[0].offset == base and found[-1].offset == last, "counts"
    return found


def segments(objects: Objects, prefix: str) -> dict[tuple[str, int], dict[int, bytes]]:
    """Everything sealed, as anybody sees it who may list the bucket: topic component and partition → offset → value."""
    logs: dict[tuple[str, int], dict[int, bytes]] = {}
    for key in sorted(objects):
        parts = key.split("/")
        if parts[0] != prefix or len(parts) != 4 or not key.endswith(".kfs"):
            continue
        log = logs.setdefault((parts[1], int(parts[2])), {})
        for seen in segment(objects[key][0]):
            assert log.setdefault(seen.offset, seen.value) == seen.value, f"{key}: offset {seen.offset} was sealed twice, differently"
    return logs
