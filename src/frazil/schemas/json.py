"""JSON objects to typed columns (docs/json-semantics.md), in Python. With the native kernel (``native``) the answers are the same.

Theory of operation. Every record is parsed once on the quick road; columns are made at once by lanes. Records that are
unusual anywhere are decided one by one on the exact road, which alone makes rejects. With the inferred policy, records with
news are first seen by ``infer.Growth``; then all records are laid again under the grown schema.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter

import pyarrow as pa

from frazil.kit.errors import Refused
from frazil.schemas.arrays import AnyField, batch_of
from frazil.schemas.evolve import evolve
from frazil.schemas.fit import StructFit, build_fit
from frazil.schemas.infer import Growth
from frazil.schemas.lanes import Laid, array_of, build_lane, settle
from frazil.schemas.names import NameIndex
from frazil.schemas.parse import Document, quick_reader, read_exact
from frazil.schemas.policy import missing_overflow
from frazil.schemas.port import SLICE_BYTES_MAX, Decoded, DecodeOptions, Reject, Values
from frazil.schemas.rest import Rest
from frazil.schemas.shape import Kind, Member, Shape, member_of
from frazil.schemas.unfit import Unfit

EMPTY = pa.schema([])
SAMPLE_ROWS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The columns a slice is decoded for, and whether it may bring new ones. ``added``: those that the policy itself brings."""

    schema: pa.Schema
    watch: bool
    added: tuple[AnyField, ...] = ()

    def with_added(self, additions: pa.Schema | None) -> pa.Schema | None:
        """What a slice brought beside, as in ``Decoded.additions``."""
        return pa.schema([*self.added, *(additions or ())]) if self.added else additions


def goal_of(schema: pa.Schema | None, declared: pa.Schema | None, options: DecodeOptions) -> Goal:
    """``schema``: the columns a table has, None: no table yet; ``declared``: those it is to have, None: those that are found."""
    base = schema if schema is not None else EMPTY if declared is None else declared
    added = missing_overflow(base, options.policy.overflow)
    watch = declared is None and (schema is None or options.policy.unknown == "add")
    for column in added:
        base = base.append(column)
    return Goal(schema=base, watch=watch, added=added)


def _rest(members: Sequence[Member], index: NameIndex, options: DecodeOptions) -> tuple[int, Rest] | None:
    """The column that takes what has no other, and how."""
    name = options.policy.overflow.lower()
    if not name:
        return None
    position = next(at for at, member in enumerate(members) if member.name.lower() == name)
    return position, Rest(members, index, options.policy, partial(build_fit, watch=False, policy=options.policy))


class Plan:
    """What is compiled once per schema. ``watch``: treat fields without column as unusual (inferred policy, first look).

    ``looks``: they are unusual anyway, as no one is left out.
    """

    def __init__(self, schema: pa.Schema, options: DecodeOptions, *, watch: bool) -> None:
        members = [member_of(column) for column in schema]
        names = [member.name for member in members]
        for name in names:
            if name.lower() in {word.lower() for word in options.reserved}:
                raise Refused(f"column {name}: the name belongs to a metadata column; give the column another name")
        self.schema = schema
        self.watch = watch
        self.looks = watch or options.policy.looks
        self.has_required = any(member.required for member in members)
        self.keep_text = any(_has_decimal(member.shape) for member in members)
        self.index = options.names(names)
        self.fit = StructFit(members, self.index, watch=False, policy=options.policy, rest=_rest(members, self.index, options))
        self._sources = tuple(self.index.sources)
        self._lanes = [build_lane(member, build_fit(member.shape, watch=self.looks)) for member in members]
        self._pick = _picker(self._sources)

    def lay(self, documents: Sequence[Document], *, quick: bool) -> tuple[list[Laid], list[int]]:
        """All columns, and the positions that must go the exact road (without ``quick``: all)."""
        if not quick:
            everything = range(len(documents))
            return [Laid(values=[None] * len(documents), bad=everything) for _ in self._lanes], list(everything)
        raw, bad = self._pick_all(documents)
        laid = [lane(column) for lane, column in zip(self._lanes, raw, strict=True)]
        for column in laid:
            bad.update(column.bad)
        return laid, sorted(bad)

    def _pick_all(self, documents: Sequence[Document]) -> tuple[Sequence[Sequence[object]], set[int]]:
        """The raw values column by column, and positions with fields that need a closer look."""
        sources = self._sources
        pick, width, known = self._pick, len(sources), frozenset(sources)
        picked: list[tuple[object, ...]] = []
        bad: set[int] = set()
        harmless: set[str] = set()
        for document in documents:
            try:
                picked.append(pick(document))
                plain = len(document) == width
            except KeyError:
                picked.append(tuple(map(document.get, sources)))
                plain = document.keys() <= known
            if not plain and not self._is_harmless(document, document.keys() - known, harmless):
                bad.add(len(picked) - 1)
        return (list(zip(*picked, strict=True)) if picked else [()] * width), bad

    def _is_harmless(self, document: Document, extras: set[str], harmless: set[str]) -> bool:
        """Whether fields without a column of their exact name can be left out. ``harmless``: names already looked up."""
        if not extras <= harmless:
            if any(self.index.find(key) is not None for key in extras):
                return False
            harmless.update(extras)
        return not self.looks or all(document[key] is None for key in extras)


@dataclass(slots=True)
class _Slice:
    """One slice on its way: the records still alive, by row, and the verdicts so far."""

    values: Sequence[bytes | None]
    options: DecodeOptions
    rows: list[int] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)

    def read(self, plan: Plan, *, quick: bool) -> None:
        """Parses every value. A tombstone is an object without fields, or a reject."""
        read_quick = quick_reader(self.options, keep_text=plan.keep_text)
        nulls_fit = self.options.null_value_rows and not plan.has_required
        for row, value in enumerate(self.values):
            document = read_quick(value) if quick and value is not None else None
            if document is None:
                try:
                    if value is None and not nulls_fit:
                        raise Unfit("null-value", "the record has no value")
                    document = self._exact(row)
                except Unfit as verdict:
                    self.rejects.append(verdict.reject(row))
                    continue
            self.rows.append(row)
            self.documents.append(document)

    def _exact(self, row: int) -> Document:
        """A record on the exact road. Raises Unfit."""
        value = self.values[row]
        return {} if value is None else read_exact(value, self.options)

    def grow(self, plan: Plan, rows: Sequence[int], sample: int) -> pa.Schema | None:
        """Looks at ``rows`` for new fields; drops those that contradict what is known; returns what is new.

        The first ``sample`` rows are walked one by one. The rest is laid under the columns they brought, and only what is
        unusual there is walked. A record that fits brings nothing, but one thing it may forbid: a new long column with an
        integer that is no double must not become double. So if one became double late, all rows are walked after all.
        """
        growth = Growth(plan.schema, self.options)
        rejects = self._see(growth, rows[:sample])
        early = growth.widened
        rejects += self._see(growth, self._unusual(plan, growth.additions(), rows[sample:]))
        if growth.widened != early:
            growth = Growth(plan.schema, self.options)
            rejects = self._see(growth, rows)
        gone = {reject.row for reject in rejects}
        alive = [position for position, row in enumerate(self.rows) if row not in gone]
        self.rejects.extend(rejects)
        self.documents = [self.documents[position] for position in alive]
        self.rows = [self.rows[position] for position in alive]
        return growth.additions()

    def _see(self, growth: Growth, rows: Sequence[int]) -> list[Reject]:
        return growth.see([(row, self._exact(row)) for row in rows])

    def _unusual(self, plan: Plan, additions: pa.Schema | None, rows: Sequence[int]) -> list[int]:
        """Those of ``rows`` that do not simply fit the columns known so far."""
        if not rows or additions is None:
            return list(rows)
        wanted = set(rows)
        documents = [document for row, document in zip(self.rows, self.documents, strict=True) if row in wanted]
        _, unusual = Plan(evolve(plan.schema, additions), self.options, watch=True).lay(documents, quick=True)
        return [rows[position] for position in unusual]

    def finish(self, plan: Plan, laid: Sequence[Laid], unusual: Sequence[int], additions: pa.Schema | None) -> Decoded:
        """Decides the unusual records one by one and makes the batch of all that fit."""
        settled: dict[int, list[object]] = {}
        for position in unusual:
            try:
                settled[position] = plan.fit.row(self._exact(self.rows[position]))
            except Unfit as verdict:
                self.rejects.append(verdict.reject(self.rows[position]))
        refused = set(unusual) - settled.keys()
        keep = [position for position in range(len(self.rows)) if position not in refused]
        columns = [settle(column, number, settled, keep) for number, column in enumerate(laid)] if unusual else laid
        arrays = [array_of(column, column_field.type) for column, column_field in zip(columns, plan.schema, strict=True)]
        return Decoded(
            batch=batch_of(arrays, plan.schema, len(keep)),
            rows=array("q", [self.rows[position] for position in keep]),
            rejects=tuple(sorted(self.rejects, key=lambda reject: reject.row)),
            additions=additions,
        )


class JsonDecoder:
    """Decodes JSON values. ``declared``: the columns, or None to infer them.

    ``quick``: False takes the exact road only. ``sample``: rows with news walked one by one before the rest is laid.
    """

    def __init__(self, declared: pa.Schema | None, options: DecodeOptions, *, quick: bool = True, sample: int = SAMPLE_ROWS) -> None:
        self._declared = declared
        self._options = options
        self._quick = quick
        self._sample = sample if quick else SLICE_BYTES_MAX
        goal = goal_of(None, declared, options)
        self._plan = Plan(goal.schema, options, watch=goal.watch)

    @property
    def schema(self) -> pa.Schema | None:
        """The declared columns, or None."""
        return self._declared

    def decode(self, values: Values, schema: pa.Schema | None = None) -> Decoded:
        """See Decoder. With the declared policy ``additions`` is always None: fields without column are left out."""
        found = values.to_pylist() if isinstance(values, pa.Array) else values
        if sum(len(value) for value in found if value is not None) > SLICE_BYTES_MAX:
            raise Refused(f"a slice of more than {SLICE_BYTES_MAX} bytes; decode it in parts")
        goal = goal_of(schema, self._declared, self._options)
        plan = self._plan_for(goal)
        work = _Slice(found, self._options)
        work.read(plan, quick=self._quick)
        laid, unusual = plan.lay(work.documents, quick=self._quick)
        additions = None
        if plan.watch and unusual:
            additions = work.grow(plan, [work.rows[position] for position in unusual], self._sample)
            grown = plan.schema if additions is None else evolve(plan.schema, additions)
            plan = Plan(grown, self._options, watch=False)
            laid, unusual = plan.lay(work.documents, quick=self._quick)
        return work.finish(plan, laid, unusual, goal.with_added(additions))

    def _plan_for(self, goal: Goal) -> Plan:
        """The plan of a schema; the last one is kept, as a table's schema seldom changes."""
        plan = self._plan
        if not goal.schema.equals(plan.schema, check_metadata=True) or goal.watch is not plan.watch:
            plan = self._plan = Plan(goal.schema, self._options, watch=goal.watch)
        return plan


def _picker(sources: Sequence[str]) -> Callable[[Document], tuple[object, ...]]:
    """Takes the fields of an object that has them all; KeyError else."""
    if len(sources) > 1:
        return itemgetter(*sources)
    if sources:
        only = sources[0]
        return lambda document: (document[only],)
    return lambda _: ()


def _has_decimal(shape: Shape) -> bool:
    return shape.kind is Kind.DECIMAL or any(_has_decimal(member.shape) for member in shape.members)
