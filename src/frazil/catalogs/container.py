"""Avro object container files, written in one block; record encoding is the library's.

Apart from the library's own file writer because that writes a block per record, rebuilds its encoders for every file, takes a random sync
marker and leaves part of zlib's trailer in the block. Reading is the library's.
"""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.resolver import construct_writer
from pyiceberg.io import OutputStream
from pyiceberg.schema import Schema
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from frazil.catalogs.avronames import strict

_MAGIC: Final = b"Obj\x01"
_RAW_DEFLATE: Final = -15


class RecordShape:
    """One record type: its Avro schema and its encoder, built once."""

    def __init__(self, schema: Schema, name: str) -> None:
        convert: Any = AvroSchemaConversion().iceberg_to_avro
        self._avro = json.dumps(strict(convert(schema, schema_name=name)), separators=(",", ":"))
        self._writer = construct_writer(schema)

    def encode(self, record: object) -> bytes:
        """One record's bytes."""
        buffer = io.BytesIO()
        self._writer.write(BinaryEncoder(cast("OutputStream", buffer)), record)
        return buffer.getvalue()

    def container(self, name: str, meta: Mapping[str, str], records: Sequence[bytes]) -> bytes:
        """A whole file of encoded records. Its sync marker is derived from ``name``: the bytes are a function of the arguments."""
        sync = hashlib.sha256(name.encode()).digest()[:16]
        header = {**meta, "avro.schema": self._avro, "avro.codec": "deflate"}
        deflate = zlib.compressobj(6, zlib.DEFLATED, _RAW_DEFLATE)
        block = deflate.compress(b"".join(records)) + deflate.flush()
        parts = [_MAGIC, zigzag(len(header))]
        for key, value in header.items():
            parts += [_prefixed(key.encode()), _prefixed(value.encode())]
        parts += [zigzag(0), sync, zigzag(len(records)), zigzag(len(block)), block, sync]
        return b"".join(parts)


def zigzag(value: int) -> bytes:
    """Avro's variable-length integer, for ``value`` ≥ 0."""
    rest = value << 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _prefixed(data: bytes) -> bytes:
    return zigzag(len(data)) + data
