"""What tells a route where each record goes: one text per record, from a field, a header or its type. Pure, for the offload.

A field is read by the decoder of the landing's values with one declared column, so a route takes a value for broken when its tables
would. Text is taken as it is, whole numbers and true and false as JSON writes them.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from frazil.landing.columns import long_array
from frazil.landing.decode import Rows
from frazil.landing.routing import FIELD, HEADER, Route
from frazil.schemas import DecodeOptions, Decoder, Reject, decoder_for
from frazil.schemas.framing import Found, FramedDecoder
from frazil.schemas.typenames import TypeNames

NO_TEXT: Final = "route-value"
_OTHER_TYPE: Final = frozenset({"wrong-type", "bad-text", "out-of-range", "not-exact", "zone", "required", "type-conflict"})
"""Codes that say: it is there, but it is no such thing."""
_SAMPLE_ROWS: Final = 32
_TYPES: Final = (pa.string(), pa.int64(), pa.bool_())
_compute: Any = pc


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """``texts``: one per record, null for none. ``rejects``: records that nobody can place; they have no text."""

    texts: Any
    """An Arrow array of strings."""
    rejects: tuple[Reject, ...] = ()


class ValueReader(Protocol):
    """Reads the texts of a slice."""

    @property
    def asks_registry(self) -> bool:
        """Whether ``learn`` must be told the schemas that a slice's values name."""
        ...

    def learn(self, found: Mapping[int, Found]) -> None:
        """Takes the registry's answers for a slice."""
        ...

    def read(self, rows: Rows) -> Texts:
        """The texts of all records."""
        ...


def reader_of(route: Route, kind: str, options: DecodeOptions) -> ValueReader:
    """The reader of a route over values of ``kind``."""
    if route.by == HEADER:
        return HeaderReader(route.name)
    if route.by == FIELD:
        return FieldReader(route.name, kind, options)
    return TypeReader(kind)


class HeaderReader:
    """The last header of the name, as consumers' ``lastHeader``; it must be UTF-8."""

    asks_registry = False

    def __init__(self, name: str) -> None:
        self._name = name

    def learn(self, found: Mapping[int, Found]) -> None:
        """Nothing to learn."""

    def read(self, rows: Rows) -> Texts:
        """See ``ValueReader``."""
        headers: Any = rows.records.column("headers")
        items = headers.flatten()
        hit = _compute.indices_nonzero(_compute.fill_null(_compute.equal(_compute.struct_field(items, [0]), self._name), False))  # noqa: FBT003
        at = _compute.list_parent_indices(headers).take(hit)
        found = _compute.struct_field(items, [1]).take(hit)
        if len(at) > 1:
            last = pa.concat_arrays([_compute.not_equal(at.slice(0, len(at) - 1), at.slice(1)), pa.array([True])])
            at, found = at.filter(last), found.filter(last)
        values = found.take(_compute.index_in(_numbers(len(rows)), value_set=at.cast(pa.int64())))
        try:
            return Texts(texts=values.cast(pa.string()))
        except pa.ArrowInvalid:
            return self._one_by_one(values.to_pylist())

    def _one_by_one(self, values: list[bytes | None]) -> Texts:
        texts: list[str | None] = []
        rejects = []
        for row, value in enumerate(values):
            try:
                texts.append(None if value is None else value.decode())
            except UnicodeDecodeError as error:
                texts.append(None)
                why = f"byte {error.start} of the header {self._name[:100]!r} is not UTF-8 ({error.reason})"
                rejects.append(Reject(row=row, code=NO_TEXT, why=why))
        return Texts(texts=pa.array(texts, pa.string()), rejects=tuple(rejects))


class TypeReader:
    """The name of the type that a value was written as."""

    asks_registry = True

    def __init__(self, kind: str) -> None:
        self._names = TypeNames(kind)

    def learn(self, found: Mapping[int, Found]) -> None:
        """See ``ValueReader``."""
        self._names.learn(found)

    def read(self, rows: Rows) -> Texts:
        """See ``ValueReader``."""
        values: Any = rows.records.column("value")
        found = self._names.read(values)
        return Texts(texts=found.texts, rejects=found.rejects)


class FieldReader:
    """One field at the top of each value. What is no text is tried as a number, then as true or false."""

    def __init__(self, name: str, kind: str, options: DecodeOptions) -> None:
        self._name = name
        self._decoders: list[Decoder] = [decoder_for(kind, pa.schema([pa.field(name, one)]), options) for one in _TYPES]

    @property
    def asks_registry(self) -> bool:
        """Whether values name their schemas."""
        return isinstance(self._decoders[0], FramedDecoder)

    def learn(self, found: Mapping[int, Found]) -> None:
        """See ``ValueReader``."""
        for decoder in self._decoders:
            if isinstance(decoder, FramedDecoder):
                decoder.learn(found)

    def read(self, rows: Rows) -> Texts:
        """See ``ValueReader``."""
        values: Any = rows.records.column("value")
        left: Any = None  # rows still without verdict; None: all
        again: list[Reject] = []
        parts: list[tuple[Any, Any]] = []
        final: list[Reject] = []
        for decoder in self._by_sample(values):
            decoded = decoder.decode(values if left is None else values.take(left))
            kept: Any = long_array(decoded.rows)
            texts: Any = decoded.batch.column(0)
            parts.append((kept if left is None else left.take(kept), texts.cast(pa.string())))
            rejects = decoded.rejects if left is None else [replace(one, row=left[one.row].as_py()) for one in decoded.rejects]
            again = [one for one in rejects if one.code in _OTHER_TYPE]
            final += [one for one in rejects if one.code not in _OTHER_TYPE]
            left = long_array(array("q", [one.row for one in again]))
            if not again:
                break
        final += [Reject(row=one.row, code=NO_TEXT, why=f"{one.why}; a route takes texts, whole numbers, true and false") for one in again]
        final.sort(key=lambda one: one.row)
        return Texts(texts=_gather(parts, [one.row for one in final], len(rows)), rejects=tuple(final))

    def _by_sample(self, values: Any) -> list[Decoder]:  # noqa: ANN401 - an Arrow array
        """The decoders, that of most of the first values first: what a decoder does not take costs it much."""
        sample = values.slice(0, _SAMPLE_ROWS)
        taken = [len(decoder.decode(sample).rows) for decoder in self._decoders]
        return sorted(self._decoders, key=lambda decoder: -taken[self._decoders.index(decoder)])


def _gather(parts: list[tuple[Any, Any]], without: list[int], count: int) -> Any:  # noqa: ANN401 - an Arrow array
    """The parts' texts in order of rows; null at the rows ``without``."""
    if not without and len(parts) == 1:
        return parts[0][1]
    rows = pa.concat_arrays([*(rows for rows, _ in parts), pa.array(without, pa.int64())])
    texts = pa.concat_arrays([*(texts for _, texts in parts), pa.nulls(len(without), pa.string())])
    assert len(rows) == count
    return texts.take(_compute.array_sort_indices(rows))


def _numbers(count: int) -> Any:  # noqa: ANN401 - an Arrow array
    return long_array(array("q", range(count)))
