"""Partition values in manifests: their types, and what a manifest list says about all values of a manifest. Pure.

Not the library's: it makes a partition field required where its column is (then a null, which ``void`` always gives, cannot be written),
and loses the type of a field whose column was dropped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from pyiceberg import manifest as avro
from pyiceberg.conversions import to_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, PrimitiveType, StructType

from frazil.catalogs.layout import sources
from frazil.catalogs.metadata_json import current_schema
from frazil.catalogs.port import JsonObject
from frazil.catalogs.transforms import parse_transform
from frazil.kit.errors import Refused


def schema_for_spec(metadata: JsonObject, spec: JsonObject, current: JsonObject | None = None) -> JsonObject:
    """``current`` when it has every column of the spec, else the newest schema that has."""
    first = current or current_schema(metadata)
    wanted = {int(field["source-id"]) for field in spec["fields"]}
    for schema in (first, *reversed(metadata["schemas"])):
        if wanted <= sources(schema).keys():
            found: JsonObject = schema
            return found
    return first


def partition_type(spec: JsonObject, schema: JsonObject) -> StructType:
    """The struct of a spec's values; every field may be null. Raises Refused when a column is in no schema."""
    have = sources(schema)
    fields = []
    for field in spec["fields"]:
        source = have.get(int(field["source-id"]))
        if source is None:
            raise Refused(f"partition field {field['name']}: column id {field['source-id']} is in no schema of the table")
        kind = parse_transform(str(field["transform"])).result_type(source.type)
        fields.append(NestedField(int(field["field-id"]), str(field["name"]), _type(kind), required=False))
    return StructType(*fields)


def _type(name: str) -> PrimitiveType:
    schema = Schema.model_validate({"type": "struct", "fields": [{"id": 1, "name": "x", "type": name, "required": False}]})
    found = schema.fields[0].field_type
    if not isinstance(found, PrimitiveType):
        raise Refused(f"partition values of type {name} are not possible")
    return found


def summaries(types: StructType, partitions: Sequence[Any]) -> list[avro.PartitionFieldSummary]:
    """One per field: whether there are nulls or NaNs, and the smallest and largest of the other values."""
    return [_summary(field.field_type, [partition[at] for partition in partitions]) for at, field in enumerate(types.fields)]


def _summary(kind: Any, values: Sequence[Any]) -> avro.PartitionFieldSummary:  # noqa: ANN401 - the library's types
    filled = [_comparable(value) for value in values if value is not None]
    plain = [value for value in filled if not (isinstance(value, float) and math.isnan(value))]
    low = high = None
    if plain:
        low, high = min(plain, key=_order), max(plain, key=_order)
    return avro.PartitionFieldSummary(
        len(filled) < len(values),
        len(plain) < len(filled),
        None if low is None else to_bytes(kind, low),
        None if high is None else to_bytes(kind, high),
    )


def _comparable(value: Any) -> Any:  # noqa: ANN401 - any value of a partition
    return value.bytes if isinstance(value, UUID) else value


def _order(value: Any) -> Any:  # noqa: ANN401 - any value of a partition
    """−0.0 is less than 0.0, as in Iceberg's order of floats."""
    return (value, math.copysign(1, value)) if isinstance(value, float) else value
