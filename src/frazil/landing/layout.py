"""How a landing wants its table's files: the options ``partition``, ``sort`` and ``file_bytes``. Pure.

    partition=day(_timestamp), bucket(16, id), truncate(4, name), region as area
    sort=ts desc nulls last, id

The words are those of Iceberg's SQL. A name with other characters than letters, digits, ``_``, ``.`` stands in backticks or double quotes.
An option is applied when the table is made and when the option is changed; the table remembers which text that was. So a layout that
another engine gives the table meanwhile stays (F45).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from frazil.catalogs.layout import (
    Layout,
    PartitionField,
    SortField,
    bound_fields,
    missing_columns,
    order_of_new_table,
    plan_layout,
    spec_of_new_table,
)
from frazil.catalogs.metadata_json import current_schema
from frazil.catalogs.port import CreateTable, JsonObject, LoadedTable
from frazil.catalogs.schema import new_schema
from frazil.catalogs.transforms import Transform, parse_transform
from frazil.catalogs.writeoptions import TARGET_PROPERTY
from frazil.kit.errors import Refused
from frazil.landing.columns import METADATA_SCHEMA
from frazil.metadata.landings import LandingSpec
from frazil.schemas import parse_columns

PARTITION_PROPERTY: Final = "frazil.layout.partition"
SORT_PROPERTY: Final = "frazil.layout.sort"
"""Table properties: the options that were applied last."""
NONE: Final = "none"
FILE_BYTES_MIN: Final = 64 * 1024
BUCKETS_MAX: Final = 10_000
"""Partitions that buckets alone may make: each is a file of every commit once all of them are met (F72)."""
FILES_ADVISED_MAX: Final = 1_000
"""Files of one commit above which the status advises another layout."""
REQUESTS_PER_FILE: Final = 2
"""A file is stored, and its end is read back before the commit (F61)."""
REQUESTS_PER_COMMIT: Final = 10
_TOKEN: Final = re.compile(r"\s*(?:(?P<quoted>`[^`]+`|\"[^\"]+\")|(?P<word>[^\s,()`\"]+)|(?P<sign>[,()]))")
_NAMES: Final = {"years": "year", "months": "month", "days": "day", "hours": "hour"}
_DOUBTFUL: Final = {
    "float": "readers do not agree on the order of NaN and −0.0",
    "double": "readers do not agree on the order of NaN and −0.0",
    "uuid": "readers do not agree on the order of uuids",
    "decimal": "DuckDB reads negative decimals of partitions without their sign",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedLayout:
    """The options of one landing."""

    layout: Layout = field(default_factory=Layout)
    file_bytes: int | None = None

    def properties(self) -> dict[str, str]:
        """What the table remembers once the options are applied."""
        found: dict[str, str] = {}
        if self.layout.partition is not None:
            found[PARTITION_PROPERTY] = partition_text(self.layout.partition)
        if self.layout.sort is not None:
            found[SORT_PROPERTY] = sort_text(self.layout.sort)
        if self.file_bytes is not None:
            found[TARGET_PROPERTY] = str(self.file_bytes)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutStep:
    """One catalog commit that applies options."""

    requirements: list[JsonObject]
    updates: list[JsonObject]


def parse_layout(options: Mapping[str, str]) -> WantedLayout:
    """The layout that a landing's options ask for. Raises Refused with what is wrong."""
    partition, sort, size = options.get("partition"), options.get("sort"), options.get("file_bytes")
    return WantedLayout(
        layout=Layout(
            partition=None if partition is None else parse_partition(partition),
            sort=None if sort is None else parse_sort(sort),
        ),
        file_bytes=None if size is None else _file_bytes(size),
    )


def layout_of(spec: LandingSpec) -> WantedLayout:
    """As ``parse_layout``; declared columns are looked at too."""
    wanted = parse_layout(spec.options)
    if not spec.columns:
        return wanted
    columns = parse_columns(spec.columns)
    schema = new_schema(pa.schema([*columns, *METADATA_SCHEMA]) if spec.metadata_columns else columns)
    missing = missing_columns(wanted.layout, schema)
    if not missing:
        _check_readable(spec_of_new_table(wanted.layout, schema), schema)
        order_of_new_table(wanted.layout, schema)
    elif spec.options.get("evolve.unknown") != "add":
        raise Refused(f"{', '.join(missing)} is no column: the columns are {', '.join(columns.names)[:300]} and the metadata columns")
    return wanted


def laid_out_table(wanted: WantedLayout, creation: CreateTable) -> CreateTable:
    """A table to be made, with the layout. Raises Refused when a column is missing or no reader could rely on it."""
    schema = new_schema(creation.schema)
    missing = missing_columns(wanted.layout, schema)
    if missing:
        raise Refused(
            f"the options partition or sort name {', '.join(missing)}, and the columns of the first records are "
            f"{', '.join(creation.schema.names)[:300]}; declare the columns, or choose others"
        )
    spec, order = spec_of_new_table(wanted.layout, schema), order_of_new_table(wanted.layout, schema)
    _check_readable(spec, schema)
    properties = {**creation.properties, **wanted.properties()}
    return CreateTable(schema=creation.schema, properties=properties, partition_spec=spec, sort_order=order)


def plan_step(wanted: WantedLayout, table: LoadedTable) -> LayoutStep | None:
    """What applies options to a table that is there; None when they are applied, or when columns they name are not there yet.

    Raises Refused as ``laid_out_table``.
    """
    have = table.metadata.get("properties", {})
    news = {name: text for name, text in wanted.properties().items() if have.get(name) != text}
    if not news or waiting_for(wanted, table):
        return None
    schema = current_schema(table.metadata)
    layout = Layout(
        partition=wanted.layout.partition if PARTITION_PROPERTY in news else None,
        sort=wanted.layout.sort if SORT_PROPERTY in news else None,
    )
    if layout.partition is not None:
        _check_readable(spec_of_new_table(layout, schema), schema)
    change = plan_layout(table, schema, layout)
    requirements: list[JsonObject] = [{"type": "assert-table-uuid", "uuid": table.uuid}]
    return LayoutStep(
        requirements=requirements if change is None else list(change.requirements),
        updates=[*(() if change is None else change.updates), {"action": "set-properties", "updates": news}],
    )


def waiting_for(wanted: WantedLayout, table: LoadedTable) -> tuple[str, ...]:
    """Columns that options to be applied name and the table does not have yet."""
    have = table.metadata.get("properties", {})
    if all(have.get(name) == text for name, text in wanted.properties().items()):
        return ()
    return missing_columns(wanted.layout, current_schema(table.metadata))


def advice(files: int, rows: int) -> str:
    """What to say about a slice that became so many files; empty: nothing."""
    if files <= FILES_ADVISED_MAX:
        return ""
    requests = REQUESTS_PER_FILE * files + REQUESTS_PER_COMMIT
    return (
        f"the last commit made {files} files of {rows // files} rows on average, with {requests} requests to the store; "
        "a coarser partition (bucket, truncate, month) or a longer commit interval makes fewer"
    )


def _check_readable(spec: JsonObject, schema: JsonObject) -> None:
    """Readers prune by partition values, and do not agree about some: they would miss rows."""
    for source, transform in bound_fields(spec["fields"], schema):
        kind = source.type.partition("(")[0]
        if transform.name not in ("identity", "truncate") or kind not in _DOUBTFUL:
            continue
        raise Refused(
            f"option partition: column {'.'.join(source.path)} is a {source.type}, and {_DOUBTFUL[kind]}, so that some readers would "
            f"miss rows; use {'bucket' if kind in ('uuid', 'decimal') else 'another column'}"
        )


# --- text → layout -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Token:
    text: str
    quoted: bool = False

    def says(self, *words: str) -> bool:
        return not self.quoted and self.text.lower() in words


def parse_partition(text: str) -> tuple[PartitionField, ...]:
    """The fields of the option ``partition``, none for ``none``. Raises Refused."""
    terms = _terms(text, "partition")
    fields: list[PartitionField] = []
    for term in terms:
        column, transform, rest = _term(term, "partition")
        name = ""
        if len(rest) == 2 and rest[0].says("as"):
            name = rest[1].text
        elif rest:
            raise Refused(f"partition: what is {rest[0].text!r} in {text[:100]!r}? Write day(ts), bucket(16, id), region as area")
        fields.append(PartitionField(column=column, transform=transform, name=name))
    buckets = math.prod(each.transform.number for each in fields if each.transform.name == "bucket")
    if buckets > BUCKETS_MAX:
        raise Refused(
            f"partition: its buckets make {buckets} partitions, and a commit that meets them all {buckets} files with "
            f"{REQUESTS_PER_FILE * buckets + REQUESTS_PER_COMMIT} requests to the store; {BUCKETS_MAX} is the most"
        )
    twice = [(each.column, str(each.transform)) for each in fields]
    if len(set(twice)) != len(twice):
        raise Refused(f"partition: {text[:100]!r} names a field twice")
    return tuple(fields)


def parse_sort(text: str) -> tuple[SortField, ...]:
    """The keys of the option ``sort``, none for ``none``. Raises Refused."""
    fields: list[SortField] = []
    for term in _terms(text, "sort"):
        column, transform, rest = _term(term, "sort")
        descending = bool(rest) and rest[0].says("desc")
        if rest and rest[0].says("asc", "desc"):
            rest = rest[1:]
        nulls_first = not descending
        if len(rest) == 2 and rest[0].says("nulls") and rest[1].says("first", "last"):
            nulls_first = rest[1].says("first")
        elif rest:
            raise Refused(f"sort: what is {rest[0].text!r} in {text[:100]!r}? Write ts desc nulls last, id")
        fields.append(SortField(column=column, transform=transform, descending=descending, nulls_first=nulls_first))
    return tuple(fields)


def _terms(text: str, what: str) -> list[list[_Token]]:
    """Tokens between the commas that are not within parentheses."""
    tokens = list(_tokens(text, what))
    if len(tokens) == 1 and tokens[0].says(NONE):
        return []
    terms: list[list[_Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += token.says("(") - token.says(")")
        if depth == 0 and token.says(","):
            terms.append([])
        else:
            terms[-1].append(token)
    if depth or not all(terms):
        raise Refused(f"{what}: {text[:100]!r} is not a list of fields; write none for none")
    return terms


def _tokens(text: str, what: str) -> Iterator[_Token]:
    at, text = 0, text.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise Refused(f"{what}: cannot read {text[at : at + 40]!r}")
        at = found.end()
        quoted = found["quoted"]
        yield _Token(text=quoted[1:-1], quoted=True) if quoted else _Token(text=found["word"] or found["sign"])


def _term(tokens: list[_Token], what: str) -> tuple[str, Transform, list[_Token]]:
    """Column, transform and what follows."""
    first = tokens[0]
    if len(tokens) < 2 or not tokens[1].says("("):
        if first.says("(", ")"):
            raise Refused(f"{what}: a field begins with a column or a transform, not with {first.text!r}")
        return first.text, Transform(name="identity"), tokens[1:]
    ends = [at for at, token in enumerate(tokens) if token.says(")")]
    if not ends or ends[0] < 3:
        raise Refused(f"{what}: {first.text}(…) needs a column")
    inside = [token for token in tokens[2 : ends[0]] if not token.says(",")]
    name = _NAMES.get(first.text.lower(), first.text.lower())
    numbers = [token.text for token in inside if not token.quoted and token.text.isascii() and token.text.isdigit()]
    columns = [token.text for token in inside if token.quoted or token.text not in numbers]
    takes_number = name in ("bucket", "truncate")
    if len(columns) != 1 or len(numbers) != int(takes_number):
        given = " ".join(token.text for token in tokens)[:100]
        raise Refused(f"{what}: write {name}({'16, ' if takes_number else ''}column), not {given!r}")
    return columns[0], parse_transform(f"{name}[{numbers[0]}]" if takes_number else name), tokens[ends[0] + 1 :]


def _file_bytes(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 100) or not FILE_BYTES_MIN <= int(text) < 1 << 40:
        raise Refused(f"want a number of bytes, {FILE_BYTES_MIN} or more")
    return int(text)


# --- layout → text -----------------------------------------------------------------------------------------------------


def partition_text(fields: tuple[PartitionField, ...]) -> str:
    """One spelling for layouts that are equal."""
    texts = [_field_text(each.column, each.transform) + (f" as {_quoted(each.name)}" if each.name else "") for each in fields]
    return ", ".join(texts) or NONE


def sort_text(fields: tuple[SortField, ...]) -> str:
    """One spelling for orders that are equal."""
    return (
        ", ".join(
            f"{_field_text(each.column, each.transform)} {'desc' if each.descending else 'asc'} nulls "
            f"{'first' if each.nulls_first else 'last'}"
            for each in fields
        )
        or NONE
    )


def _field_text(column: str, transform: Transform) -> str:
    if transform.name == "identity":
        return _quoted(column)
    number = f"{transform.number}, " if transform.number else ""
    return f"{transform.name}({number}{_quoted(column)})"


def _quoted(name: str) -> str:
    if re.fullmatch(r"[^\W\d][\w.]*", name) and name.lower() != NONE:
        return name
    return f'"{name}"' if "`" in name else f"`{name}`"
