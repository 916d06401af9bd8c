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


class MergingOracle(Oracle):
    """Applies delete files as the specification says: places to files not newer than they are, keys to files that are older."""

    def merged(self, location: str) -> list[dict[str, Any]]:
        """Every live row, by column names; all columns of the present schema that the file has."""
        entries = self._entries(location)
        specs = {spec["spec-id"]: spec["fields"] for spec in self.metadata(location)["partition-specs"]}
        data = [entry for entry in entries if entry["data_file"]["content"] == 0]
        rows: list[dict[str, Any]] = []
        for entry in data:
            path, sequence = entry["data_file"]["file_path"], entry["sequence_number"]
            table = self._whole(entry["data_file"])
            ids = [int(field.metadata[b"PARQUET:field_id"]) for field in table.schema]
            lines = table.rename_columns([str(number) for number in ids]).to_pylist()
            dead: set[int] = set()
            gone: list[tuple[list[str], set[tuple[Any, ...]]]] = []
            for delete in entries:
                file = delete["data_file"]
                same = delete["spec"] == entry["spec"] and file["partition"] == entry["data_file"]["partition"]
                if file["content"] == 1 and same and delete["sequence_number"] >= sequence:
                    dead |= {row["pos"] for row in self._whole(file).to_pylist() if row["file_path"] == path}
                if file["content"] == 2 and (same or not specs[delete["spec"]]) and delete["sequence_number"] > sequence:
                    names = [str(number) for number in file["equality_ids"]]
                    keys = self._whole(file)
                    stored = [field.metadata[b"PARQUET:field_id"].decode() for field in keys.schema]
                    lists = [keys.column(stored.index(name)).to_pylist() for name in names]
                    gone.append((names, set(zip(*lists, strict=True))))
            for at, line in enumerate(lines):
                if at not in dead and not any(tuple(line.get(name) for name in names) in keys for names, keys in gone):
                    rows.append(line)
        fields = {str(field["id"]): field["name"] for field in self._schema(location)["fields"]}
        return [{name: row.get(number) for number, name in fields.items()} for row in rows]

    def deletes(self, location: str) -> list[int]:
        """The contents of the live delete files."""
        return [entry["data_file"]["content"] for entry in self._entries(location) if entry["data_file"]["content"]]

    def _whole(self, file: dict[str, Any]) -> Any:
        data = self.bytes_of(file["file_path"])
        assert len(data) == file["file_size_in_bytes"], file["file_path"]
        table = pq.read_table(io.BytesIO(data))
        assert table.num_rows == file["record_count"], file["file_path"]
        return table

    def _entries(self, location: str) -> list[dict[str, Any]]:
        metadata = self.metadata(location)
        snapshot = next((s for s in metadata.get("snapshots", []) if s["snapshot-id"] == metadata.get("current-snapshot-id")), None)
        found: list[dict[str, Any]] = []
        for manifest in fastavro.reader(io.BytesIO(self.bytes_of(snapshot["manifest-list"]))) if snapshot else ():
            smallest = None
            for entry in fastavro.reader(io.BytesIO(self.bytes_of(manifest["manifest_path"]))):
                assert (entry["data_file"]["content"] != 0) == (manifest["content"] == 1)
                if entry["status"] == 2:
                    continue
                if entry["sequence_number"] is None:
                    assert entry["status"] == 1
                    entry["sequence_number"] = manifest["sequence_number"]
                smallest = min(smallest or entry["sequence_number"], entry["sequence_number"])
                found.append({**entry, "spec": manifest["partition_spec_id"]})
            assert smallest is None or manifest["min_sequence_number"] <= smallest
        self._check_totals(snapshot, found)
        return found

    @staticmethod
    def _check_totals(snapshot: dict[str, Any] | None, entries: list[dict[str, Any]]) -> None:
        if snapshot is None:
            return
        files = [entry["data_file"] for entry in entries]
        for name, contents, field in (
            ("total-records", (0,), "record_count"),
            ("total-position-deletes", (1,), "record_count"),
            ("total-equality-deletes", (2,), "record_count"),
            ("total-files-size", (0, 1, 2), "file_size_in_bytes"),
        ):
            assert int(snapshot["summary"][name]) == sum(file[field] for file in files if file["content"] in contents), name
        assert int(snapshot["summary"]["total-data-files"]) == sum(file["content"] == 0 for file in files)
        assert int(snapshot["summary"]["total-delete-files"]) == sum(file["content"] != 0 for file in files)
