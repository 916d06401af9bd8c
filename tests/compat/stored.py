"""Reads what a broker has stored, from docs/formats alone: nothing of the product is imported here.

``topic`` gives the batches of every partition in offset order, sealed or not, each with the attributes and the records that the
client sent. Compressed records are opened with pyarrow and zlib, which the product does not use for that.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import sqlite3
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow
from crc32c import crc32c

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_BATCH = struct.Struct(">qiibIhiqqqhii")
_XERIAL = b"\x82SNAPPY\x00"


@dataclass(frozen=True, slots=True)
class Record:
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class StoredBatch:
    base: int
    codec: str
    producer_id: int
    records: tuple[Record, ...]


def topic(data: pathlib.Path, name: str) -> dict[int, list[StoredBatch]]:
    """Partition → its batches. AssertionError where what is stored is not as its format page says."""
    with contextlib.closing(sqlite3.connect(f"file:{data / 'metadata.db'}?mode=ro", uri=True)) as store:
        found = json.loads(store.execute("SELECT value FROM kv WHERE key = ?", (f"topics/{name}",)).fetchone()[0])
        commits = store.execute("SELECT value FROM kv WHERE key >= 'log/commit/' AND key < 'log/commit0'").fetchall()
        sealed = store.execute(
            "SELECT key, value FROM kv WHERE key >= ? AND key < ?",
            (f"log/segment/{found['topic_id']}/", f"log/segment/{found['topic_id']}0"),
        ).fetchall()
    objects = data / "objects"
    runs: dict[int, dict[int, bytes]] = {partition: {} for partition in range(found["partitions"])}
    for key, value in sealed:
        segment = json.loads(value)
        body = (objects / segment["object_key"]).read_bytes()[32:-16]
        assert crc32c(body) == segment["crc"], segment["object_key"]
        runs[int(key.split("/")[3])][segment["base"]] = body
    ends = {partition: max((json.loads(v)["end"] for k, v in sealed if int(k.split("/")[3]) == partition), default=0) for partition in runs}
    for (value,) in commits:
        for partition, base, body in _rows(objects, value, bytes.fromhex(found["topic_id"])):
            if base >= ends[partition]:
                runs[partition][base] = body
    return {partition: [batch for base in sorted(found) for batch in _batches(found[base], base)] for partition, found in runs.items()}


def _rows(objects: pathlib.Path, commit: bytes, topic_id: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(partition, base offset, bytes in the bundle) of the commit's rows of one topic (docs/formats/metadata-log.md)."""
    form, flags, _, _, _, name = struct.unpack_from("<BBHqq26s", commit)
    assert form == 1
    body = zlib.decompress(commit[46:]) if flags & 1 else commit[46:]
    sections, topics, rows, _ = struct.unpack_from("<4I", body)
    ids = [body[16 + 16 * n : 32 + 16 * n] for n in range(topics)]
    at = 16 + 16 * topics + sections * (2 + 8 + 4 + 4)
    columns = []
    for letter in "IiqIIIqqI":
        columns.append(struct.unpack_from(f"<{rows}{letter}", body, at))
        at += rows * struct.calcsize(f"<{letter}")
    if not any(ids[number] == topic_id for number in columns[0]):
        return
    bundle = (objects / "bundles" / f"{crc32c(name) & 255:02x}" / f"{name.decode()}.kfb").read_bytes()
    for number, partition, base, _, position, length, *_ in zip(*columns, strict=True):
        if ids[number] == topic_id:
            yield partition, base, bundle[position : position + length]


def _batches(data: bytes, base: int) -> Iterator[StoredBatch]:
    """The batches of a run; offsets are counted on from ``base``, whatever the run's bytes say (docs/formats/bundle.md)."""
    at = 0
    while at < len(data):
        _, length, _, magic, crc, attributes, last, _, _, producer_id, _, _, count = _BATCH.unpack_from(data, at)
        frame = data[at : at + 12 + length]
        assert magic == 2 and crc32c(frame[21:]) == crc, f"batch at offset {base}"
        codec = CODECS[attributes & 7]
        records = tuple(_records(_open(codec, frame[61:]), base, count))
        assert records[-1].offset == base + last
        yield StoredBatch(base, codec, producer_id, records)
        at += 12 + length
        base += last + 1


def _open(codec: str, data: bytes) -> bytes:
    if codec == "none":
        return data
    if codec == "gzip":
        return zlib.decompress(data, 31)
    if codec != "snappy":
        with pyarrow.CompressedInputStream(pyarrow.BufferReader(data), codec) as stream:
            return bytes(stream.read())
    if not data.startswith(_XERIAL):
        return _snappy(data)
    blocks, at = [], 16
    while at < len(data):
        size = struct.unpack_from(">i", data, at)[0]
        blocks.append(_snappy(data[at + 4 : at + 4 + size]))
        at += 4 + size
    return b"".join(blocks)


def _snappy(data: bytes) -> bytes:
    size = shift = at = 0
    while True:  # the block begins with its uncompressed size, a plain varint
        size |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return bytes(pyarrow.decompress(data, decompressed_size=size, codec="snappy"))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    shift = number = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return (number >> 1) ^ -(number & 1), at
        shift += 7


def _sized(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _varint(data, at)
    return (None, at) if size < 0 else (data[at : at + size], at + size)


def _records(data: bytes, base: int, count: int) -> Iterator[Record]:
    at = 0
    for _ in range(count):
        length, at = _varint(data, at)
        end = at + length
        _, at = _varint(data, at + 1)
        delta, at = _varint(data, at)
        key, at = _sized(data, at)
        value, at = _sized(data, at)
        many, at = _varint(data, at)
        headers = []
        for _ in range(many):
            name, at = _sized(data, at)
            content, at = _sized(data, at)
            headers.append(((name or b"").decode(), content))
        assert at == end, f"record at offset {base + delta}"
        yield Record(base + delta, key, value, tuple(headers))
    assert at == len(data)
