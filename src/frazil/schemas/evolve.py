"""Schemas that grow: joining new fields to the columns a table has, and the few widenings Iceberg allows."""

from __future__ import annotations

import pyarrow as pa

from frazil.kit.errors import Refused
from frazil.schemas.arrays import AnyField, map_type
from frazil.schemas.shape import Kind, shape_of


def evolve(existing: pa.Schema, seen: pa.Schema) -> pa.Schema:
    """``existing`` plus the fields of ``seen`` it lacks, by exact name, nested ones too; new ones come last and are optional.

    A column in both may be widened as Iceberg allows: int → long, float → double, a decimal to more digits of the same scale.
    Anything else (another type, a smaller one stays as it is) raises Refused with the path.
    """
    joined = pa.schema(_join_fields(list(existing), list(seen), ""))
    return joined.with_metadata(existing.metadata) if existing.metadata else joined


def _join_fields(existing: list[AnyField], seen: list[AnyField], path: str) -> list[AnyField]:
    joined = {field.name: field for field in existing}
    for field in seen:
        if field.name in joined:
            known = joined[field.name]
            joined[field.name] = known.with_type(_join(known.type, field.type, f"{path}{field.name}"))
        else:
            joined[field.name] = field.with_nullable(True)  # noqa: FBT003 - the signature is Arrow's
    return list(joined.values())


def _join(known: pa.DataType, seen: pa.DataType, path: str) -> pa.DataType:
    if known == seen:
        return known
    if isinstance(known, pa.StructType) and isinstance(seen, pa.StructType):
        return pa.struct(_join_fields(list(known), list(seen), f"{path}."))
    if isinstance(known, (pa.ListType, pa.LargeListType)) and isinstance(seen, (pa.ListType, pa.LargeListType)):
        item = known.value_field.with_type(_join(known.value_type, seen.value_type, f"{path}[]"))
        return pa.large_list(item) if isinstance(known, pa.LargeListType) else pa.list_(item)
    if isinstance(known, pa.MapType) and isinstance(seen, pa.MapType):
        return map_type(known.key_field, known.item_field.with_type(_join(known.item_type, seen.item_type, f"{path}{{}}")))
    return _widen(known, seen, path)


_WIDENED = {(Kind.INT, Kind.LONG): True, (Kind.FLOAT, Kind.DOUBLE): True, (Kind.LONG, Kind.INT): False, (Kind.DOUBLE, Kind.FLOAT): False}


def _widen(known: pa.DataType, seen: pa.DataType, path: str) -> pa.DataType:
    """The wider of two scalars, if Iceberg can promote one to the other (specification, "Schema Evolution")."""
    kinds = (shape_of(known, path).kind, shape_of(seen, path).kind)
    if kinds[0] is kinds[1] and kinds[0] not in (Kind.DECIMAL, Kind.FIXED):
        return known
    if kinds in _WIDENED:
        return seen if _WIDENED[kinds] else known
    if isinstance(known, pa.Decimal128Type) and isinstance(seen, pa.Decimal128Type) and known.scale == seen.scale:
        return seen if seen.precision > known.precision else known
    raise Refused(f"column {path}: {known} cannot become {seen}; Iceberg has no such promotion. Add a column of another name")
