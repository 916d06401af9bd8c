"""The decoder of ``written`` with the native kernel: the same answers, at the speed of the memory they are made in.

Theory of operation. The kernel reads every record whose type has a program and that is plainly good; the twin decides the others,
one by one. Which columns a slice adds is decided before: by the writers that occur, in the order of their first readable record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import pyarrow as pa

from frazil.kit.errors import Refused
from frazil.schemas.arrays import BinaryColumn, batch_of, bytes_of, column_of, join_batches
from frazil.schemas.avro.view import landing_view
from frazil.schemas.avro.written import Compile, Work, Writer, WrittenDecoder
from frazil.schemas.growth import difference
from frazil.schemas.merge import Numbers, merged
from frazil.schemas.port import SLICE_BYTES_MAX, Decoded, DecodeOptions, Values
from frazil.schemas.shape import member_of
from frazil.schemas.unfit import Unfit

_HEADS_MAX: Final = 1000
UNSURE_PARTS: Final = 4
"""Putting rows between rows has its price: above it the twin reads the whole slice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A beginning that values have: the row of the first of them, and the type it names."""

    head: bytes
    row: int
    writer: Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compiled:
    """The programs of some writers for some columns."""

    schema: pa.Schema
    keys: frozenset[tuple[int, ...]]
    numbers: Mapping[tuple[int, ...], int]
    plan: Any


class NativeWrittenDecoder(WrittenDecoder):
    """See WrittenDecoder."""

    def __init__(
        self,
        declared: pa.Schema | None,
        options: DecodeOptions,
        kind: str,
        build: Compile,
        kernel: ModuleType,
        *,
        unsure_parts: int = UNSURE_PARTS,
    ) -> None:
        """``unsure_parts``: when more than one record in so many is not plain, the twin reads the slice."""
        super().__init__(declared, options, kind, build)
        self._kernel = kernel
        self._indexed = kind == "PROTOBUF"
        self._unsure_parts = unsure_parts
        self._numbers = Numbers()
        self._compiled: _Compiled | None = None
        self._quiet: set[tuple[int, ...]] = set()
        self._quiet_for = pa.schema([])
        self.plain_rows = 0
        """Rows of the last slice that the kernel made without the twin."""

    def decode(self, values: Values, schema: pa.Schema | None = None) -> Decoded:
        """See Decoder. ``learn`` must have been told every id that occurs."""
        column = column_of(values)
        if bytes_of(column) > SLICE_BYTES_MAX:
            raise Refused(f"a slice of more than {SLICE_BYTES_MAX} bytes; decode it in parts")
        self.plain_rows = 0
        heads = self._kernel.find_heads(column, self._indexed, _HEADS_MAX)
        if len(heads) > _HEADS_MAX:
            return super().decode(column, schema)
        self._grows = schema is None or self._options.policy.unknown == "add"
        target = self._target(schema)
        seen = self._seen(heads)
        grown = self._grown(target, seen, column)
        try:
            compiled = self._compiled_for(grown, seen)
            batch, unsure = self._lay(compiled, seen, column)
        except (ValueError, pa.ArrowInvalid):  # columns the kernel has no plan for, or deeper than Arrow's C interface carries
            return super().decode(column, schema)
        if len(unsure) * self._unsure_parts > len(column):
            return super().decode(column, schema)
        self.plain_rows = batch.num_rows
        work = self._settle(column, unsure, grown)
        refused = sorted(reject.row for reject in work.rejects)
        return Decoded(
            batch=_joined(batch, work, grown, unsure),
            rows=self._numbers.others(refused, len(column)),
            rejects=tuple(sorted(work.rejects, key=lambda reject: reject.row)),
            additions=difference(target, grown),
        )

    def _seen(self, heads: Sequence[tuple[bytes, int]]) -> list[_Seen]:
        """The heads that name a type."""
        seen = []
        for head, row in heads:
            try:
                writer, _ = self._choose(head)
            except Unfit:
                continue
            seen.append(_Seen(head=head, row=row, writer=writer))
        return seen

    def _grown(self, target: pa.Schema, seen: Sequence[_Seen], column: BinaryColumn) -> pa.Schema:
        """The columns with what the slice adds. Nothing is read when no writer adds anything, as nearly always."""
        if self._declared is not None or not self._grows or all(self._is_quiet(target, one.writer) for one in seen):
            return target
        return self._grow(target, self._readable(seen, column))

    def _is_quiet(self, target: pa.Schema, writer: Writer) -> bool:
        """Whether a writer adds nothing to the columns."""
        if not target.equals(self._quiet_for, check_metadata=True):
            self._quiet, self._quiet_for = set(), target
        if writer.key in self._quiet:
            return True
        try:
            quiet = self._joined(target, writer).equals(target)
        except Unfit:
            return False
        if quiet:
            self._quiet.add(writer.key)
        return quiet

    def _readable(self, seen: Sequence[_Seen], column: BinaryColumn) -> dict[tuple[int, ...], Writer]:
        """The writers with a record that can be read, in the order of the first such. One pass, however many heads there are."""
        found: dict[tuple[int, ...], Writer] = {}
        pending = {one.head: one.writer for one in seen}
        begin = min(one.row for one in seen)
        while pending and begin < len(column):
            for value in column.slice(begin, self._part_rows).to_pylist():
                writer = None if value is None else self._reads(value, pending)
                if writer is not None:
                    found[writer.key] = writer
                    pending = {head: one for head, one in pending.items() if one.key != writer.key}
            begin += self._part_rows
        return found

    def _reads(self, value: bytes, pending: Mapping[bytes, Writer]) -> Writer | None:
        """The writer of a value, if it is one of ``pending`` and the value can be read."""
        if len(value) > self._options.value_bytes_max or not pending:
            return None
        try:
            _, at = self._choose(value)
            writer = pending.get(value[:at])
            if writer is not None:
                writer.read(value, at)
        except Unfit:
            return None
        return writer

    def _compiled_for(self, schema: pa.Schema, seen: Sequence[_Seen]) -> _Compiled:
        """The programs of a slice's writers; the last ones are kept. Raises ValueError for columns without plan."""
        writers = {one.writer.key: one.writer for one in seen if one.writer.key not in self._refused}
        known = self._compiled
        if known is not None and writers.keys() <= known.keys and schema.equals(known.schema, check_metadata=True):
            return known
        members = [member_of(one) for one in schema]
        index = self._options.names(schema.names)
        numbers: dict[tuple[int, ...], int] = {}
        programs: list[tuple[tuple[Any, ...], pa.Schema]] = []
        for key, writer in writers.items():
            node = landing_view(writer.node, schema, self._options)
            program = writer.program(node, members, index, strict=self._strict)
            if program is not None:
                numbers[key] = len(programs)
                programs.append((program.op, program.spares))
        plan = self._kernel.WrittenPlan(schema, programs, self._indexed)
        self._compiled = _Compiled(schema=schema, keys=frozenset(writers), numbers=numbers, plan=plan)
        return self._compiled

    def _lay(self, compiled: _Compiled, seen: Sequence[_Seen], column: BinaryColumn) -> tuple[pa.RecordBatch, list[int]]:
        """The rows that are plainly good, and the records to look at again."""
        options = self._options
        numbers = compiled.numbers
        heads = {one.head: numbers[one.writer.key] for one in seen if one.writer.key in numbers and one.writer.key not in self._refused}
        rows, unsure = compiled.plan.lay(
            column,
            heads,
            depth_max=options.depth_max,
            value_bytes_max=options.value_bytes_max,
            nulls_fit=options.null_value_rows and all(one.nullable for one in compiled.schema),
        )
        return pa.record_batch(rows).replace_schema_metadata(compiled.schema.metadata), unsure

    def _settle(self, column: BinaryColumn, unsure: Sequence[int], schema: pa.Schema) -> Work:
        """The twin's verdicts on records, in parts."""
        work = Work()
        members = [member_of(one) for one in schema]
        for begin in range(0, len(unsure), self._part_rows):
            rows = unsure[begin : begin + self._part_rows]
            part = self._read(rows, [column[row].as_py() for row in rows])
            work.take(part, self._fit(part, members), schema)
        return work


def _joined(batch: pa.RecordBatch, work: Work, schema: pa.Schema, unsure: Sequence[int]) -> pa.RecordBatch:
    """The kernel's rows with the twin's in their places."""
    if not work.kept:
        return batch
    if not len(schema):
        return batch_of([], schema, batch.num_rows + len(work.kept))
    return merged(batch, join_batches(work.batches), work.kept, unsure)
