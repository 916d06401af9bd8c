"""The decoder port: values of a slice in, one Arrow batch of the good rows and one reject per bad row out.

Invariant of every decoder: each input index is either in ``rows`` or in ``rejects``, exactly once; ``rows`` ascends and
``batch`` has one row for each of them. A decoder never raises for what is *in* a value; it raises Refused for a schema it
cannot fill.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

from frazil.schemas.names import NameIndex
from frazil.schemas.policy import PLAIN, Policy

Values: TypeAlias = "Sequence[bytes | None] | pa.BinaryArray | pa.LargeBinaryArray"
"""The values of a slice; null is a record without value. An Arrow array costs nothing to hand over."""

WHY_CHARACTERS_MAX = 300
SLICE_BYTES_MAX = 1 << 30
"""Bytes of all values of one ``decode``: a third of what would overflow the 32-bit offsets of an Arrow string column."""

REJECT_CODES = {
    "empty": "the value has no bytes, or only blanks",
    "too-large": "the value is longer than `value_bytes_max`",
    "not-utf8": "the value is not UTF-8",
    "not-json": "the value is not exactly one JSON document (RFC 8259)",
    "too-deep": "arrays and objects are nested deeper than `depth_max`",
    "duplicate-key": "an object has the same key twice",
    "lone-surrogate": "a `\\u` escape names half of a surrogate pair, which is no Unicode text",
    "not-an-object": "the document is not an object, so it has no columns",
    "null-value": "the record has no value (a tombstone) and cannot land as a row of nulls",
    "wrong-type": "a field holds another JSON type than its column",
    "bad-text": "a text does not have the form its column needs",
    "out-of-range": "a value is outside what its column type can hold",
    "not-exact": "a value would have to be rounded or cut to fit its column",
    "zone": "a time zone is missing, or given where the column has none",
    "required": "a column that must not be null would be null",
    "ambiguous-name": "two fields of one object belong to the same column",
    "bad-name": "a new field has a name that no column can have",
    "type-conflict": "a new field has another type than an earlier record of the slice gave it",
    "too-many-columns": "a new field would bring the table above `columns_max`",
    "no-operation": "an event of `envelope` does not say what happened to its row",
    "operation": "the operation of an event is none that is known, or one that cannot be applied",
    "no-row": "an event does not hold the row it is about",
    "unknown-field": "a field has no column, and `evolve.unknown=deadletter` says that none may be left out",
}
"""Every code a reject can have, with its meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """One record that cannot become a row: its index in the input, a code of ``REJECT_CODES``, and words for a person."""

    row: int
    code: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """The answer for one slice.

    ``batch``: the good rows; its schema is the schema given plus ``additions``. ``rows``: their input indices, ascending.
    ``additions``: None, or only what is new: new columns whole; for an existing struct, list or map column a field of the
    same name that holds just the new nested fields (``frazil.schemas.evolve`` joins the two).
    """

    batch: pa.RecordBatch
    rows: array[int]
    rejects: tuple[Reject, ...]
    additions: pa.Schema | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeOptions:
    """Settings of a decoder.

    ``reserved``: names of the metadata columns of the table; a field of such a name is renamed (see ``names``).
    ``null_value_rows``: a record without value becomes a row of nulls; else it is rejected as ``null-value``.
    ``columns_max``: fields of the whole schema, nested ones counted. ``value_bytes_max``, ``depth_max``: of one value.
    ``policy``: what becomes of fields without column, of another type, of renamed ones.
    ``use_kernel``: False decodes by the twin, whatever is installed.
    """

    reserved: frozenset[str] = frozenset()
    null_value_rows: bool = True
    columns_max: int = 1000
    value_bytes_max: int = 16 << 20
    depth_max: int = 64
    policy: Policy = PLAIN
    use_kernel: bool = True

    def names(self, columns: Iterable[str]) -> NameIndex:
        """The names of the top level."""
        return NameIndex(columns, self.reserved, self.policy.renames, self.policy.overflow)


class Decoder(Protocol):
    """Bytes of values to columns. Pure CPU work: the caller moves it off the loop."""

    @property
    def schema(self) -> pa.Schema | None:
        """The value columns a new table starts with; None when they are to be seen from the values."""
        ...

    def decode(self, values: Values, schema: pa.Schema | None = None) -> Decoded:
        """Decodes one slice. ``schema``: the value columns the table has now (no metadata columns), in table order.

        Raises Refused when the schema has a type no JSON value can fill, or when the slice is above SLICE_BYTES_MAX.
        """
        ...


def clip(text: str, characters_max: int = WHY_CHARACTERS_MAX) -> str:
    """``text``, or its beginning and an ellipsis."""
    return text if len(text) <= characters_max else text[: characters_max - 1] + "…"
