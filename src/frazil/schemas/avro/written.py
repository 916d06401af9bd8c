"""The decoder of values that name the schema they were written with: each is read by it, then fitted to the columns.

What the bytes look like is the matter of a ``Compile``: Avro's, or Protobuf's, whose messages become the same tree.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import pyarrow as pa

from frazil.kit.errors import Bug, Refused
from frazil.schemas.arrays import batch_of, build, bytes_of, column_of, join_batches
from frazil.schemas.avro.columns import Wanted, fields_of
from frazil.schemas.avro.datum import DatumReader
from frazil.schemas.avro.fit import RowFit
from frazil.schemas.avro.program import Program
from frazil.schemas.avro.tree import Node, bad_schema
from frazil.schemas.avro.view import landing_view
from frazil.schemas.framing import MAGIC, PREFIX_BYTES, Found, Unknown, WriterSchema, id_of
from frazil.schemas.growth import count_fields, difference, join
from frazil.schemas.names import NameIndex
from frazil.schemas.policy import missing_overflow
from frazil.schemas.port import SLICE_BYTES_MAX, Decoded, DecodeOptions, Reject, Values
from frazil.schemas.shape import Member, member_of
from frazil.schemas.unfit import Unfit

_EMPTY = pa.schema([])
PART_ROWS = 16_384


class MakeProgram(Protocol):
    """How the kernel reads a type into columns (``program``); None when it cannot."""

    def __call__(self, node: Node, members: Sequence[Member], index: NameIndex, *, strict: bool) -> Program | None:
        """``node``: the type as the table sees it (``view``); ``index``: the names of ``members``; ``strict``: as for ``fit.RowFit``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """One type that values are written as. ``key`` tells it from others: the schema's id, and which of its types."""

    key: tuple[int, ...]
    node: Node
    read: DatumReader
    program: MakeProgram


Choose: TypeAlias = Callable[[bytes], tuple[Writer, int]]
"""From a value to its type and where its body begins; raises Unfit."""
Compile: TypeAlias = Callable[[int, WriterSchema, DecodeOptions], Choose]
"""Makes that of a schema, by its id; raises Unfit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    """A schema that no value can be landed by."""

    code: str
    why: str

    def verdict(self) -> Unfit:
        """A fresh exception for one record."""
        return Unfit(self.code, self.why)


@dataclass(slots=True)
class _Part:
    """Some rows of a slice on their way: raw values still alive, by row, and the verdicts so far. No writer: a record without value."""

    rows: list[int] = field(default_factory=list)
    writers: list[Writer | None] = field(default_factory=list)
    raws: list[object] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)


@dataclass(slots=True)
class Work:
    """What the parts of a slice have become. Python's values take many times the room of the bytes, so only one part is in them."""

    at: int = 0
    kept: array[int] = field(default_factory=lambda: array("q"))
    batches: list[pa.RecordBatch] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)

    def take(self, part: _Part, fitted: tuple[array[int], list[list[object]]], schema: pa.Schema) -> None:
        """Adds a part as columns."""
        kept, rows = fitted
        columns: Sequence[Sequence[object]] = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
        self.batches.append(batch_of([build(values, one.type) for values, one in zip(columns, schema, strict=True)], schema, len(rows)))
        self.kept.extend(kept)
        self.rejects.extend(part.rejects)


class WrittenDecoder:
    """See ``framing.FramedDecoder``. ``declared``: the columns, or None: they come from the writers' schemas and grow with them."""

    def __init__(
        self, declared: pa.Schema | None, options: DecodeOptions, kind: str, build: Compile, *, part_rows: int = PART_ROWS
    ) -> None:
        """``kind``: as the registry calls such schemas. ``part_rows``: so many rows are held as Python values at once."""
        self._declared = declared
        self._options = options
        self._kind = kind
        self._build = build
        self._part_rows = part_rows
        self._choices: dict[int, Choose | _Refusal] = {}
        self._refused: dict[tuple[int, ...], _Refusal] = {}
        self._grows = True

    @property
    def schema(self) -> pa.Schema | None:
        """The declared columns, or None."""
        return self._declared

    def learn(self, found: Mapping[int, Found]) -> None:
        """Takes the schemas of the next slice; what is compiled of them already is kept, as an id never changes its meaning."""
        known = {schema_id: one for schema_id, one in self._choices.items() if not isinstance(one, _Refusal)}
        self._choices = {schema_id: known.get(schema_id) or self._compile(schema_id, one) for schema_id, one in found.items()}
        self._refused.clear()

    def preview(self, schema_id: int, schema: pa.Schema) -> pa.Schema:
        """See ``framing.FramedDecoder``. Of a Protobuf file it is the first message that counts."""
        frame = bytes((MAGIC,)) + schema_id.to_bytes(PREFIX_BYTES - 1) + b"\0"
        writer, _ = self._choose(frame)
        grown = self._grow(schema, {writer.key: writer})
        self._row_fit(writer, [member_of(one) for one in grown])
        return grown

    def decode(self, values: Values, schema: pa.Schema | None = None) -> Decoded:
        """See Decoder. ``learn`` must have been told every id that occurs."""
        column = column_of(values)
        if bytes_of(column) > SLICE_BYTES_MAX:
            raise Refused(f"a slice of more than {SLICE_BYTES_MAX} bytes; decode it in parts")
        self._grows = schema is None or self._options.policy.unknown == "add"
        target = grown = self._target(schema)
        work = Work()
        while work.at < len(column) or not work.batches:
            rows = range(work.at, min(work.at + self._part_rows, len(column)))
            part = self._read(rows, column.slice(work.at, self._part_rows).to_pylist())
            before, grown = grown, self._grow(grown, {writer.key: writer for writer in part.writers if writer is not None})
            if work.batches and not grown.equals(before):
                work = Work()  # again from the start, so that all parts have the same columns; a new schema within a slice is rare
                continue
            work.take(part, self._fit(part, [member_of(one) for one in grown]), grown)
            work.at += self._part_rows
        batch = join_batches(work.batches) if len(grown) else batch_of([], grown, len(work.kept))
        rejects = tuple(sorted(work.rejects, key=lambda reject: reject.row))
        known = target if schema is None and self._declared is not None else _EMPTY if schema is None else schema
        return Decoded(batch=batch, rows=work.kept, rejects=rejects, additions=difference(known, grown))

    def _target(self, schema: pa.Schema | None) -> pa.Schema:
        """The columns before a slice."""
        found = schema if schema is not None else _EMPTY if self._declared is None else self._declared
        for column in missing_overflow(found, self._options.policy.overflow):
            found = found.append(column)
        return found

    def _compile(self, schema_id: int, found: Found) -> Choose | _Refusal:
        if isinstance(found, Unknown):
            return _Refusal(code=found.code, why=found.why)
        try:
            if found.kind != self._kind:
                raise bad_schema(f"it is {found.kind}, the landing takes {self._kind}")
            return self._build(schema_id, found, self._options)
        except Unfit as verdict:
            return _Refusal(code=verdict.code, why=f"schema {schema_id}: {verdict.why}")

    def _choose(self, value: bytes) -> tuple[Writer, int]:
        schema_id = id_of(value)
        choose = self._choices.get(schema_id)
        if choose is None:
            raise Bug(f"schema {schema_id} was never learnt")
        if isinstance(choose, _Refusal):
            raise choose.verdict()
        return choose(value)

    def _read(self, rows: Sequence[int], values: Sequence[bytes | None]) -> _Part:
        """The raw value of every record that can be read; ``rows``: which records these are."""
        work = _Part()
        most = self._options.value_bytes_max
        for row, value in zip(rows, values, strict=True):
            writer, raw = None, None
            try:
                if value is not None:
                    if len(value) > most:
                        raise Unfit("too-large", f"{len(value)} bytes, more than {most}")
                    writer, body = self._choose(value)
                    raw = writer.read(value, body)
            except Unfit as verdict:
                work.rejects.append(verdict.reject(row))
                continue
            work.rows.append(row)
            work.writers.append(writer)
            work.raws.append(raw)
        return work

    def _joined(self, target: pa.Schema, writer: Writer) -> pa.Schema:
        """The columns with all that one writer adds. Raises Unfit."""
        node = landing_view(writer.node, target, self._options)
        try:
            return self._with(target, node)
        except Unfit:
            if not self._options.policy.overflow:
                raise
        index = self._options.names(target.names)
        full = False
        for one in fields_of(node):  # as many of the fields as there is room for, each whole
            if full and index.find(one[0]) is None:
                continue
            try:
                target = self._with(target, replace(node, fields=[one]))
            except Unfit:
                full = count_fields(target) > self._options.columns_max
        return target

    def _with(self, target: pa.Schema, node: Node) -> pa.Schema:
        """The columns with all that ``node`` adds. Raises Unfit."""
        most = self._options.columns_max
        grown = join(target, Wanted(most).schema(node, target, self._options.names(target.names)))
        if grown is not target and count_fields(grown) - bool(self._options.policy.overflow) > most:
            raise Unfit("too-many-columns", f"the table would have more than {most} fields")
        return grown

    def _grow(self, target: pa.Schema, writers: Mapping[tuple[int, ...], Writer]) -> pa.Schema:
        """The columns with all that ``writers`` add, in the order these were first seen. One that adds too much is refused."""
        if self._declared is not None or not self._grows:
            return target
        for key, writer in writers.items():
            try:
                target = self._joined(target, writer)
            except Unfit as verdict:
                self._refused[key] = _Refusal(code=verdict.code, why=f"schema {key[0]}: {verdict.why}")
        return target

    def _fit(self, work: _Part, members: Sequence[Member]) -> tuple[array[int], list[list[object]]]:
        """The rows that fit the columns, and which records they are."""
        fits: dict[tuple[int, ...], RowFit] = {}
        kept, rows = array("q"), list[list[object]]()
        empty: list[object] = [None] * len(members)
        nulls_fit = self._options.null_value_rows and not any(member.required for member in members)
        for row, writer, raw in zip(work.rows, work.writers, work.raws, strict=True):
            try:
                if writer is not None:
                    fit = fits.get(writer.key) or fits.setdefault(writer.key, self._row_fit(writer, members))
                    fitted = fit.row(raw)
                elif nulls_fit:
                    fitted = empty
                else:
                    raise Unfit("null-value", "the record has no value")
            except Unfit as verdict:
                work.rejects.append(verdict.reject(row))
                continue
            kept.append(row)
            rows.append(fitted)
        return kept, rows

    def _row_fit(self, writer: Writer, members: Sequence[Member]) -> RowFit:
        refusal = self._refused.get(writer.key)
        if refusal is not None:
            raise refusal.verdict()
        columns = pa.schema([pa.field(member.name, member.shape.arrow) for member in members])
        return RowFit(landing_view(writer.node, columns, self._options), members, self._options, strict=self._strict)

    @property
    def _strict(self) -> bool:
        """Whether a value without column costs its record, for it is neither asked for nor kept elsewhere."""
        policy = self._options.policy
        return policy.refuses_unknown or (self._declared is None and policy.unknown == "add" and not policy.overflow)
