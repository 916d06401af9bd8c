"""How the columns of a table follow its values (docs/evolution.md): the options ``evolve.…`` of a landing as one value. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from frazil.kit.errors import Refused
from frazil.schemas.arrays import AnyField, map_type
from frazil.schemas.names import why_unfit
from frazil.schemas.shape import Kind, Shape, shape_of

COLUMNS_MAX: Final = 10_000
_UNKNOWN: Final = ("add", "ignore", "deadletter")
_CONFLICT: Final = ("deadletter", "suffix")
_DIGITS_MAX: Final = 38


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """``unknown``: what a field without column is: a new column (only where columns are inferred), left out, or a reject.

    ``conflict``: what a value of another type than its column's is: a reject, or at home in the column ``{name}__{type}``.
    ``renames``: from the name that a field or column had, in lower case, to the one it has now; of the top level.
    ``overflow``: the column that takes, as JSON text, what found no column; empty: there is none.
    """

    unknown: str = "add"
    conflict: str = "deadletter"
    renames: Mapping[str, str] = field(default_factory=dict)
    overflow: str = ""

    @property
    def suffix(self) -> bool:
        """Whether values of another type get a column beside."""
        return self.conflict == "suffix"

    @property
    def refuses_unknown(self) -> bool:
        """Whether a field without column makes its record a reject."""
        return self.unknown == "deadletter"

    @property
    def looks(self) -> bool:
        """Whether a field without column matters, although no column is to be added for it."""
        return self.refuses_unknown or bool(self.overflow)


PLAIN: Final = Policy()


def parse_policy(options: Mapping[str, str], *, declared: bool, by_values: bool) -> Policy:
    """The policy of a landing's options. ``declared``: its columns are; ``by_values``: its values have fields. Raises Refused."""
    given = {name: value for name, value in options.items() if name.startswith("evolve.")}
    if given and not by_values:
        raise Refused(f"{', '.join(given)}: values of this kind have the one column 'value', which never changes")
    unknown = _word(given, "evolve.unknown", _UNKNOWN, "ignore" if declared else "add")
    conflict = _word(given, "evolve.conflict", _CONFLICT, "deadletter")
    overflow = given.get("evolve.overflow", "")
    if declared and unknown == "add":
        raise Refused("evolve.unknown=add: the columns are declared, so none is added; leave the columns out or choose another word")
    if conflict == "suffix" and (declared or unknown != "add"):
        raise Refused("evolve.conflict=suffix adds columns; it needs columns that are not declared, and evolve.unknown=add")
    if overflow and unknown == "deadletter":
        raise Refused("evolve.overflow takes what has no column, evolve.unknown=deadletter rejects it; choose one of them")
    if "evolve.overflow" in given and (why := why_unfit(overflow)):
        raise Refused(f"evolve.overflow={overflow!r}: {why}")
    if "." in overflow:
        raise Refused(f"evolve.overflow={overflow!r}: a name cannot hold a dot")
    renames = parse_renames(given.get("evolve.rename", ""))
    if overflow.lower() in {*renames, *(name.lower() for name in renames.values())}:
        raise Refused(f"evolve.overflow={overflow!r} is in evolve.rename too")
    columns_max(options)
    return Policy(unknown=unknown, conflict=conflict, renames=renames, overflow=overflow)


def columns_max(options: Mapping[str, str]) -> int:
    """The option ``evolve.columns_max``: fields of the whole table, nested ones counted. Raises Refused."""
    text = options.get("evolve.columns_max", "1000")
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= COLUMNS_MAX):
        raise Refused(f"evolve.columns_max={text[:40]!r}: a whole number from 1 to {COLUMNS_MAX}")
    return int(text)


def parse_renames(text: str) -> Mapping[str, str]:
    """``old:new, …`` as in ``Policy.renames``. A new name may not be an old one: say where a column ends up. Raises Refused."""
    renames: dict[str, str] = {}
    for part in text.split(",") if text.strip() else ():
        old, mark, new = (piece.strip() for piece in part.partition(":"))
        if not mark or not old or not new:
            raise Refused(f"evolve.rename: {part.strip()!r} is not old:new")
        if (why := why_unfit(new)) or "." in new:
            raise Refused(f"evolve.rename: {new!r}: {why or 'a name cannot hold a dot; only columns of the top level can be renamed'}")
        if old.lower() in renames:
            raise Refused(f"evolve.rename: {old!r} is renamed twice")
        renames[old.replace(".", "_").lower()] = new
    chained = [new for new in renames.values() if new.lower() in renames]
    if chained:
        raise Refused(f"evolve.rename: {chained[0]!r} is an old name and a new one; write for each old name where it ends up")
    return renames


def _word(given: Mapping[str, str], name: str, allowed: tuple[str, ...], default: str) -> str:
    value = given.get(name, default)
    if value not in allowed:
        raise Refused(f"{name}={value!r}: use one of {', '.join(allowed)}")
    return value


# --- columns beside ----------------------------------------------------------------------------------------------------


def beside(column: str, word: str) -> str:
    """The name of the column that takes a column's values of another type."""
    return f"{column}__{word}"


def family(shape: Shape) -> str:
    """The word for a type in the name of a column beside: one for all types that widen into each other."""
    match shape.kind:
        case Kind.INT | Kind.LONG:
            return "long"
        case Kind.FLOAT | Kind.DOUBLE:
            return "double"
        case Kind.LIST | Kind.MAP:
            return f"{shape.kind.value}_{family(shape.members[0].shape)}"
        case Kind.DECIMAL if isinstance(shape.arrow, pa.Decimal128Type):
            return f"decimal_{shape.arrow.scale}"
        case Kind.FIXED if isinstance(shape.arrow, pa.FixedSizeBinaryType):
            return f"fixed_{shape.arrow.byte_width}"
        case _:
            return str(shape.kind.value)


def widest(arrow: pa.DataType) -> pa.DataType:
    """The type that a column beside has: the widest of its family, so that it never has to change."""
    if arrow == pa.int32():
        return pa.int64()
    if arrow == pa.float32():
        return pa.float64()
    if isinstance(arrow, pa.Decimal128Type):
        return pa.decimal128(_DIGITS_MAX, arrow.scale)
    if isinstance(arrow, (pa.ListType, pa.LargeListType)):
        return pa.list_(_wider(arrow.value_field))
    if isinstance(arrow, pa.MapType):
        return map_type(pa.string(), _wider(arrow.item_field))
    return arrow


def _wider(one: AnyField) -> AnyField:
    return one.with_type(widest(one.type))


def family_of(arrow: pa.DataType, where: str) -> str:
    """``family`` of an Arrow type."""
    return family(shape_of(arrow, where))


def missing_overflow(schema: pa.Schema, overflow: str) -> tuple[AnyField, ...]:
    """The column for what has no other, unless ``schema`` has it. Raises Refused when it is no text there."""
    for column in schema:
        if overflow and column.name.lower() == overflow.lower():
            if shape_of(column.type, column.name).kind is not Kind.STRING:
                raise Refused(f"column {column.name}: {column.type} cannot take JSON text; choose another name for evolve.overflow")
            return ()
    return (pa.field(overflow, pa.string()),) if overflow else ()
