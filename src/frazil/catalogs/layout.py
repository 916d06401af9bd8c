"""How a table's files are laid out: what rows are partitioned and sorted by, as a user says it and as table metadata has it. Pure.

Specs and orders are never removed, so files keep meaning what they meant when they were written (F45). An equal one is used again, and so
is the id of a partition field of the same column and transform, as other writers do it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from frazil.catalogs.arrow import IcebergType
from frazil.catalogs.metadata_json import partition_spec, sort_order
from frazil.catalogs.port import JsonObject, LoadedTable
from frazil.catalogs.transforms import Transform, parse_transform
from frazil.kit.errors import Refused

UNSORTED_ID: Final = 0
_FIRST_PARTITION_FIELD: Final = 1000
_SUFFIXES: Final = {"identity": "", "void": "_null", "bucket": "_bucket_{}", "truncate": "_trunc_{}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionField:
    """One part of a partition: a column and what is done to it."""

    column: str
    """Name; of a field within structs with dots."""
    transform: Transform
    name: str = ""
    """Of the partition field; empty: made from column and transform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SortField:
    """One key of the order of rows within files."""

    column: str
    transform: Transform = dataclasses.field(default_factory=lambda: Transform(name="identity"))
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """None: as the table has it. Empty: not partitioned, not sorted."""

    partition: tuple[PartitionField, ...] | None = None
    sort: tuple[SortField, ...] | None = None

    def columns(self) -> Iterator[str]:
        """Every column that is named."""
        yield from (field.column for field in self.partition or ())
        yield from (field.column for field in self.sort or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutChange:
    """A catalog commit that makes a layout the table's own for files to come."""

    requirements: Sequence[JsonObject]
    updates: Sequence[JsonObject]


def spec_of_new_table(layout: Layout, schema: JsonObject) -> JsonObject:
    """The partition spec of a table that is made. Raises Refused when a column is missing or its type does not fit."""
    return {"spec-id": 0, "fields": _partition_fields(layout.partition or (), schema, {}, _FIRST_PARTITION_FIELD - 1)}


def order_of_new_table(layout: Layout, schema: JsonObject) -> JsonObject:
    """The sort order of a table that is made. Raises Refused as ``spec_of_new_table``."""
    fields = _sort_fields(layout.sort or (), schema)
    return {"order-id": UNSORTED_ID + 1 if fields else UNSORTED_ID, "fields": fields}


def plan_layout(table: LoadedTable, schema: JsonObject, layout: Layout) -> LayoutChange | None:
    """What makes ``layout`` the table's own; None when it already is. ``schema`` is the current one. Raises Refused as above."""
    metadata = table.metadata
    requirements: list[JsonObject] = [{"type": "assert-table-uuid", "uuid": table.uuid}]
    updates: list[JsonObject] = []
    if layout.partition is not None:
        known = {(field["source-id"], field["transform"]): field for spec in metadata["partition-specs"] for field in spec["fields"]}
        fields = _partition_fields(layout.partition, schema, known, int(metadata["last-partition-id"]))
        updates += _spec_updates(metadata, fields)
        requirements += [
            {"type": "assert-default-spec-id", "default-spec-id": metadata["default-spec-id"]},
            {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": metadata["last-partition-id"]},
        ]
    if layout.sort is not None:
        updates += _order_updates(metadata, _sort_fields(layout.sort, schema))
        requirements.append({"type": "assert-default-sort-order-id", "default-sort-order-id": metadata["default-sort-order-id"]})
    return LayoutChange(requirements=requirements, updates=updates) if updates else None


def missing_columns(layout: Layout, schema: JsonObject) -> tuple[str, ...]:
    """Columns that the layout names and the schema does not have."""
    have = _columns(schema)
    return tuple(dict.fromkeys(name for name in layout.columns() if _find(name, have) is None))


def spec_to_write(table: LoadedTable, spec_id: int | None = None) -> JsonObject:
    """The spec of that id; None: the one for new files."""
    return partition_spec(table.metadata, int(table.metadata["default-spec-id"]) if spec_id is None else spec_id)


def order_to_write(table: LoadedTable) -> JsonObject:
    """The order that rows of new files are to have."""
    order_id = int(table.metadata.get("default-sort-order-id", UNSORTED_ID))
    return {"order-id": UNSORTED_ID, "fields": []} if order_id == UNSORTED_ID else sort_order(table.metadata, order_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A primitive column that a spec or an order may name."""

    field_id: int
    path: tuple[str, ...]
    type: str


def sources(schema: JsonObject) -> Mapping[int, Source]:
    """Primitive columns by field id, those within structs too; what is in lists and maps has no single value per row."""
    return {source.field_id: source for source in _sources(schema["fields"], ())}


def _sources(fields: Sequence[JsonObject], path: tuple[str, ...]) -> Iterator[Source]:
    for field in fields:
        kind: IcebergType = field["type"]
        if isinstance(kind, str):
            yield Source(field_id=int(field["id"]), path=(*path, field["name"]), type=kind)
        elif kind["type"] == "struct":
            yield from _sources(kind["fields"], (*path, field["name"]))


# --- specs -------------------------------------------------------------------------------------------------------------


def _spec_updates(metadata: JsonObject, fields: Sequence[JsonObject]) -> list[JsonObject]:
    def shape(items: Sequence[JsonObject]) -> list[tuple[object, ...]]:
        return [(item["source-id"], item["transform"], item["name"]) for item in items]

    for spec in metadata["partition-specs"]:
        if shape(spec["fields"]) == shape(fields):
            if spec["spec-id"] == metadata["default-spec-id"]:
                return []
            return [{"action": "set-default-spec", "spec-id": spec["spec-id"]}]
    spec_id = max(int(spec["spec-id"]) for spec in metadata["partition-specs"]) + 1
    return [
        {"action": "add-spec", "spec": {"spec-id": spec_id, "fields": list(fields)}},
        {"action": "set-default-spec", "spec-id": -1},
    ]


def _partition_fields(
    wanted: Sequence[PartitionField], schema: JsonObject, known: Mapping[tuple[object, object], JsonObject], last_id: int
) -> list[JsonObject]:
    have = _columns(schema)
    taken = {".".join(source.path) for source in have.values()}
    fields: list[JsonObject] = []
    for field in wanted:
        source = _source(field.column, field.transform, have)
        before = known.get((source.field_id, str(field.transform)))
        if before is not None and field.name in ("", before["name"]):
            name, field_id = str(before["name"]), int(before["field-id"])
        else:
            last_id += 1
            name, field_id = field.name or _default_name(source, field.transform, taken), last_id
        if any(name == other["name"] for other in fields):
            raise Refused(f"partition: two fields are named {name}; write one as `{field.transform.name}({field.column}) as another_name`")
        if name in taken and not (field.transform.name == "identity" and name == ".".join(source.path)):
            raise Refused(f"partition: {name} is a column; name the partition field otherwise")
        fields.append({"source-id": source.field_id, "field-id": field_id, "name": name, "transform": str(field.transform)})
    return fields


def _default_name(source: Source, transform: Transform, taken: set[str]) -> str:
    name = ".".join(source.path) + _SUFFIXES.get(transform.name, f"_{transform.name}").format(transform.number)
    while name in taken and transform.name != "identity":
        name += "_"
    return name


# --- sort orders -------------------------------------------------------------------------------------------------------


def _order_updates(metadata: JsonObject, fields: Sequence[JsonObject]) -> list[JsonObject]:
    for order in metadata["sort-orders"]:
        if list(order["fields"]) == list(fields):
            if order["order-id"] == metadata["default-sort-order-id"]:
                return []
            return [{"action": "set-default-sort-order", "sort-order-id": order["order-id"]}]
    taken = [int(order["order-id"]) for order in metadata["sort-orders"]]
    order_id = max([UNSORTED_ID, *taken]) + 1 if fields else UNSORTED_ID
    return [
        {"action": "add-sort-order", "sort-order": {"order-id": order_id, "fields": list(fields)}},
        {"action": "set-default-sort-order", "sort-order-id": -1 if fields else UNSORTED_ID},
    ]


def _sort_fields(wanted: Sequence[SortField], schema: JsonObject) -> list[JsonObject]:
    have = _columns(schema)
    return [
        {
            "transform": str(field.transform),
            "source-id": _source(field.column, field.transform, have).field_id,
            "direction": "desc" if field.descending else "asc",
            "null-order": "nulls-first" if field.nulls_first else "nulls-last",
        }
        for field in wanted
    ]


# --- columns -----------------------------------------------------------------------------------------------------------


def _columns(schema: JsonObject) -> dict[str, Source]:
    return {".".join(source.path): source for source in sources(schema).values()}


def _find(name: str, have: Mapping[str, Source]) -> Source | None:
    """By name, else by the only one of that name in other letters: topics often write ``userId``, and SQL people ``userid``."""
    if name in have:
        return have[name]
    alike = [source for other, source in have.items() if other.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def _source(name: str, transform: Transform, have: Mapping[str, Source]) -> Source:
    source = _find(name, have)
    if source is None:
        known = ", ".join(list(have)[:30])
        raise Refused(f"layout: there is no column {name} with one value per row; columns: {known or 'none'}")
    if not transform.fits(source.type):
        raise Refused(f"layout: {transform.name} does not take column {name} of type {source.type}")
    return source


def bound_fields(items: Sequence[JsonObject], schema: JsonObject) -> list[tuple[Source, Transform]]:
    """Columns and transforms of the fields of a spec or an order. Raises Refused for what cannot be written."""
    have = sources(schema)
    bound = []
    for item in items:
        source = have.get(int(item["source-id"]))
        if source is None:
            raise Refused(f"the table's layout uses column id {item['source-id']}, which it does not have any more; change its layout")
        bound.append((source, parse_transform(str(item["transform"]))))
    return bound
