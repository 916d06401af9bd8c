"""Values that are one thing: one column ``value``, of bytes, text, or a number as Kafka's serializers write it (big-endian)."""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from frazil.kit.errors import Refused
from frazil.schemas.arrays import AnyArray, BinaryColumn, bytes_of, column_of, long_array
from frazil.schemas.evolve import evolve
from frazil.schemas.port import SLICE_BYTES_MAX, Decoded, DecodeOptions, Reject, Values

_COLUMN = "value"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What a value is. ``letter``: of a number, as ``struct`` calls it; empty for bytes and text."""

    arrow: pa.DataType
    allowed: tuple[pa.DataType, ...]
    letter: str = ""

    @property
    def size(self) -> int:
        """Bytes of a number."""
        return struct.calcsize(f">{self.letter}")

    @property
    def is_text(self) -> bool:
        """Whether the bytes must be UTF-8."""
        return self.arrow == pa.string()


FORMS: Final = {
    "raw": Form(arrow=pa.binary(), allowed=(pa.binary(), pa.large_binary())),
    "string": Form(arrow=pa.string(), allowed=(pa.string(), pa.large_string())),
    "int": Form(arrow=pa.int32(), allowed=(pa.int32(), pa.int64()), letter="i"),
    "long": Form(arrow=pa.int64(), allowed=(pa.int64(),), letter="q"),
    "float": Form(arrow=pa.float32(), allowed=(pa.float32(), pa.float64()), letter="f"),
    "double": Form(arrow=pa.float64(), allowed=(pa.float64(),), letter="d"),
}
"""By kind of value."""


class RawDecoder:
    """A value in the column ``value``; null stays null. Bytes always fit, text must be UTF-8, numbers have their size."""

    def __init__(self, options: DecodeOptions, form: Form) -> None:
        if _COLUMN in options.reserved:
            raise Refused(f"the column {_COLUMN!r} of raw values has the name of a metadata column")
        self._options = options
        self._form = form
        self._schema = pa.schema([pa.field(_COLUMN, form.arrow)])

    @property
    def schema(self) -> pa.Schema | None:
        """One optional column."""
        return self._schema

    def decode(self, values: Values, schema: pa.Schema | None = None) -> Decoded:
        """See Decoder. Other columns the table has are null. Raises Refused when the table's ``value`` has another type."""
        column = column_of(values)
        if bytes_of(column) > SLICE_BYTES_MAX:
            raise Refused(f"a slice of more than {SLICE_BYTES_MAX} bytes; decode it in parts")
        target = self._schema if schema is None else schema
        additions = self._additions(target)
        whole = target if additions is None else evolve(target, additions)
        nulls_fit = self._options.null_value_rows and whole.field(_COLUMN).nullable
        rejects = [] if self._all_fit(column, nulls_fit=nulls_fit) else self._faults(column, nulls_fit=nulls_fit)
        bad = {reject.row for reject in rejects}
        rows = array("q", [row for row in range(len(column)) if row not in bad] if bad else range(len(column)))
        kept = column.take(long_array(rows)) if bad else column
        arrays = [self._array(kept, field.type) if field.name == _COLUMN else pa.nulls(len(rows), field.type) for field in whole]
        batch = pa.RecordBatch.from_arrays(arrays, schema=whole)
        return Decoded(batch=batch, rows=rows, rejects=tuple(rejects), additions=additions)

    def _all_fit(self, column: BinaryColumn, *, nulls_fit: bool) -> bool:
        """Whether every value fits, asked of the column as a whole."""
        longest = pc.max(pc.binary_length(column)).as_py() or 0
        if longest > self._options.value_bytes_max or (column.null_count and not nulls_fit):
            return False
        if self._form.letter:
            return all(size in (None, self._form.size) for size in pc.unique(pc.binary_length(column)).to_pylist())
        try:
            return not self._form.is_text or column.cast(pa.large_string()) is not None
        except pa.ArrowInvalid:
            return False

    def _array(self, column: BinaryColumn, arrow: pa.DataType) -> AnyArray:
        """The column of values that fit."""
        if not self._form.letter:
            return column.cast(arrow)
        unpack: Any = struct.Struct(f">{self._form.letter}").unpack
        return pa.array([None if value is None else unpack(value)[0] for value in column.to_pylist()], arrow)

    def _faults(self, column: BinaryColumn, *, nulls_fit: bool) -> list[Reject]:
        """The values that do not fit, one by one."""
        faults: list[Reject] = []
        for row, value in enumerate(column.to_pylist()):
            reject = self._fault(row, value) if value is not None else _null_fault(row, fits=nulls_fit)
            if reject is not None:
                faults.append(reject)
        return faults

    def _additions(self, target: pa.Schema) -> pa.Schema | None:
        """The column ``value`` when the table lacks it. Raises Refused when another column cannot be left null."""
        wanted = self._schema.field(_COLUMN).type
        for field in target:
            if field.name == _COLUMN and field.type not in self._form.allowed:
                raise Refused(f"column {_COLUMN}: {field.type} cannot take raw values, it must be {wanted}")
            if field.name != _COLUMN and not field.nullable:
                raise Refused(f"column {field.name}: not null, but raw values fill only the column {_COLUMN!r}")
        return None if _COLUMN in target.names else self._schema

    def _fault(self, row: int, value: bytes) -> Reject | None:
        """Why a value cannot land, if so."""
        if len(value) > self._options.value_bytes_max:
            return Reject(row=row, code="too-large", why=f"{len(value)} bytes, more than {self._options.value_bytes_max}")
        if self._form.letter and len(value) != self._form.size:
            return Reject(row=row, code="wrong-type", why=f"{len(value)} bytes, where a number of {self._form.size} should be")
        if self._form.is_text:
            try:
                value.decode()
            except UnicodeDecodeError as error:
                return Reject(row=row, code="not-utf8", why=f"byte {error.start} is not UTF-8 ({error.reason})")
        return None


def _null_fault(row: int, *, fits: bool) -> Reject | None:
    return None if fits else Reject(row=row, code="null-value", why="the record has no value")
