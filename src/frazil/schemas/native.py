"""The JSON decoder with the native kernel: the answers of ``json.JsonDecoder``, at the speed of the memory they are made in.

Theory of operation. The kernel lays every record that is plainly good into columns, in one pass, and names the others. Those
others go the exact road of the twin, one by one: it alone makes rejects, it alone knows rare forms and new fields. So there is
one truth about what a record means, and the kernel only has to be right about what it accepts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import pyarrow as pa

from frazil.kit.errors import Refused
from frazil.schemas.arrays import BinaryColumn, batch_of, build, bytes_of, column_of
from frazil.schemas.evolve import evolve
from frazil.schemas.infer import Growth
from frazil.schemas.json import SAMPLE_ROWS, Goal, JsonDecoder, Plan, goal_of
from frazil.schemas.merge import Numbers, merged
from frazil.schemas.names import NameIndex, NameTables
from frazil.schemas.parse import Document, read_exact
from frazil.schemas.port import SLICE_BYTES_MAX, Decoded, DecodeOptions, Reject, Values
from frazil.schemas.shape import Kind, Member, member_of
from frazil.schemas.unfit import Unfit


class Roads:
    """A schema compiled for both: ``plan`` is the exact road, ``lay`` the kernel's.

    Raises ValueError for a schema the kernel has no plan for; the twin takes such a one.
    """

    def __init__(self, plan: Plan, options: DecodeOptions, kernel: ModuleType) -> None:
        self.plan = plan
        self._options = options
        self._nulls_fit = options.null_value_rows and not plan.has_required
        stems = plan.index.stems
        if not all(stem.isascii() for stem in stems):
            raise ValueError("a reserved name beyond ASCII")
        members = [member_of(column) for column in plan.schema]
        self._native: Any = kernel.JsonPlan(plan.schema, [plan.index.tables(), *_names(members)], stems)

    def lay(self, column: BinaryColumn, omit: Sequence[int], *, strict: bool = False) -> tuple[pa.RecordBatch, list[int]]:
        """The rows that are plainly good, and the records to look at again; those of ``omit`` (ascending) are in neither.

        ``strict``: looked at again are also a whole number written ``1.0`` and, while fields without column are watched, ``[]``
        and ``{}``: they tell no type, but they can contradict one that another record of the slice brings.
        """
        options = self._options
        rows, unsure = self._native.lay(
            column,
            list(omit),
            depth_max=options.depth_max,
            value_bytes_max=options.value_bytes_max,
            nulls_fit=self._nulls_fit,
            watch=self.plan.looks,
            strict=strict or options.policy.looks,
        )
        batch = pa.record_batch(rows)  # has all of the schema but what is said of the whole
        return batch.replace_schema_metadata(self.plan.schema.metadata), unsure


def _names(members: Sequence[Member]) -> Iterator[NameTables]:
    """The names of every struct below, outer before inner, in the order of fields."""
    for member in members:
        if member.shape.kind is Kind.STRUCT:
            yield NameIndex([inner.name for inner in member.shape.members]).tables()
        yield from _names(member.shape.members)


@dataclass(slots=True)
class _Records:
    """The records of one slice on the exact road, with the verdicts so far by row."""

    column: BinaryColumn
    options: DecodeOptions
    rejects: dict[int, Reject] = field(default_factory=dict)

    def exact(self, row: int, plan: Plan) -> Document:
        """One record. Raises Unfit."""
        value = self.column[row].as_py()
        if value is not None:
            return read_exact(value, self.options)
        if plan.has_required or not self.options.null_value_rows:
            raise Unfit("null-value", "the record has no value")
        return {}

    def see(self, growth: Growth, rows: Sequence[int], plan: Plan) -> None:
        """Shows records to ``growth``; notes those that are bad or contradict what is known."""
        for row in rows:
            try:
                seen = growth.see([(row, self.exact(row, plan))])
            except Unfit as verdict:
                seen = [verdict.reject(row)]
            self.rejects.update((reject.row, reject) for reject in seen)

    def settle(self, plan: Plan, rows: Sequence[int]) -> dict[int, list[object]]:
        """The values of those of ``rows`` that fit."""
        settled: dict[int, list[object]] = {}
        for row in rows:
            try:
                settled[row] = plan.fit.row(self.exact(row, plan))
            except Unfit as verdict:
                self.rejects[row] = verdict.reject(row)
        return settled


class NativeJsonDecoder:
    """Decodes JSON values with the kernel. ``declared``: the columns, or None to infer them.

    ``sample``: rows with news walked one by one before the rest is laid under the columns they brought.
    """

    def __init__(self, declared: pa.Schema | None, options: DecodeOptions, kernel: ModuleType, *, sample: int = SAMPLE_ROWS) -> None:
        self._declared = declared
        self._options = options
        self._kernel = kernel
        self._sample = sample
        self._numbers = Numbers()
        self._twin = JsonDecoder(declared, options)
        self._roads = self._compile(goal_of(None, declared, options))

    @property
    def schema(self) -> pa.Schema | None:
        """The declared columns, or None."""
        return self._declared

    def decode(self, values: Values, schema: pa.Schema | None = None) -> Decoded:
        """See Decoder. With the declared policy ``additions`` is always None: fields without column are left out."""
        column = column_of(values)
        if bytes_of(column) > SLICE_BYTES_MAX:
            raise Refused(f"a slice of more than {SLICE_BYTES_MAX} bytes; decode it in parts")
        goal = goal_of(schema, self._declared, self._options)
        roads = self._roads_for(goal)
        if roads is None:
            return self._twin.decode(values, schema)
        try:
            decoded = self._decode(roads, column)
            return replace(decoded, additions=goal.with_added(decoded.additions)) if goal.added else decoded
        except pa.ArrowInvalid:  # columns nested as deep as a document may be are deeper than Arrow's C interface carries
            return self._twin.decode(values, schema)

    def _decode(self, roads: Roads, column: BinaryColumn) -> Decoded:
        """The kernel's road and the exact one for what it is not sure of."""
        records = _Records(column, self._options)
        batch, unsure = roads.lay(column, ())
        additions = None
        if roads.plan.watch and unsure:
            additions = self._grow(roads, records, unsure)
            if additions is not None:
                _, all_unsure = roads.lay(column, (), strict=True)
                if all_unsure != unsure:
                    records.rejects.clear()
                    additions = self._grow(roads, records, all_unsure)
            if additions is not None:
                roads = self._roads_of(evolve(roads.plan.schema, additions), watch=False)
                batch, unsure = roads.lay(column, sorted(records.rejects))
        settled = records.settle(roads.plan, [row for row in unsure if row not in records.rejects])
        refused = sorted(records.rejects)
        return Decoded(
            batch=_merged(batch, roads.plan.schema, settled, {*unsure, *refused}),
            rows=self._numbers.others(refused, len(column)),
            rejects=tuple(records.rejects[row] for row in refused),
            additions=additions,
        )

    def _grow(self, roads: Roads, records: _Records, rows: Sequence[int]) -> pa.Schema | None:
        """Looks at ``rows`` for new fields; the twin's ``_Slice.grow``, with the kernel for what comes after the sample."""
        plan = roads.plan
        growth = Growth(plan.schema, self._options)
        records.see(growth, rows[: self._sample], plan)
        early, additions, rest = growth.widened, growth.additions(), rows[self._sample :]
        if rest and additions is not None:
            wide = self._roads_of(evolve(plan.schema, additions), watch=True)
            _, rest = wide.lay(records.column, self._numbers.others(rest, len(records.column)), strict=True)
        records.see(growth, rest, plan)
        if growth.widened != early:
            growth = Growth(plan.schema, self._options)
            records.rejects.clear()
            records.see(growth, rows, plan)
        return growth.additions()

    def _roads_for(self, goal: Goal) -> Roads | None:
        """The roads of a schema; the last ones are kept, as a table's schema seldom changes."""
        roads = self._roads
        if roads is None or not goal.schema.equals(roads.plan.schema, check_metadata=True) or goal.watch is not roads.plan.watch:
            roads = self._roads = self._compile(goal)
        return roads

    def _compile(self, goal: Goal) -> Roads | None:
        try:
            return self._roads_of(goal.schema, watch=goal.watch)
        except ValueError:  # a type only the twin knows, as a map with large_string keys
            return None

    def _roads_of(self, schema: pa.Schema, *, watch: bool) -> Roads:
        return Roads(Plan(schema, self._options, watch=watch), self._options, self._kernel)


def _merged(batch: pa.RecordBatch, schema: pa.Schema, settled: dict[int, list[object]], unlaid: set[int]) -> pa.RecordBatch:
    """The kernel's rows with the settled ones in their places. ``unlaid``: all records that ``batch`` has no row of."""
    if not settled:
        return batch
    if not len(schema):
        return batch_of([], schema, batch.num_rows + len(settled))
    rows = sorted(settled)
    columns = [build([settled[row][number] for row in rows], column.type) for number, column in enumerate(schema)]
    extra = pa.RecordBatch.from_arrays(columns, schema=schema)
    return merged(batch, extra, rows, sorted(unlaid))
