"""Values as they are: one column ``value``, as bytes or as text."""

from __future__ import annotations

from array import array

import pyarrow as pa
import pyarrow.compute as pc

from frazil.kit.errors import Refused
from frazil.schemas.arrays import BinaryColumn, bytes_of, column_of, long_array
from frazil.schemas.evolve import evolve
from frazil.schemas.port import SLICE_BYTES_MAX, Decoded, DecodeOptions, Reject, Values

_COLUMN = "value"


class RawDecoder:
    """The bytes of a value in the column ``value``; null stays null, empty stays empty.

    ``as_text``: the column is a string, and a value that is not UTF-8 is rejected; else every value fits.
    """

    def __init__(self, options: DecodeOptions, *, as_text: bool) -> None:
        if _COLUMN in options.reserved:
            raise Refused(f"the column {_COLUMN!r} of raw values has the name of a metadata column")
        self._options = options
        self._as_text = as_text
        self._schema = pa.schema([pa.field(_COLUMN, pa.string() if as_text else pa.binary())])

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
        arrays = [kept.cast(field.type) if field.name == _COLUMN else pa.nulls(len(rows), field.type) for field in whole]
        batch = pa.RecordBatch.from_arrays(arrays, schema=whole)
        return Decoded(batch=batch, rows=rows, rejects=tuple(rejects), additions=additions)

    def _all_fit(self, column: BinaryColumn, *, nulls_fit: bool) -> bool:
        """Whether every value fits, asked of the column as a whole."""
        longest = pc.max(pc.binary_length(column)).as_py() or 0
        if longest > self._options.value_bytes_max or (column.null_count and not nulls_fit):
            return False
        try:
            return not self._as_text or column.cast(pa.large_string()) is not None
        except pa.ArrowInvalid:
            return False

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
        allowed = (pa.string(), pa.large_string()) if self._as_text else (pa.binary(), pa.large_binary())
        for field in target:
            if field.name == _COLUMN and field.type not in allowed:
                raise Refused(f"column {_COLUMN}: {field.type} cannot take raw values, it must be {wanted}")
            if field.name != _COLUMN and not field.nullable:
                raise Refused(f"column {field.name}: not null, but raw values fill only the column {_COLUMN!r}")
        return None if _COLUMN in target.names else self._schema

    def _fault(self, row: int, value: bytes) -> Reject | None:
        """Why a value cannot land, if so."""
        if len(value) > self._options.value_bytes_max:
            return Reject(row=row, code="too-large", why=f"{len(value)} bytes, more than {self._options.value_bytes_max}")
        if self._as_text:
            try:
                value.decode()
            except UnicodeDecodeError as error:
                return Reject(row=row, code="not-utf8", why=f"byte {error.start} is not UTF-8 ({error.reason})")
        return None


def _null_fault(row: int, *, fits: bool) -> Reject | None:
    return None if fits else Reject(row=row, code="null-value", why="the record has no value")
