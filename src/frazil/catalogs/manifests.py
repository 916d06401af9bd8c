"""Manifests and manifest lists ⇄ bytes in memory.

Records are encoded and decoded by pyiceberg, with one correction: ``equality_ids`` is declared as list<int>, as the specification has it.
The library says list<long>, on which Java readers fail.
"""

from __future__ import annotations

import io
import json
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn, cast

from pyiceberg import manifest as avro
from pyiceberg.io import InputFile, InputStream
from pyiceberg.types import IntegerType, ListType, NestedField, StructType

from frazil.catalogs.container import RecordShape
from frazil.catalogs.files import FORMAT_VERSION, DataFile, from_record
from frazil.catalogs.partition import partition_type, summaries
from frazil.catalogs.port import JsonObject
from frazil.kit.errors import Bug, Corrupt

_EQUALITY_IDS: Final = 135
_ADDED_SNAPSHOT_AT: Final = 6
_LINES_MAX: Final = 1024

Manifest = avro.ManifestFile
"""One line of a manifest list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One file of a manifest with everything inherited filled in."""

    status: int
    """0 existing, 1 added, 2 deleted."""
    snapshot_id: int
    sequence_number: int
    file_sequence_number: int
    file: DataFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSpec:
    """What all manifests of one commit share: the schema and the partition spec their files were written under."""

    schema: JsonObject
    spec: JsonObject
    content: int = 0
    """0 data, 1 deletes."""


class _Memory(InputFile):
    """A file of the library that is a buffer; all I/O is done by the caller (``ObjectStore``)."""

    def __init__(self, location: str, data: bytes) -> None:
        super().__init__(location)
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def exists(self) -> bool:
        return True

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002, FBT001, FBT002, RUF100 - the library's signature
        stream: Any = io.BytesIO(self._data)
        return cast("InputStream", stream)


# --- manifests ---------------------------------------------------------------------------------------------------------


class ManifestCodec:
    """Encodes manifests and manifest lists. Keeps what it built: encoders per partition type, and the lines of recent lists."""

    def __init__(self) -> None:
        self._list_shape = RecordShape(avro.MANIFEST_LIST_FILE_SCHEMAS[FORMAT_VERSION], "manifest_file")
        self._entry_shapes: dict[str, RecordShape] = {}
        self._lines: OrderedDict[tuple[str, int | None, int], bytes] = OrderedDict()

    def added(
        self, location: str, files: Sequence[DataFile], common: ManifestSpec, *, snapshot_id: int, sequence: int | None = None
    ) -> tuple[bytes, Manifest]:
        """A manifest of files that this very snapshot adds.

        Their sequence numbers are inherited at commit; only what a rewrite made keeps an older data ``sequence`` (F51).
        """
        entries = [
            avro.ManifestEntry.from_args(
                status=avro.ManifestEntryStatus.ADDED,
                snapshot_id=snapshot_id,
                sequence_number=sequence,
                file_sequence_number=None,
                data_file=file.to_record(),
            )
            for file in files
        ]
        min_sequence = avro.UNASSIGNED_SEQ if sequence is None else sequence
        return self._manifest(location, entries, common, snapshot_id=snapshot_id, min_sequence=min_sequence)

    def existing(
        self, location: str, entries: Sequence[Entry], common: ManifestSpec, *, snapshot_id: int, removed: frozenset[str] = frozenset()
    ) -> tuple[bytes, Manifest]:
        """A rewritten manifest: live files keep the snapshot and sequence numbers they came with (F51).

        Files whose locations are in ``removed`` are entries that say so; ``snapshot_id`` is the one that removes them.
        """
        records = [
            avro.ManifestEntry.from_args(
                status=avro.ManifestEntryStatus.DELETED if entry.file.path in removed else avro.ManifestEntryStatus.EXISTING,
                snapshot_id=snapshot_id if entry.file.path in removed else entry.snapshot_id,
                sequence_number=entry.sequence_number,
                file_sequence_number=entry.file_sequence_number,
                data_file=entry.file.to_record(),
            )
            for entry in entries
        ]
        min_sequence = min(entry.sequence_number for entry in entries)
        return self._manifest(location, records, common, snapshot_id=snapshot_id, min_sequence=min_sequence)

    def manifest_list(self, location: str, lines: Sequence[Manifest], *, snapshot_id: int, parent_id: int | None, sequence: int) -> bytes:
        """The manifest list of one snapshot. ``lines`` already have their sequence numbers (``assign_sequence``)."""
        meta = {
            "snapshot-id": str(snapshot_id),
            "parent-snapshot-id": "null" if parent_id is None else str(parent_id),
            "sequence-number": str(sequence),
            "format-version": str(FORMAT_VERSION),
        }
        return self._list_shape.container(location, meta, [self._line(line) for line in lines])

    def _line(self, line: Manifest) -> bytes:
        key = (line.manifest_path, line.added_snapshot_id, line.sequence_number)
        found = self._lines.get(key)
        if found is None:
            found = self._lines[key] = self._list_shape.encode(line)
            if len(self._lines) > _LINES_MAX:
                self._lines.popitem(last=False)
        return found

    def _manifest(
        self, location: str, entries: Sequence[avro.ManifestEntry], common: ManifestSpec, *, snapshot_id: int, min_sequence: int
    ) -> tuple[bytes, Manifest]:
        if not entries:
            raise Bug("an empty manifest is never written")
        fields = json.dumps(common.spec["fields"], separators=(",", ":"))
        meta = {
            "schema": json.dumps(common.schema, separators=(",", ":")),
            "partition-spec": fields,
            "partition-spec-id": str(common.spec["spec-id"]),
            "format-version": str(FORMAT_VERSION),
            "content": "deletes" if common.content else "data",
        }
        shape = self._entry_shape(fields, common)
        data = shape.container(location, meta, [shape.encode(entry) for entry in entries])
        added = [entry for entry in entries if entry.status == avro.ManifestEntryStatus.ADDED]
        existing = [entry for entry in entries if entry.status == avro.ManifestEntryStatus.EXISTING]
        gone = [entry for entry in entries if entry.status == avro.ManifestEntryStatus.DELETED]
        line = Manifest.from_args(
            _table_format_version=FORMAT_VERSION,
            manifest_path=location,
            manifest_length=len(data),
            partition_spec_id=common.spec["spec-id"],
            content=avro.ManifestContent(common.content),
            sequence_number=avro.UNASSIGNED_SEQ,
            min_sequence_number=min_sequence,
            added_snapshot_id=snapshot_id,
            added_files_count=len(added),
            existing_files_count=len(existing),
            deleted_files_count=len(gone),
            added_rows_count=sum(entry.data_file.record_count for entry in added),
            existing_rows_count=sum(entry.data_file.record_count for entry in existing),
            deleted_rows_count=sum(entry.data_file.record_count for entry in gone),
            partitions=summaries(partition_type(common.spec, common.schema), [entry.data_file.partition for entry in entries]),
            key_metadata=None,
        )
        return data, line

    def _entry_shape(self, fields: str, common: ManifestSpec) -> RecordShape:
        partition = partition_type(common.spec, common.schema)
        key = f"{fields} {partition}"
        if key not in self._entry_shapes:
            schema = avro.manifest_entry_schema_with_data_file(FORMAT_VERSION, _data_file_type(partition))
            self._entry_shapes[key] = RecordShape(schema, "manifest_entry")
        return self._entry_shapes[key]


def _data_file_type(partition: StructType) -> StructType:
    fields = avro.data_file_with_partition(partition, FORMAT_VERSION).fields
    return StructType(*[_int_ids(field) if field.field_id == _EQUALITY_IDS else field for field in fields])


def _int_ids(field: NestedField) -> NestedField:
    ids = ListType(element_id=136, element_type=IntegerType(), element_required=True)
    return NestedField(field_id=field.field_id, name=field.name, field_type=ids, required=False, doc=field.doc)


def decode_manifest(data: bytes, line: Manifest) -> list[Entry]:
    """Every entry, deleted ones too. Raises Corrupt."""
    try:
        entries = line.fetch_manifest_entry(_OneFile(line.manifest_path, data), discard_deleted=False)  # type: ignore[arg-type]  # needs only new_input
        return [_entry(entry, line) for entry in entries]
    except (ValueError, EOFError, KeyError, IndexError, TypeError, UnicodeDecodeError) as error:
        raise Corrupt(f"not a readable manifest: {error}", where=line.manifest_path) from error


def _entry(entry: avro.ManifestEntry, line: Manifest) -> Entry:
    sequence = entry.sequence_number
    return Entry(
        status=int(entry.status),
        snapshot_id=entry.snapshot_id or 0,
        sequence_number=sequence or 0,
        file_sequence_number=(entry.file_sequence_number if entry.file_sequence_number is not None else sequence) or 0,
        file=from_record(entry.data_file, spec_id=line.partition_spec_id),
    )


class _OneFile:
    """Stands in for the library's FileIO: holds just the one file that is asked for."""

    def __init__(self, location: str, data: bytes) -> None:
        self._file = _Memory(location, data)

    def new_input(self, location: str) -> InputFile:
        if location != self._file.location:
            _unexpected(location)
        return self._file


def _unexpected(location: str) -> NoReturn:
    raise Bug(f"the codec asked for {location}")


# --- manifest lists ----------------------------------------------------------------------------------------------------


def assign_sequence(line: Manifest, sequence: int) -> Manifest:
    """A new manifest's line with the sequence number of the snapshot that adds it."""
    if line.sequence_number == avro.UNASSIGNED_SEQ:
        line.sequence_number = sequence
    if line.min_sequence_number == avro.UNASSIGNED_SEQ:
        line.min_sequence_number = sequence
    return line


def in_snapshot(line: Manifest, snapshot_id: int) -> Manifest:
    """A copy of a manifest's line that says ``snapshot_id`` brought it in."""
    values = [line[at] for at in range(len(line))]
    values[_ADDED_SNAPSHOT_AT] = snapshot_id
    return Manifest(*values)


def decode_manifest_list(data: bytes, location: str) -> tuple[Manifest, ...]:
    """The lines of a manifest list. Raises Corrupt."""
    try:
        return tuple(_lines(_Memory(location, data)))
    except (ValueError, EOFError, KeyError, IndexError, TypeError, UnicodeDecodeError) as error:
        raise Corrupt(f"not a readable manifest list: {error}", where=location) from error


def _lines(file: InputFile) -> Iterator[Manifest]:
    yield from avro.read_manifest_list(file)
