"""Column declarations: ``id long not null``, ``price decimal(10,2)``, ``pos struct<lat: double, lon: double>``, and back.

Grammar (words in any case, blanks anywhere between):

    column  = name type ["not null"]
    type    = boolean | int | long | float | double | date | time | timestamp | timestamptz | string | uuid | binary
            | decimal(p,s) | fixed(n) | list<member> | map<string, member> | struct<name: member, …>
    member  = type ["not null"]
    name    = bare word, or anything in `backticks` or "double quotes" (a quote inside is written twice)
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence

import pyarrow as pa

from frazil.kit.errors import Refused
from frazil.schemas.arrays import AnyField, map_type
from frazil.schemas.names import why_unfit
from frazil.schemas.port import clip
from frazil.schemas.shape import Kind, Member, member_of

_SCALARS: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "string": pa.string(),
    "uuid": pa.uuid(),
    "binary": pa.binary(),
}
_TOKEN = re.compile(r"""\s*(?:(?P<quoted>`(?:[^`]|``)*`|"(?:[^"]|"")*")|(?P<mark>[<>(),:])|(?P<word>[^\s<>(),:`"]+))""")
_BARE = re.compile(r"""[^\s<>(),:`"]+""")
_PRECISION_MAX = 38
_FIXED_BYTES_MAX = 1 << 20
_DEPTH_MAX = 64


def parse_columns(ddl: Sequence[str], *, reserved: frozenset[str] = frozenset()) -> pa.Schema:
    """The schema of column declarations, one text each. ``reserved``: names no column may have (the metadata columns).

    Raises Refused, naming the column by number and the character where it went wrong.
    """
    taken = {name.lower(): "a metadata column" for name in sorted(reserved)}
    return pa.schema([_Parser(text, number).column(taken) for number, text in enumerate(ddl, start=1)])


class _Parser:
    """Reads one declaration from left to right."""

    def __init__(self, text: str, number: int) -> None:
        self._text = text
        self._number = number
        self._start = 0
        self._end = 0
        self._group = ""
        self._word = ""
        self._step()

    def column(self, taken: dict[str, str]) -> AnyField:
        """The whole declaration; ``taken`` gets its name."""
        name = self._name(taken)
        field = self._member(name, 0)
        if self._group:
            raise self._refuse(f"{self._shown()} after the end of the type")
        taken[name.lower()] = f"column {self._number}"
        return field

    def _step(self) -> None:
        """Moves to the next token; at the end the group is empty."""
        match = _TOKEN.match(self._text, self._end)
        if match is None:
            rest = self._text[self._end :]
            self._start = self._end + len(rest) - len(rest.lstrip())
            self._group, self._word = ("bad" if rest.strip() else ""), rest.strip()[:1]
            return
        self._group = match.lastgroup or ""
        self._word = match[self._group]
        self._start, self._end = match.start(self._group), match.end()

    def _refuse(self, why: str, at: int | None = None) -> Refused:
        place = (self._start if at is None else at) + 1
        return Refused(f"column {self._number} ({clip(self._text, 80)!r}), character {place}: {why}")

    def _shown(self) -> str:
        return repr(self._word) if self._group else "the end"

    def _take(self, mark: str) -> None:
        if self._group != "mark" or self._word != mark:
            raise self._refuse(f"expected {mark!r}, found {self._shown()}")
        self._step()

    def _name(self, taken: dict[str, str]) -> str:
        """A name, unlike every one in ``taken``."""
        at = self._start
        if self._group not in ("word", "quoted"):
            raise self._refuse(f"expected a name, found {self._shown()}")
        name = self._word
        if self._group == "quoted":
            name = name[1:-1].replace(name[0] * 2, name[0])
        why = why_unfit(name)
        if why is None and "." in name:
            why = f"a name cannot hold a dot; the field {name!r} of a value lands in the column {name.replace('.', '_')!r}"
        if why is None and name.lower() in taken:
            why = f"the name {name!r} is taken by {taken[name.lower()]} (names differ by more than case)"
        if why is not None:
            raise self._refuse(why, at)
        self._step()
        return name

    def _member(self, name: str, depth: int) -> AnyField:
        """A type and its ``not null``, as a field."""
        arrow = self._type(depth)
        required = self._is_word("not")
        if required:
            self._step()
            if not self._is_word("null"):
                raise self._refuse(f"expected 'null' after 'not', found {self._shown()}")
            self._step()
        return pa.field(name, arrow, nullable=not required)

    def _is_word(self, word: str) -> bool:
        return self._group == "word" and self._word.lower() == word

    def _type(self, depth: int) -> pa.DataType:
        word, at = self._word.lower(), self._start
        if self._group != "word":
            raise self._refuse(f"expected a type, found {self._shown()}")
        if depth > _DEPTH_MAX:
            raise self._refuse(f"types are nested deeper than {_DEPTH_MAX}")
        self._step()
        if word in _SCALARS:
            return _SCALARS[word]
        nested: dict[str, Callable[[int], pa.DataType]] = {"list": self._list, "map": self._map, "struct": self._struct}
        if word in nested:
            self._take("<")
            arrow = nested[word](depth + 1)
            self._take(">")
            return arrow
        if word == "decimal":
            return self._decimal()
        if word == "fixed":
            return pa.binary(self._numbers(1, (1, _FIXED_BYTES_MAX))[0])
        raise self._refuse(f"no type {clip(word, 40)!r}{_nearest(word)}", at)

    def _decimal(self) -> pa.DataType:
        at = self._start
        precision, scale = self._numbers(2, (0, _PRECISION_MAX))
        if precision < 1 or scale > precision:
            raise self._refuse(f"decimal({precision},{scale}): need 1 <= precision <= {_PRECISION_MAX} and 0 <= scale <= precision", at)
        return pa.decimal128(precision, scale)

    def _numbers(self, count: int, limits: tuple[int, int]) -> list[int]:
        """``(n)`` or ``(n,m)``, each within ``limits``."""
        low, high = limits
        numbers: list[int] = []
        self._take("(")
        while len(numbers) < count:
            if numbers:
                self._take(",")
            digits = self._word if self._group == "word" and self._word.isascii() and self._word.isdigit() else ""
            if not digits or not low <= int(digits[:9]) <= high:
                raise self._refuse(f"expected a whole number from {low} to {high}, found {self._shown()}")
            numbers.append(int(digits[:9]))
            self._step()
        self._take(")")
        return numbers

    def _list(self, depth: int) -> pa.DataType:
        return pa.list_(self._member("element", depth))

    def _map(self, depth: int) -> pa.DataType:
        if not self._is_word("string"):
            raise self._refuse(f"the key of a map is string, found {self._shown()}")
        self._step()
        self._take(",")
        return map_type(pa.string(), self._member("value", depth))

    def _struct(self, depth: int) -> pa.DataType:
        fields: list[AnyField] = []
        taken: dict[str, str] = {}
        while not fields or self._word == ",":
            if fields:
                self._take(",")
            name = self._name(taken)
            self._take(":")
            fields.append(self._member(name, depth))
            taken[name.lower()] = "another field"
        return pa.struct(fields)


def _nearest(word: str) -> str:
    """A hint at the type that was perhaps meant."""
    known = [kind.value for kind in Kind]
    near = {
        "bigint": "long",
        "integer": "int",
        "bool": "boolean",
        "varchar": "string",
        "text": "string",
        "array": "list",
        "bytes": "binary",
    }
    found = [near[word]] if word in near else difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {found[0]!r}?" if found else f"; types are {', '.join(known)}"


def describe(schema: pa.Schema) -> tuple[str, ...]:
    """The declarations that ``parse_columns`` makes this schema from. Raises Refused for a type without word."""
    return tuple(_column_text(member_of(field)) for field in schema)


def _column_text(member: Member) -> str:
    return f"{_quoted(member.name)} {_member_text(member)}"


def _quoted(name: str) -> str:
    return name if _BARE.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def _member_text(member: Member) -> str:
    return _type_text(member) + (" not null" if member.required else "")


def _type_text(member: Member) -> str:
    shape, arrow = member.shape, member.shape.arrow
    inner = shape.members
    if isinstance(arrow, pa.Decimal128Type):
        return f"decimal({arrow.precision},{arrow.scale})"
    match shape.kind:
        case Kind.FIXED:
            return f"fixed({arrow.byte_width})"
        case Kind.LIST:
            return f"list<{_member_text(inner[0])}>"
        case Kind.MAP:
            return f"map<string, {_member_text(inner[0])}>"
        case Kind.STRUCT:
            return f"struct<{', '.join(f'{_quoted(field.name)}: {_member_text(field)}' for field in inner)}>"
        case _:
            return str(shape.kind.value)
