"""A table's progress: per (source, topic id, partition) the offset of the next record to land (R06, R14; docs/formats/progress.md).

Progress belongs to a snapshot. The table property ``frazil.progress`` counts only if the snapshot it names is the head or an ancestor of
the head; otherwise the newest ancestor whose summary carries progress is the truth (a table that was rolled back is filled again).
If neither can be established, nothing may be written: starting anywhere else loses or doubles records.

Up to ``INLINE_BYTES_MAX`` progress is inline in property and summary; above, both name an immutable object with its length and CRC.
"""

from __future__ import annotations

import array
import hashlib
import json
import re
import struct
import sys
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import crc32c

from frazil.catalogs.locations import Locations
from frazil.catalogs.metadata_json import MAIN, ref_snapshot, snapshot_by_id
from frazil.catalogs.port import JsonObject, LoadedTable
from frazil.kit.errors import Corrupt, Missing, Refused
from frazil.kit.names import TopicId
from frazil.objects.port import ObjectStore

PROGRESS: Final = "frazil.progress"
"""Table property and summary key."""
RANGES: Final = "frazil.ranges"
"""Summary key: what this commit moved."""
COMMIT_ID: Final = "frazil.commit-id"
"""Summary key."""
LAST_COMMIT: Final = "frazil.last-commit"
"""Table property."""
LANDED_TAG: Final = "frazil-landed"
"""Tag on our newest snapshot, so that a foreign expiry keeps it (F04)."""
NESSIE_CONTENT: Final = "nessie.catalog.content-id"
"""Table property that Nessie gives each table."""
INLINE_BYTES_MAX: Final = 1024
RANGES_BYTES_MAX: Final = 1024
VERSION: Final = 1
_MAGIC: Final = b"FZPR"
_ABSENT: Final = -1
_OBJECT_BYTES_MAX: Final = 64 * 1024 * 1024
_TOPIC: Final = re.compile(r"[0-9a-f]{32}")


class SourcePartition(NamedTuple):
    """Whose offsets: one partition of one topic incarnation of one source (cluster id and its incarnation, as text)."""

    source: str
    topic_id: TopicId
    partition: int


Progress = Mapping[SourcePartition, int]
"""Next offset per partition. A partition that is absent has landed nothing."""


@dataclass(frozen=True, slots=True)
class Move:
    """Progress of one partition goes from ``before`` (None: absent) to ``after``; backwards only in a wanted reset."""

    before: int | None
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressObject:
    """Reference to progress outside the metadata."""

    name: str
    """Relative to the table location."""
    length: int
    crc: int


# --- encoding ----------------------------------------------------------------------------------------------------------


def encode_inline(progress: Progress) -> JsonObject:
    """``{source: {topic id hex: [next offset of partition 0, …]}}``; null where a partition is absent."""
    return {source: {topic: _nulls(offsets) for topic, offsets in topics} for source, topics in _grouped(progress)}


def decode_inline(value: object, *, where: str) -> dict[SourcePartition, int]:
    """Inverse of ``encode_inline``. Raises Corrupt."""
    progress: dict[SourcePartition, int] = {}
    for source, topic, offsets in _inline_topics(value, where):
        for partition, offset in enumerate(offsets):
            if offset is None:
                continue
            if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
                raise Corrupt(f"offset {offset!r} of partition {partition}", where=where)
            progress[SourcePartition(source, TopicId(bytes.fromhex(topic)), partition)] = offset
    return progress


def _inline_topics(value: object, where: str) -> Iterator[tuple[str, str, list[Any]]]:
    if not isinstance(value, dict):
        raise Corrupt("progress is not an object", where=where)
    for source, topics in value.items():
        if not isinstance(topics, dict):
            raise Corrupt(f"progress of {source!r} is not an object", where=where)
        for topic, offsets in topics.items():
            if not _TOPIC.fullmatch(topic) or not isinstance(offsets, list):
                raise Corrupt(f"progress of topic {topic!r} is not understood", where=where)
            yield source, topic, offsets


def encode_object(progress: Progress) -> bytes:
    """Magic, version byte, then deflated: u32 length of a JSON header, the header, one little-endian int64 per partition (-1: absent)."""
    header: dict[str, dict[str, int]] = {}
    body = bytearray()
    for source, topics in _grouped(progress):
        header[source] = {}
        for topic, offsets in topics:
            header[source][topic] = len(offsets)
            values = array.array("q", offsets)
            if sys.byteorder == "big":
                values.byteswap()
            body += values.tobytes()
    text = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    return _MAGIC + bytes((VERSION,)) + zlib.compress(struct.pack("<I", len(text)) + text + bytes(body), 1)


def decode_object(data: bytes, *, where: str) -> dict[SourcePartition, int]:
    """Inverse of ``encode_object``. Raises Corrupt, or Refused for a newer version."""
    if data[:4] != _MAGIC or len(data) < 5:
        raise Corrupt("not a progress object", where=where)
    if data[4] != VERSION:
        raise Refused(f"{where}: progress version {data[4]} is newer than this program; use the version that wrote it")
    try:
        inflater = zlib.decompressobj()
        plain = inflater.decompress(data[5:], _OBJECT_BYTES_MAX)
        (length,) = struct.unpack_from("<I", plain)
        header = json.loads(plain[4 : 4 + length])
        counts = [(source, topic, int(count)) for source, topics in header.items() for topic, count in topics.items()]
    except (zlib.error, struct.error, ValueError, AttributeError) as error:
        raise Corrupt(f"progress object: {error}", where=where) from error
    values = array.array("q")
    rest = plain[4 + length :]
    if not inflater.eof or len(rest) != 8 * sum(count for _, _, count in counts) or any(count < 0 for _, _, count in counts):
        raise Corrupt("progress object does not hold what its header says", where=where)
    values.frombytes(rest)
    if sys.byteorder == "big":
        values.byteswap()
    return _unpack(counts, values, where)


def _unpack(counts: list[tuple[str, str, int]], values: array.array[int], where: str) -> dict[SourcePartition, int]:
    progress: dict[SourcePartition, int] = {}
    at = 0
    for source, topic, count in counts:
        if not _TOPIC.fullmatch(topic):
            raise Corrupt(f"topic id {topic!r}", where=where)
        topic_id = TopicId(bytes.fromhex(topic))
        for partition in range(count):
            if values[at + partition] != _ABSENT:
                progress[SourcePartition(source, topic_id, partition)] = values[at + partition]
        at += count
    return progress


def _grouped(progress: Progress) -> list[tuple[str, list[tuple[str, list[int]]]]]:
    sources: dict[str, dict[str, list[int]]] = {}
    for key in sorted(progress):
        offsets = sources.setdefault(key.source, {}).setdefault(key.topic_id.hex(), [])
        offsets.extend([_ABSENT] * (key.partition - len(offsets)))
        offsets.append(progress[key])
    return [(source, list(topics.items())) for source, topics in sources.items()]


def _nulls(offsets: list[int]) -> list[int | None]:
    return [None if offset == _ABSENT else offset for offset in offsets]


def encode_value(snapshot_id: int, sequence: int, progress: Progress, stored: ProgressObject | None) -> str:
    """The text of property and summary: version, snapshot, sequence number, and the progress or the object that holds it."""
    value: dict[str, Any] = {"v": VERSION, "snapshot": snapshot_id, "sequence": sequence}
    if stored is None:
        value["next"] = encode_inline(progress)
    else:
        value["object"] = {"name": stored.name, "length": stored.length, "crc32c": stored.crc}
    return json.dumps(value, separators=(",", ":"))


def fits_inline(progress: Progress) -> bool:
    """Whether the progress itself goes into property and summary (R14)."""
    if len(progress) * 2 > INLINE_BYTES_MAX:
        return False
    return len(json.dumps(encode_inline(progress), separators=(",", ":"))) <= INLINE_BYTES_MAX


def encode_ranges(moves: Mapping[SourcePartition, Move]) -> str:
    """What a commit moved: ``{source: {topic: {partition: [before, after]}}}``, or its SHA-256 when longer than ``RANGES_BYTES_MAX``."""
    value: dict[str, dict[str, dict[str, list[int | None]]]] = {}
    for key in sorted(moves):
        topics = value.setdefault(key.source, {})
        topics.setdefault(key.topic_id.hex(), {})[str(key.partition)] = [moves[key].before, moves[key].after]
    text = json.dumps(value, separators=(",", ":"))
    return text if len(text) <= RANGES_BYTES_MAX else f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def moved(progress: Progress, moves: Mapping[SourcePartition, Move]) -> dict[SourcePartition, int]:
    """``progress`` after ``moves``."""
    return {**progress, **{key: move.after for key, move in moves.items()}}


# --- reading -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Value:
    """A parsed property or summary value."""

    snapshot_id: int
    sequence: int
    next: Any
    stored: ProgressObject | None


def _parse(text: str, where: str) -> _Value:
    try:
        value = json.loads(text)
        version = value["v"]
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"{PROGRESS} is not understood: {error!r}", where=where) from error
    if version != VERSION:
        raise Refused(f"{where}: {PROGRESS} has version {version}; this program knows {VERSION}")
    try:
        named = value.get("object")
        stored = None if named is None else ProgressObject(name=str(named["name"]), length=int(named["length"]), crc=int(named["crc32c"]))
        return _Value(snapshot_id=int(value["snapshot"]), sequence=int(value["sequence"]), next=value.get("next"), stored=stored)
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"{PROGRESS} is not understood: {error!r}", where=where) from error


def ancestry(metadata: JsonObject, snapshot_id: int | None) -> Iterator[JsonObject]:
    """Kept snapshots from ``snapshot_id`` back through parents; ends at a parent that is not kept or at the first snapshot."""
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in metadata.get("snapshots", ())}
    for _ in range(len(by_id) + 1):
        found = by_id.pop(snapshot_id, None)  # popped: damaged metadata may hold a cycle
        if found is None:
            return
        yield found
        snapshot_id = found.get("parent-snapshot-id")


def progress_value(metadata: JsonObject, *, where: str) -> str | None:
    """The text that counts for the head of ``metadata`` (R06), None when the table has no progress.

    Raises Refused when it cannot be established.
    """
    head = ref_snapshot(metadata, MAIN)
    claimed = metadata.get("properties", {}).get(PROGRESS)
    named = _parse(claimed, where) if claimed is not None else None
    oldest: JsonObject | None = None
    for snapshot in ancestry(metadata, head):
        oldest = snapshot
        if named is not None and snapshot["snapshot-id"] == named.snapshot_id and snapshot["sequence-number"] == named.sequence:
            return str(claimed)
        text = snapshot.get("summary", {}).get(PROGRESS)
        if text is not None and _parse(text, where).snapshot_id == snapshot["snapshot-id"]:
            return str(text)  # a copied summary (cherry-pick) names another snapshot and does not count
    if named is not None and oldest is not None and int(oldest["sequence-number"]) > named.sequence:
        parent = oldest.get("parent-snapshot-id")
        if parent == named.snapshot_id or hides_history(metadata):
            return str(claimed)  # expired, but the parent of what is kept; or its properties are always those of the head
        if parent is None:
            return _lost(where, "its history begins after our newest snapshot: somebody replaced the table")
    if named is None and hides_history(metadata) and LAST_COMMIT in metadata["properties"]:
        return _lost(where, f"the property {PROGRESS} was deleted, and this catalog shows no older snapshot that has it")
    complete = head is None or (oldest is not None and oldest.get("parent-snapshot-id") is None)
    if complete and (head is not None or not metadata.get("snapshots")):
        return None if claimed is None or head is not None else _lost(where, "the table has no head any more")
    if claimed is None and ref_snapshot(metadata, LANDED_TAG) is None:
        return None  # never landed to: a foreign table whose old history was expired
    return _lost(where, "the history between the head and our newest snapshot was expired")


def hides_history(metadata: JsonObject) -> bool:
    """Whether the catalog shows the newest snapshot only, without its parent: Nessie keeps the history in its own commits."""
    return NESSIE_CONTENT in metadata.get("properties", {})


def _lost(where: str, why: str) -> str:
    raise Refused(
        f"{where}: progress cannot be established: {why}. Nothing is written, because a guess loses or doubles records. "
        "Roll the table back to the snapshot tagged frazil-landed, or set its progress on purpose."
    )


async def read_progress(objects: ObjectStore, table: LoadedTable) -> dict[SourcePartition, int]:
    """The progress of the table's head. Raises Refused when it cannot be established, Corrupt when it is damaged, RetryLater."""
    text = progress_value(table.metadata, where=table.ident)
    if text is None:
        return {}
    value = _parse(text, table.ident)
    if value.stored is None:
        return decode_inline(value.next, where=table.ident)
    location = f"{table.location}/{value.stored.name}"
    try:
        data = await objects.get(Locations(objects).key_of(location))
    except Missing as error:
        raise Corrupt("the object that holds the table's progress does not exist", where=location) from error
    if len(data) != value.stored.length or crc32c.crc32c(data) != value.stored.crc:
        raise Corrupt("progress object differs from its length or CRC", where=location)
    return decode_object(data, where=location)


def named_object(summary: Mapping[str, str]) -> str | None:
    """Name of the progress object a snapshot's summary refers to, for those who decide what may be deleted."""
    text = summary.get(PROGRESS)
    if text is None:
        return None
    stored = _parse(text, "summary").stored
    return None if stored is None else stored.name


def kept(metadata: JsonObject, snapshot_id: int) -> bool:
    """Whether the metadata still holds that snapshot."""
    return snapshot_by_id(metadata, snapshot_id) is not None
