"""What a process that worked on an order hands over, as bytes: files that wait for a commit, consumed ranges, a schema change. Pure.

    b"FZHO" │ u32 header length │ header (JSON) │ manifest list │ manifests… │ u32 CRC-32 of all before

Files are described by Iceberg's own manifests, one per partition spec, so that bounds and partition values keep their types.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from frazil.catalogs.files import DataFile
from frazil.catalogs.manifests import Manifest, ManifestCodec, ManifestSpec, assign_sequence, decode_manifest, decode_manifest_list
from frazil.catalogs.metadata_json import current_schema, partition_spec
from frazil.catalogs.port import LoadedTable
from frazil.catalogs.schema import SchemaChange
from frazil.kit.errors import Corrupt
from frazil.kit.names import PartitionId, PartitionKey, TopicId
from frazil.landing.decode import Consumed

_MAGIC: Final = b"FZHO"
_VERSION: Final = 1
_U32: Final = struct.Struct("<I")
_SNAPSHOT: Final = 1
"""Stands in manifests of a handover for the snapshot that is not yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """``base_schema_id``: the table's schema when the files were written; ``change``: what they need beyond it."""

    base_schema_id: int
    files: tuple[DataFile, ...]
    consumed: tuple[Consumed, ...]
    change: SchemaChange | None
    rows: int
    letters: int


def encode_handover(handover: Handover, table: LoadedTable) -> bytes:
    """The bytes. ``table``: as the files were written for it."""
    codec = ManifestCodec()
    schema = handover.change.schema if handover.change else current_schema(table.metadata)
    parts: list[bytes] = []
    lines: list[Manifest] = []
    for spec_id in sorted({file.spec_id for file in handover.files}):
        common = ManifestSpec(schema=schema, spec=partition_spec(table.metadata, spec_id))
        files = [file for file in handover.files if file.spec_id == spec_id]
        data, line = codec.added(f"handover/{spec_id}.avro", files, common, snapshot_id=_SNAPSHOT)
        parts.append(data)
        lines.append(assign_sequence(line, 1))
    listed = codec.manifest_list("handover/list.avro", lines, snapshot_id=_SNAPSHOT, parent_id=None, sequence=1)
    header = {
        "version": _VERSION,
        "base_schema_id": handover.base_schema_id,
        "consumed": [[one.key.topic_id.hex(), int(one.key.partition), one.topic, one.first, one.end] for one in handover.consumed],
        "change": _change_fields(handover.change),
        "rows": handover.rows,
        "letters": handover.letters,
        "parts": [len(listed), *map(len, parts)],
    }
    text = json.dumps(header).encode()
    body = b"".join([_MAGIC, _U32.pack(len(text)), text, listed, *parts])
    return body + _U32.pack(zlib.crc32(body))


def decode_handover(data: bytes, *, where: str) -> Handover:
    """Raises Corrupt when these are not the bytes of one."""
    body = data[: -_U32.size]
    if len(data) < 3 * _U32.size or body[:4] != _MAGIC or _U32.unpack(data[-_U32.size :])[0] != zlib.crc32(body):
        raise Corrupt("not a handover, or a damaged one", where=where)
    (length,) = _U32.unpack_from(body, 4)
    header: Any = json.loads(body[8 : 8 + length])
    if header["version"] != _VERSION:
        raise Corrupt(f"a handover of version {header['version']}; this program knows {_VERSION}", where=where)
    parts = _cut(body, 8 + length, header["parts"])
    lines = decode_manifest_list(parts[0], where)
    files = [entry.file for line, part in zip(lines, parts[1:], strict=True) for entry in decode_manifest(part, line)]
    consumed = [
        Consumed(key=PartitionKey(TopicId(bytes.fromhex(topic_id)), PartitionId(partition)), topic=topic, first=first, end=end)
        for topic_id, partition, topic, first, end in header["consumed"]
    ]
    change = header["change"]
    return Handover(
        base_schema_id=header["base_schema_id"],
        files=tuple(files),
        consumed=tuple(consumed),
        change=None if change is None else SchemaChange(**change),
        rows=header["rows"],
        letters=header["letters"],
    )


def _change_fields(change: SchemaChange | None) -> dict[str, object] | None:
    if change is None:
        return None
    return {"schema": change.schema, "base_schema_id": change.base_schema_id, "base_last_column_id": change.base_last_column_id}


def _cut(body: bytes, at: int, lengths: Sequence[int]) -> list[bytes]:
    parts = []
    for length in lengths:
        parts.append(body[at : at + length])
        at += length
    return parts
