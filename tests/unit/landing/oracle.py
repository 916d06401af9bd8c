"""An independent reader of an Iceberg table: metadata JSON → manifest list → manifests → Parquet, with fastavro and pyarrow only."""

from __future__ import annotations

import io
import json
from collections import Counter
from typing import Any

import fastavro
import pyarrow.parquet as pq


class Oracle:
    """Reads tables of a memory bucket by the address of their metadata file."""

    def __init__(self, objects: dict[str, tuple[bytes, int]]) -> None:
        self._objects = objects

    def bytes_of(self, location: str) -> bytes:
        return self._objects[location.removeprefix("memory:///")][0]

    def metadata(self, location: str) -> dict[str, Any]:
        return json.loads(self.bytes_of(location))

    def live_files(self, location: str, snapshot_id: int | None = None) -> list[dict[str, Any]]:
        metadata = self.metadata(location)
        wanted = metadata.get("current-snapshot-id") if snapshot_id is None else snapshot_id
        snapshot = next((s for s in metadata.get("snapshots", []) if s["snapshot-id"] == wanted), None)
        if snapshot is None:
            return []
        files = []
        for manifest in fastavro.reader(io.BytesIO(self.bytes_of(snapshot["manifest-list"]))):
            data = self.bytes_of(manifest["manifest_path"])
            assert len(data) == manifest["manifest_length"]
            files += [entry["data_file"] for entry in fastavro.reader(io.BytesIO(data)) if entry["status"] != 2]
        doubles = [path for path, times in Counter(file["file_path"] for file in files).items() if times > 1]
        assert not doubles, f"files with two live entries: {doubles}"
        return files

    def rows(self, location: str) -> list[dict[str, Any]]:
        """Every row, by current column names; WHOLE is checked on the way."""
        fields = {field["id"]: field["name"] for field in self._schema(location)["fields"]}
        rows: list[dict[str, Any]] = []
        for file in self.live_files(location):
            data = self.bytes_of(file["file_path"])
            assert len(data) == file["file_size_in_bytes"], file["file_path"]
            table = pq.read_table(io.BytesIO(data))
            assert table.num_rows == file["record_count"], file["file_path"]
            assert all(field.metadata for field in table.schema)
            ids = [int(field.metadata[b"PARQUET:field_id"]) for field in table.schema]
            kept = table.select([at for at, number in enumerate(ids) if number in fields])  # a dropped column stays in its files
            names = [fields[number] for number in ids if number in fields]
            rows += [{**dict.fromkeys(fields.values()), **row} for row in kept.rename_columns(names).to_pylist()]
        return rows

    def columns(self, location: str) -> dict[str, Any]:
        return {field["name"]: field["type"] for field in self._schema(location)["fields"]}

    def snapshots(self, location: str) -> list[dict[str, Any]]:
        return self.metadata(location).get("snapshots", [])

    def _schema(self, location: str) -> dict[str, Any]:
        metadata = self.metadata(location)
        return next(schema for schema in metadata["schemas"] if schema["schema-id"] == metadata["current-schema-id"])
