"""Routes: one set of topics → many tables, by a field, a header or the type of each record (R07, docs/routing.md). Pure.

A landing whose option ``route`` is set has no table of its own: its name stands for the route, and ``{name}_dead`` is the route's home.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from frazil.kit.errors import Refused
from frazil.metadata.landings import LandingSpec, check_table, dead_table

FIELD: Final = "field"
HEADER: Final = "header"
TYPE: Final = "type"
DEADLETTER: Final = "deadletter"
TABLES_MAX: Final = 1_000
NAME_CHARACTERS_MAX: Final = 128
"""Of a table's name that comes from a value: what all catalogs take."""
OPTION: Final = "route"
DETAILS: Final = ("route.table", "route.map", "route.default", "route.tables_max")
WITH_FIELDS: Final = ("json", "json-schema", "avro", "protobuf")
WITH_TYPES: Final = ("json-schema", "avro", "protobuf")
_UNFIT: Final = re.compile(r"[^a-z0-9_]")
_HOLE: Final = "{}"

CODES: Final[Mapping[str, str]] = {
    "route-none": "the record has no such field, header or type, and there is no `route.default`",
    "route-unknown": "no table is named for the value: it is not in `route.map`, and there is neither `route.table` nor `route.default`",
    "route-value": "what should name the table is no text, whole number, true or false",
    "route-name": "no table can be named for the value: it is empty, or too long",
    "route-collision": "the value would land in a table that is named for another value; `route.map` can give it one of its own",
    "route-reserved": "the table named for the value belongs to another landing, or holds dead letters",
    "route-tables-max": "the route feeds `route.tables_max` tables already",
}
"""Codes of dead letters that a route makes, beside those of the values themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What the options of a landing say. ``by``: field, header or type; ``name``: of the field or header."""

    by: str
    name: str
    pattern: str
    """The table of a value that ``fixed`` does not have, with ``{}`` for the value; empty: there is none."""
    fixed: Mapping[str, str]
    default: str
    """The table of records without value, and of values without table; empty: they are dead letters."""
    tables_max: int

    @property
    def named_tables(self) -> frozenset[str]:
        """Tables that the options themselves name."""
        return frozenset(self.fixed.values()) | ({self.default} if self.default else frozenset())


def route_of(spec: LandingSpec) -> Route | None:
    """The route of a landing; None: it is a table's. Raises Refused with what to change."""
    options = spec.options
    text = options.get(OPTION)
    if text is None:
        lone = [name for name in DETAILS if name in options]
        if lone:
            raise Refused(f"option {lone[0]} needs the option route=field:NAME, header:NAME or type")
        return None
    by, _, name = text.partition(":")
    if by not in (FIELD, HEADER, TYPE) or bool(name) == (by == TYPE):
        raise Refused(f"route={text!r}: use field:NAME, header:NAME or type")
    if by == FIELD and spec.value not in WITH_FIELDS:
        raise Refused(f"route={text!r}: values that are {spec.value} have no fields; use header:NAME")
    if by == TYPE and spec.value not in WITH_TYPES:
        raise Refused(f"route={text!r}: values that are {spec.value} name no type; use field:NAME or header:NAME")
    if options.get("mode") == "upsert":
        raise Refused("a route and mode=upsert do not go together: a key whose value moves would leave its old row in another table (R23)")
    pattern, default = options.get("route.table", ""), options.get("route.default", DEADLETTER)
    if pattern:
        _check_pattern(pattern)
    route = Route(
        by=by,
        name=name,
        pattern=pattern,
        fixed=_fixed(options.get("route.map", "")),
        default="" if default == DEADLETTER else default,
        tables_max=_tables_max(options.get("route.tables_max", str(TABLES_MAX))),
    )
    _check_tables(spec, route)
    return route


def _check_pattern(pattern: str) -> None:
    namespace, _, name = pattern.rpartition(".")
    if pattern.count(_HOLE) != 1 or _HOLE not in name or not namespace:
        raise Refused(f"route.table={pattern!r}: write namespace.name with {_HOLE} once in the name, as lake.events_{_HOLE}")
    filled = pattern.replace(_HOLE, "x")
    _check_name("route.table", filled)
    if name.replace(_HOLE, "x") != name.replace(_HOLE, "x").lower():
        raise Refused(f"route.table={pattern!r}: some catalogs ignore case; write it in lower case")


def _fixed(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        value, colon, table = part.rpartition(":")
        if not colon:
            raise Refused(f"route.map: {part!r} is not VALUE:NAMESPACE.NAME; several are joined by commas")
        if value in found:
            raise Refused(f"route.map: {value!r} has two tables")
        _check_name("route.map", table)
        found[value] = table
    return found


def _tables_max(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and int(text) >= 1):
        raise Refused(f"route.tables_max={text!r}: want a number of tables, 1 to 999999")
    return int(text)


def _check_name(option: str, table: str) -> None:
    try:
        check_table(table)
    except Refused as error:
        raise Refused(f"{option}: {error}") from None


def _check_tables(spec: LandingSpec, route: Route) -> None:
    if route.default:
        _check_name("route.default", route.default)
    if not (route.pattern or route.fixed or route.default):
        raise Refused("a route needs route.table, route.map or route.default, or all records would be dead letters")
    home = dead_table(spec.table)
    if home in route.named_tables or spec.table in route.named_tables:
        raise Refused(f"{spec.table} names the route and {home} is its home; choose other tables for records")
    if len(route.named_tables) > route.tables_max:
        raise Refused(f"the options name {len(route.named_tables)} tables, more than route.tables_max={route.tables_max}")


def clean(value: str) -> str:
    """A value as part of a name that every catalog takes: lower case, ``_`` for other ASCII, ``u``, number and ``_`` for the rest."""
    return _UNFIT.sub(lambda found: "_" if found[0].isascii() else f"u{ord(found[0]):x}_", value.lower())


# --- values → tables -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the records of one value go: a table, or, with a code, to the dead letters. ``value``: whose own table it is, if so."""

    table: str = ""
    value: str | None = None
    code: str = ""
    why: str = ""


@dataclass(slots=True, kw_only=True)
class Places:
    """The table of each value, as the route's options and the claims made so far have it. The same value always gets the same answer,
    but for refusals, which a claim that goes away or another limit may lift.
    """

    route: Route
    home: str
    taken: Callable[[str], str]
    """Who else has a table, empty: nobody."""
    claims: dict[str, str | None] = field(default_factory=dict)
    """Table → the value it was claimed for; None: the options name it."""
    known: dict[str, Place] = field(default_factory=dict)

    def find(self, value: str | None) -> Place:
        """Where records of ``value`` go; None: they have none."""
        if value is None:
            return self._default("route-none", CODES["route-none"])
        found = self.known.get(value)
        if found is None:
            found = self._find(value)
            if not found.code and len(self.known) < 4 * self.route.tables_max:
                self.known[value] = found
        return found

    def claim(self, table: str, value: str | None) -> None:
        """Takes in that ``table`` is named for ``value``, by us or by whoever was first."""
        self.claims[table] = value
        self.known = {one: place for one, place in self.known.items() if place.table != table or place.value in (None, value)}

    def _find(self, value: str) -> Place:
        route = self.route
        if value in route.fixed:
            return Place(table=route.fixed[value])
        if not route.pattern:
            return self._default("route-unknown", f"no table is named for the value {value[:100]!r}")
        cleaned = clean(value)
        table = route.pattern.replace(_HOLE, cleaned)
        if not cleaned or len(table.rpartition(".")[2]) > NAME_CHARACTERS_MAX:
            return Place(code="route-name", why=f"no table can be named for {value[:100]!r}: it is empty or too long")
        return self._own(table, value)

    def _own(self, table: str, value: str) -> Place:
        if table in self.claims and self.claims[table] == value:
            return Place(table=table, value=value)
        if table in self.claims or table in self.route.named_tables:
            other = self.claims.get(table)
            whose = "the options name it for other values" if other is None else f"it is named for {other[:100]!r}"
            return Place(code="route-collision", why=f"{value[:100]!r} would land in {table}, but {whose}; give it a table in route.map")
        holder = self.home if table == self.home else self.taken(table)
        if holder:
            return Place(code="route-reserved", why=f"{value[:100]!r} would land in {table}, which belongs to {holder}")
        if len(self.claims) >= self.route.tables_max:
            most = self.route.tables_max
            why = f"{value[:100]!r} would be table number {len(self.claims) + 1} of the route, and route.tables_max is {most}"
            return Place(code="route-tables-max", why=why)
        return Place(table=table, value=value)

    def _default(self, code: str, why: str) -> Place:
        return Place(table=self.route.default) if self.route.default else Place(code=code, why=why)


def same_tables(one: Route, other: Route) -> Sequence[str]:
    """Tables, or the pattern, that two routes would both write."""
    shared = sorted(one.named_tables & other.named_tables)
    return [*shared, *([one.pattern] if one.pattern and one.pattern == other.pattern else [])]
