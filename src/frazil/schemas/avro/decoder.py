"""The decoder of Avro values that name their schema. Each record is read by the schema it was written with, then fitted to the columns."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from frazil.kit.errors import Bug, Refused
from frazil.schemas.arrays import batch_of, build, bytes_of, column_of
from frazil.schemas.avro.columns import Wanted
from frazil.schemas.avro.datum import DatumReader, datum_reader
from frazil.schemas.avro.fit import RowFit
from frazil.schemas.avro.tree import Node, bad_schema, parse
from frazil.schemas.framing import PREFIX_BYTES, Found, Unknown, id_of
from frazil.schemas.growth import count_fields, difference, join
from frazil.schemas.port import SLICE_BYTES_MAX, Decoded, DecodeOptions, Reject, Values
from frazil.schemas.shape import Member, member_of
from frazil.schemas.unfit import Unfit

_EMPTY = pa.schema([])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writer:
    """A schema that values were written with, compiled."""

    node: Node
    read: DatumReader


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    """A schema that no value can be landed by."""

    code: str
    why: str

    def verdict(self) -> Unfit:
        """A fresh exception for one record."""
        return Unfit(self.code, self.why)


@dataclass(slots=True)
class _Slice:
    """One slice on its way: raw values still alive, by row, and the verdicts so far. Schema id -1: a record without value."""

    rows: list[int] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    raws: list[object] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)


_NO_VALUE = -1


class AvroDecoder:
    """See ``framing.FramedDecoder``. ``declared``: the columns, or None: they come from the writers' schemas and grow with them."""

    def __init__(self, declared: pa.Schema | None, options: DecodeOptions) -> None:
        self._declared = declared
        self._options = options
        self._writers: dict[int, _Writer | _Refusal] = {}

    @property
    def schema(self) -> pa.Schema | None:
        """The declared columns, or None."""
        return self._declared

    def learn(self, found: Mapping[int, Found]) -> None:
        """Takes the schemas of the next slice; what is compiled of them already is kept, as an id never changes its meaning."""
        known = {schema_id: writer for schema_id, writer in self._writers.items() if isinstance(writer, _Writer)}
        self._writers = {schema_id: known.get(schema_id) or self._compile(schema_id, one) for schema_id, one in found.items()}

    def decode(self, values: Values, schema: pa.Schema | None = None) -> Decoded:
        """See Decoder. ``learn`` must have been told every id that occurs."""
        column = column_of(values)
        if bytes_of(column) > SLICE_BYTES_MAX:
            raise Refused(f"a slice of more than {SLICE_BYTES_MAX} bytes; decode it in parts")
        target = schema if schema is not None else _EMPTY if self._declared is None else self._declared
        work = self._read(column.to_pylist())
        grown = target if self._declared is not None else self._grow(target, dict.fromkeys(work.ids))
        members = [member_of(one) for one in grown]
        kept, rows = self._fit(work, members)
        columns: Sequence[Sequence[object]] = list(zip(*rows, strict=True)) if rows else [()] * len(members)
        return Decoded(
            batch=batch_of([build(values, one.type) for values, one in zip(columns, grown, strict=True)], grown, len(rows)),
            rows=kept,
            rejects=tuple(sorted(work.rejects, key=lambda reject: reject.row)),
            additions=difference(target, grown),
        )

    def _compile(self, schema_id: int, found: Found) -> _Writer | _Refusal:
        if isinstance(found, Unknown):
            return _Refusal(code=found.code, why=found.why)
        try:
            if found.kind != "AVRO":
                raise bad_schema(f"it is {found.kind}, the landing takes Avro")
            node = parse(found.text, [text for _, text in found.references])
            return _Writer(node=node, read=datum_reader(node, self._options.depth_max))
        except Unfit as verdict:
            return _Refusal(code=verdict.code, why=f"schema {schema_id}: {verdict.why}")

    def _writer(self, schema_id: int) -> _Writer:
        found = self._writers.get(schema_id)
        if found is None:
            raise Bug(f"schema {schema_id} was never learnt")
        if isinstance(found, _Refusal):
            raise found.verdict()
        return found

    def _read(self, values: Sequence[bytes | None]) -> _Slice:
        """The raw value of every record that can be read."""
        work = _Slice()
        most = self._options.value_bytes_max
        for row, value in enumerate(values):
            schema_id, raw = _NO_VALUE, None
            try:
                if value is not None:
                    if len(value) > most:
                        raise Unfit("too-large", f"{len(value)} bytes, more than {most}")
                    schema_id = id_of(value)
                    raw = self._writer(schema_id).read(value, PREFIX_BYTES)
            except Unfit as verdict:
                work.rejects.append(verdict.reject(row))
                continue
            work.rows.append(row)
            work.ids.append(schema_id)
            work.raws.append(raw)
        return work

    def _grow(self, target: pa.Schema, ids: Mapping[int, None]) -> pa.Schema:
        """The columns with all that the schemas in ``ids`` add, in the order these were first seen. One that adds too much is refused."""
        options = self._options
        for schema_id in ids:
            if schema_id == _NO_VALUE:
                continue
            try:
                grown = join(target, Wanted(options.columns_max).schema(self._writer(schema_id).node, target, options.reserved))
                if grown is not target and count_fields(grown) > options.columns_max:
                    raise Unfit("too-many-columns", f"the table would have more than {options.columns_max} fields")
                target = grown
            except Unfit as verdict:
                self._writers[schema_id] = _Refusal(code=verdict.code, why=f"schema {schema_id}: {verdict.why}")
        return target

    def _fit(self, work: _Slice, members: Sequence[Member]) -> tuple[array[int], list[list[object]]]:
        """The rows that fit the columns, and which records they are."""
        fits: dict[int, RowFit] = {}
        kept, rows = array("q"), list[list[object]]()
        empty: list[object] = [None] * len(members)
        nulls_fit = self._options.null_value_rows and not any(member.required for member in members)
        strict = self._declared is None
        for row, schema_id, raw in zip(work.rows, work.ids, work.raws, strict=True):
            try:
                if schema_id == _NO_VALUE:
                    if not nulls_fit:
                        raise Unfit("null-value", "the record has no value")
                    fitted = empty
                else:
                    fit = fits.get(schema_id)
                    if fit is None:
                        writer = self._writer(schema_id)
                        fit = fits[schema_id] = RowFit(writer.node, members, self._options.reserved, strict=strict)
                    fitted = fit.row(raw)
            except Unfit as verdict:
                work.rejects.append(verdict.reject(row))
                continue
            kept.append(row)
            rows.append(fitted)
        return kept, rows
