"""Columns that writers' schemas add to those a table has."""

from __future__ import annotations

import pyarrow as pa

from frazil.kit.errors import Refused
from frazil.schemas.evolve import evolve


def join(existing: pa.Schema, seen: pa.Schema) -> pa.Schema:
    """``existing`` grown by what of ``seen`` it can take, column by column; the rest stays out, and its values are judged one by one."""
    for field in seen:
        try:
            existing = evolve(existing, pa.schema([field]))
        except Refused:
            continue
    return existing


def difference(before: pa.Schema, after: pa.Schema) -> pa.Schema | None:
    """The columns of ``after`` that are new or another than in ``before``; None when there are none."""
    known = {field.name: field for field in before}
    new = [field for field in after if field.name not in known or not known[field.name].equals(field)]
    return pa.schema(new) if new else None


def count_fields(schema: pa.Schema) -> int:
    """All fields, nested ones too."""
    return sum(1 + _inner_fields(field.type) for field in schema)


def _inner_fields(arrow: pa.DataType) -> int:
    return (
        sum(1 + _inner_fields(arrow.field(at).type) for at in range(arrow.num_fields))
        if not isinstance(arrow, pa.MapType)
        else (1 + _inner_fields(arrow.item_type))
    )
