"""Values that name their schema: a zero byte, the schema's id in four bytes (big-endian), then the body (Confluent's wire format).

The schemas themselves come from a registry, which only the caller asks: decoding stays pure. ``ids_of`` says which are wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from frazil.schemas.arrays import BinaryColumn
from frazil.schemas.port import Decoder
from frazil.schemas.unfit import Unfit

MAGIC: Final = 0
PREFIX_BYTES: Final = 5

FRAMED_CODES = {
    "not-framed": "the value does not begin with a zero byte and a schema id",
    "unknown-schema": "the registry does not know the schema id",
    "bad-schema": "the schema of that id cannot be used for this table",
    "not-avro": "the bytes behind the id are not one datum of the schema",
    "not-protobuf": "the bytes behind the id are not one message of the schema",
}
"""Codes of rejects that values with a schema id have beside ``REJECT_CODES``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterSchema:
    """A schema as the registry has it. ``kind``: AVRO, JSON or PROTOBUF; ``references``: name and text, needed first."""

    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The registry was asked and has no such schema, or none that can be read."""

    code: str
    why: str


Found: TypeAlias = "WriterSchema | Unknown"


@runtime_checkable
class FramedDecoder(Decoder, Protocol):
    """A decoder that has to be told the schemas of a slice before it decodes the slice."""

    def learn(self, found: Mapping[int, Found]) -> None:
        """Takes the answer for every id of ``ids_of(values)``; it holds until the next call."""
        ...

    def preview(self, schema_id: int, schema: pa.Schema) -> pa.Schema:
        """The columns ``schema`` as a value of a schema that was learnt would leave them. Raises Unfit when its values could not land."""
        ...


def ids_of(values: BinaryColumn) -> tuple[int, ...]:
    """The schema ids that occur, ascending."""
    heads = (head for head in pc.unique(pc.binary_slice(values, 0, PREFIX_BYTES)).to_pylist() if head is not None)
    return tuple(sorted(int.from_bytes(head[1:]) for head in heads if len(head) == PREFIX_BYTES and head[0] == MAGIC))


def id_of(value: bytes) -> int:
    """The schema id of one value. Raises Unfit when it has none."""
    if len(value) < PREFIX_BYTES or value[0] != MAGIC:
        raise Unfit("not-framed", f"{len(value)} bytes that begin with {value[:PREFIX_BYTES].hex() or 'nothing'}")
    return int.from_bytes(value[1:PREFIX_BYTES])
