"""How the kernel reads an Avro type into the columns of a table: nested tuples, made once per type and table (``native/src/written``).

Theory of operation. The program says of ``fit.RowFit`` what is plain: which field goes to which column, and read as what. Wherever
the fit would refuse, or make text, the program says ``twin``: a record that comes there is decided by the twin. A field without
column is read into a spare column that nobody keeps, because its bytes must be good all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa

from frazil.schemas.arrays import AnyField
from frazil.schemas.avro import fit
from frazil.schemas.avro.columns import Wanted, branches_of, fields_of
from frazil.schemas.avro.tree import Node
from frazil.schemas.names import NameIndex
from frazil.schemas.shape import Kind, Member, Shape, member_of
from frazil.schemas.unfit import Unfit

Op: TypeAlias = tuple[Any, ...]
TWIN: Final[Op] = ("twin",)
NULL: Final[Op] = ("null",)
OPS_MAX: Final = 20_000
_SPARES_MAX: Final = 1000
INTEGER_KINDS: Final = (Kind.INT, Kind.LONG, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """``op``: of a whole row. ``spares``: the columns for what has none."""

    op: Op
    spares: pa.Schema


class OnlyTwin(Exception):
    """No record of the type is plain, or it has more parts than a program should: the twin reads all."""


class Budget:
    """What the parts of one program share: how many there may be, and the spare columns."""

    def __init__(self) -> None:
        self._left = OPS_MAX
        self.spares: list[AnyField] = []

    def count(self) -> None:
        """One part more. Raises OnlyTwin beyond OPS_MAX."""
        self._left -= 1
        if self._left < 0:
            raise OnlyTwin

    def spare(self, node: Node) -> tuple[int, Member] | None:
        """A new spare column that takes all values of ``node``: its place and itself; None for values that can only be null."""
        try:
            schema = Wanted(_SPARES_MAX).schema(Node(kind="record", fields=[("value", node)]), pa.schema([]), NameIndex())
        except Unfit:
            raise OnlyTwin from None
        if not len(schema):
            return None
        self.spares.append(schema.field(0).with_name(f"spare{len(self.spares)}"))
        return -len(self.spares), member_of(self.spares[-1])


def avro_program(node: Node, members: Sequence[Member], index: NameIndex, *, strict: bool) -> Program | None:
    """The program of a type, as the table sees it, for columns; the rest as for ``fit.RowFit``. None when every record is the twin's."""
    compiler = _Compiler(strict=strict)
    above = (id(node.origin or node),) if node.kind == "record" else ()
    try:
        op = compiler.record(fields_of(node), members, index, above)
    except (OnlyTwin, RecursionError):
        return None
    return None if op is TWIN else Program(op=op, spares=pa.schema(compiler.budget.spares))


class _Compiler:
    def __init__(self, *, strict: bool) -> None:
        self.budget = Budget()
        self._strict = strict

    def record(self, fields: Iterable[tuple[str, Node]], members: Sequence[Member], index: NameIndex, above: tuple[int, ...]) -> Op:
        """A struct of columns. ``above``: the records that this one is within; one within itself is the twin's."""
        self.budget.count()
        placed: list[tuple[int | None, Op]] = []
        taken: set[int] = set()
        for name, node in fields:
            at = index.find(name)
            if at is None:
                placed.append(self._homeless(node, above))
            elif at in taken:
                return TWIN
            else:
                taken.add(at)
                placed.append((at, self._member(node, members[at], above)))
        absent = [at for at in range(len(members)) if at not in taken]
        if any(members[at].required for at in absent):
            return TWIN
        return ("record", placed, absent)

    def _homeless(self, node: Node, above: tuple[int, ...]) -> tuple[int | None, Op]:
        if self._strict and node.kind == "union":
            nulls = [number for number, branch in enumerate(node.inner) if branch.kind == "null"]
            return None, ("only-branch", nulls[0]) if nulls else TWIN
        if node.kind == "null":
            return None, NULL
        spare = None if self._strict else self.budget.spare(node)
        if spare is None:
            return None, TWIN
        return spare[0], self._member(node, spare[1], above)

    def _member(self, node: Node, member: Member, above: tuple[int, ...]) -> Op:
        null = TWIN if member.required else NULL
        if node.kind == "null":
            return null
        if node.kind == "union":
            return self._union(node, member.shape, null, above)
        return self._value(node, member.shape, above)

    def _union(self, node: Node, shape: Shape, null: Op, above: tuple[int, ...]) -> Op:
        self.budget.count()
        names = branches_of(node)
        apart = len(names) > 1 and shape.kind is Kind.STRUCT
        ops: list[Op] = []
        for number, branch in enumerate(node.inner):
            if number not in names:
                ops.append(null)
            elif apart:
                ops.append(self._branch(names[number], branch, shape, above))
            else:
                ops.append(self._value(branch, shape, above))
        return ("union", ops)

    def _branch(self, name: str, node: Node, shape: Shape, above: tuple[int, ...]) -> Op:
        """A value in the struct field that is called like its type."""
        index = NameIndex([member.name for member in shape.members])
        return TWIN if index.find(name) is None else self.record([(name, node)], shape.members, index, above)

    def _value(self, node: Node, shape: Shape, above: tuple[int, ...]) -> Op:
        """As ``fit.build_fit``, of what is no union."""
        self.budget.count()
        match shape.kind:
            case Kind.STRUCT if node.kind != "record":
                return self._branch(node.branch, node, shape, above)
            case Kind.STRUCT if id(node.origin or node) not in above:
                index = NameIndex([member.name for member in shape.members])
                return self.record(node.fields, shape.members, index, (*above, id(node.origin or node)))
            case Kind.LIST if node.kind == "array":
                return ("array", self._member(node.inner[0], shape.members[0], above))
            case Kind.MAP if node.kind == "map":
                return ("map", self._member(node.inner[0], shape.members[0], above))
            case _:
                return TWIN if node.kind in ("record", "array", "map") else _scalar(node, shape)


def _scalar(node: Node, shape: Shape) -> Op:
    """As ``fit.scalar``: what it makes of a value in one step."""
    narrow = node.kind == "int"
    if node.logical:
        return _logical(node, shape, narrow=narrow)
    match node.kind, shape.kind:
        case ("int" | "long", kind) if kind in INTEGER_KINDS:
            return ("integer", narrow)
        case "fixed", Kind.BINARY | Kind.FIXED if fit.scalar(node, shape) is not None:
            return ("fixed", node.size)
        case "enum", Kind.STRING:
            return ("enum", list(enumerate(node.symbols)))
        case ("boolean", Kind.BOOLEAN) | ("bytes", Kind.BINARY) | ("string", Kind.STRING):
            return (node.kind,)
        case "float" | "double", Kind.FLOAT | Kind.DOUBLE if fit.scalar(node, shape) is not None:
            return (node.kind,)
        case _:
            return TWIN


def _logical(node: Node, shape: Shape, *, narrow: bool) -> Op:
    logical = node.logical
    if fit.scalar(node, shape) is None:
        return TWIN
    match shape.kind:
        case Kind.LONG if logical.endswith("-nanos"):
            return ("integer", narrow)
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return ("micros", (narrow, *fit.PER_MICRO[logical.rpartition("-")[2]], *fit.MICROS))
        case Kind.TIME:
            return ("micros", (narrow, *fit.PER_MICRO[logical.rpartition("-")[2]], *fit.DAY_MICROS))
        case Kind.DATE:
            return ("date",)
        case Kind.DECIMAL if logical == "decimal":
            return ("decimal", node.size if node.kind == "fixed" else None, node.scale)
        case Kind.UUID:
            return ("fixed", node.size) if node.kind == "fixed" else ("uuid",)
        case Kind.STRING if logical == "uuid" and node.kind == "string":
            return ("string",)
        case _:
            return TWIN
