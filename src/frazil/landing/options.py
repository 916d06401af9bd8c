"""The options of a landing (``frazil table create --option NAME=VALUE``): every name, what it may be, what it is for. Pure.

One table, so that the check, the documentation and the completion know the same names. A feature adds its line here and reads its
option where it is used.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from frazil.kit.errors import Refused
from frazil.landing import evolution
from frazil.landing.extent import extent_of
from frazil.landing.layout import FILE_BYTES_MIN, layout_of
from frazil.landing.routing import route_of
from frazil.landing.upsert import RECORD_KEYS, WRITES, check_mode
from frazil.metadata.landings import LandingSpec

KEYS: Final = ("raw", "string", "int", "long", "float", "double")
"""What keys can be: the bytes, or one thing."""

Check = Callable[[LandingSpec, str], str]
"""From a spec and the option's value to what is wrong with it; an empty text: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option. ``values``: what may be given, for people."""

    values: str
    meaning: str
    check: Check = lambda _spec, _value: ""


def one_of(*allowed: str) -> Check:
    """A check for a few words."""
    return lambda _spec, value: "" if value in allowed else f"use one of {', '.join(allowed)}"


def count(_spec: LandingSpec, value: str) -> str:
    """A check for a number of things."""
    return "" if value.isascii() and value.isdigit() and len(value) <= 15 else "want a number, 0 or more"


def _evolve(spec: LandingSpec, _value: str) -> str:
    return evolution.refusal(spec)


def _key(spec: LandingSpec, value: str) -> str:
    if value not in KEYS:
        return f"use one of {', '.join(KEYS)}"
    if value != KEYS[0] and not spec.metadata_columns:
        return "it says what the column _key holds, and there are no metadata columns"
    return ""


def _extent(spec: LandingSpec, _value: str) -> str:
    try:
        extent_of(spec.options)
    except Refused as error:
        return str(error)
    return ""


def _layout(spec: LandingSpec, _value: str) -> str:
    try:
        layout_of(spec)
    except Refused as error:
        return str(error)
    return ""


def _route(spec: LandingSpec, _value: str) -> str:
    try:
        route_of(spec)
    except Refused as error:
        return str(error)
    return ""


OPTIONS: Final[Mapping[str, Option]] = {
    "catalog": Option(values="a catalog's name", meaning="the catalog the table is in; default: `landing.catalog`"),
    "from": Option(
        values="earliest, an offset, a time",
        meaning="where a partition without progress begins: the log start (default), an offset, or the first record of a time or later",
        check=_extent,
    ),
    "to": Option(
        values="an offset, a time",
        meaning="where each partition ends, before this offset or the first record of this time: a backfill, which then is done",
        check=_extent,
    ),
    "isolation": Option(
        values="read_committed, read_uncommitted",
        meaning="records of transactions land when they are committed (default), or all of them, aborted and undecided ones too",
        check=one_of("read_committed", "read_uncommitted"),
    ),
    "deadletters.alert": Option(
        values="a number of records",
        meaning="tell, by the state `alert`, when the table has more dead letters; landing goes on",
        check=count,
    ),
    "deadletters.stop": Option(
        values="a number of records",
        meaning="stop rather than have more dead letters: 0 stops at the first bad record, and nothing is passed over",
        check=count,
    ),
    "evolve.columns_max": Option(
        values="1 to 10000", meaning="most columns that values may bring the table to, nested ones counted; default: 1000", check=_evolve
    ),
    "evolve.conflict": Option(
        values="deadletter, suffix",
        meaning="a value of another type than its column's: a dead letter (default), or [a column beside](evolution.md), `{name}__{type}`",
        check=_evolve,
    ),
    "evolve.overflow": Option(
        values="a column's name", meaning="the column that takes, as JSON text, what found no column; default: none", check=_evolve
    ),
    "evolve.rename": Option(
        values="old:new, …", meaning="columns to rename in the table; fields of the old name land in the new column", check=_evolve
    ),
    "evolve.unknown": Option(
        values="add, ignore, deadletter",
        meaning="a field without column: a new column (default), left out (default with declared columns), or its record is a dead letter",
        check=_evolve,
    ),
    "envelope": Option(
        values="none, debezium, op:FIELD",
        meaning="values are change events ([how](upsert.md)): in Debezium's envelope, or flat with the operation in a field; default: none",
        check=check_mode,
    ),
    "key": Option(values=", ".join(KEYS), meaning="what record keys are, in the column `_key`", check=_key),
    "file_bytes": Option(
        values=f"bytes, {FILE_BYTES_MIN} or more",
        meaning="size on disk above which a file of a slice is cut ([layout](layout.md)); default: 512 MiB",
        check=_layout,
    ),
    "manifest": Option(values="a manifest's title", meaning="set by `apply`: the manifest that owns the landing"),
    "mode": Option(
        values="append, upsert",
        meaning="keep every record (default), or one row per key: the last one, none after a delete ([how](upsert.md))",
        check=check_mode,
    ),
    "route": Option(
        values="field:NAME, header:NAME, type",
        meaning="many tables, by a field, a header or the type of each record ([routing](routing.md)); the landing's table names the route",
        check=_route,
    ),
    "route.default": Option(
        values="a table, deadletter",
        meaning="the table of records without that, or whose value has no table; default: deadletter",
        check=_route,
    ),
    "route.map": Option(values="VALUE:TABLE, …", meaning="tables of some values", check=_route),
    "route.table": Option(
        values="NAMESPACE.NAME with {}", meaning="the table of every other value, `{}` stands for the value in lower case", check=_route
    ),
    "route.tables_max": Option(
        values="1 to 999999", meaning="records of more values than this many tables take are dead letters; default: 1000", check=_route
    ),
    "partition": Option(
        values="none, or fields with commas between",
        meaning="partitions, as in `day(_timestamp), bucket(16, id), truncate(4, name), region` ([layout](layout.md)); default: none",
        check=_layout,
    ),
    "paused": Option(values="true, false", meaning="the landing waits", check=one_of("true", "false")),
    "recreated": Option(
        values="fill, stop",
        meaning="when the table was dropped or exchanged: fill the new one from the log start, or stop and say so (default)",
        check=one_of("fill", "stop"),
    ),
    "sort": Option(
        values="none, or columns with commas between",
        meaning="the order of rows within files, as in `ts desc nulls last, id` ([layout](layout.md)); default: none",
        check=_layout,
    ),
    "upsert.deletes": Option(
        values="none, op, tombstone, or op,tombstone",
        meaning="what deletes a row: the operation of the envelope (default where there is one), a record without value",
        check=check_mode,
    ),
    "upsert.key": Option(values="columns with commas between", meaning="the columns that make a row the same row", check=check_mode),
    "upsert.order": Option(
        values="offset, or a column",
        meaning="by what the newer of two events is known: their offsets in the partition (default), or a column that grows",
        check=check_mode,
    ),
    "upsert.record-key": Option(
        values=", ".join(RECORD_KEYS), meaning="what record keys are, for `upsert.deletes=tombstone`", check=check_mode
    ),
    "upsert.write": Option(
        values=", ".join(WRITES),
        meaning="how old rows go: deleted by place (default), by a file of keys that is folded later, or their files are written again",
        check=check_mode,
    ),
}


def check_options(spec: LandingSpec) -> None:
    """Raises Refused for an option that landing does not know, or one whose value cannot be."""
    for name, value in spec.options.items():
        option = OPTIONS.get(name)
        if option is None:
            close = difflib.get_close_matches(name[:80], OPTIONS, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]!r}? " if close else ""
            raise Refused(f"landing {spec.table}: unknown option {name[:80]!r}; {hint}known: {', '.join(OPTIONS)}")
        wrong = option.check(spec, value)
        if wrong:
            raise Refused(f"landing {spec.table}: option {name}={_shortened(value, 200)!r}: {_shortened(wrong, 1_000)}")


def _shortened(text: str, most: int) -> str:
    """What is wrong often ends with what to do, so the middle goes."""
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 2 :]}"


def options_page() -> str:
    """``docs/landing-options.md``."""
    lines = [
        "# Options of a landing",
        "",
        "Generated by `make generated`. Given by `frazil table create NAMESPACE.NAME -t TOPIC --option NAME=VALUE` or `options:` in a",
        "Table manifest, changed by `frazil table alter`.",
        "",
        "| option | values | what it is for |",
        "|---|---|---|",
    ]
    lines += [f"| `{name}` | {option.values} | {option.meaning} |" for name, option in OPTIONS.items()]
    return "\n".join(lines) + "\n"
