"""Arrow ↔ Iceberg schemas, and evolution that only adds or widens."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from frazil.catalogs.metadata_json import highest_field_id
from frazil.catalogs.port import LoadedTable
from frazil.catalogs.schema import leaves, new_schema, plan_schema, to_arrow
from frazil.kit.errors import Refused

NESTED = pa.schema(
    [
        pa.field("a", pa.int32(), nullable=False),
        ("s", pa.struct([("x", pa.int32()), ("l", pa.list_(pa.struct([("p", pa.string())])))])),
        ("m", pa.map_(pa.string(), pa.float32())),
        ("d", pa.decimal128(10, 2)),
        ("u", pa.uuid()),
        ("t", pa.timestamp("us")),
        ("z", pa.timestamp("us", tz="UTC")),
    ]
)


def table_of(schema: pa.Schema) -> LoadedTable:
    json = new_schema(schema)
    metadata = {"schemas": [json], "current-schema-id": 0, "last-column-id": highest_field_id(json)}
    return LoadedTable(ident="a.b", metadata=metadata, metadata_location="x")


def test_the_library_reads_our_schema_as_the_same_arrow_types() -> None:
    json = new_schema(NESTED)
    theirs = schema_to_pyarrow(Schema.model_validate(json))
    assert str(theirs.remove_metadata()).replace("large_", "") == str(to_arrow(json).remove_metadata()).replace("large_", "")


def test_ids_are_unique_and_dense() -> None:
    json = new_schema(NESTED)
    ids = [leaf.field_id for leaf in leaves(json["fields"])]
    assert len(set(ids)) == len(ids)
    assert highest_field_id(json) == 7 + 2 + 1 + 1 + 2


def test_nothing_to_change_is_none() -> None:
    table = table_of(NESTED)
    assert plan_schema(table, NESTED) is None
    narrower = pa.schema([("a", pa.int16()), ("m", pa.map_(pa.string(), pa.float32()))])
    assert plan_schema(table, narrower) is None
    assert plan_schema(table, pa.schema([("a", pa.null())])) is None


@pytest.mark.parametrize(
    ("wanted", "path", "kind"),
    [
        (pa.schema([("a", pa.int64())]), ("a",), "long"),
        (pa.schema([("m", pa.map_(pa.string(), pa.float64()))]), ("m", "key_value", "value"), "double"),
        (pa.schema([("d", pa.decimal128(20, 2))]), ("d",), "decimal(20, 2)"),
        (pa.schema([("s", pa.struct([("new", pa.bool_())]))]), ("s", "new"), "boolean"),
        (pa.schema([("s", pa.struct([("l", pa.list_(pa.struct([("q", pa.binary())])))]))]), ("s", "l", "list", "element", "q"), "binary"),
        (pa.schema([("n", pa.dictionary(pa.int32(), pa.string()))]), ("n",), "string"),
    ],
)
def test_additions_and_widenings(wanted: pa.Schema, path: tuple[str, ...], kind: str) -> None:
    table = table_of(NESTED)
    change = plan_schema(table, wanted)
    assert change is not None
    before = {leaf.path: leaf for leaf in leaves(table.metadata["schemas"][0]["fields"])}
    after = {leaf.path: leaf for leaf in leaves(change.schema["fields"])}
    assert after[path].type == kind
    assert {path: leaf.field_id for path, leaf in before.items()}.items() <= {path: leaf.field_id for path, leaf in after.items()}.items()
    if path not in before:
        assert after[path].field_id > table.metadata["last-column-id"]
    assert change.schema["schema-id"] == 1
    assert change.requirements()[1]["last-assigned-field-id"] == table.metadata["last-column-id"]


def test_a_new_column_is_optional_even_when_the_rows_say_otherwise() -> None:
    change = plan_schema(table_of(NESTED), pa.schema([pa.field("new", pa.int64(), nullable=False)]))
    assert change is not None
    assert change.schema["fields"][-1]["required"] is False


@pytest.mark.parametrize(
    "wanted",
    [
        pa.schema([("a", pa.string())]),
        pa.schema([("d", pa.decimal128(20, 3))]),
        pa.schema([("z", pa.timestamp("us"))]),
        pa.schema([("s", pa.int64())]),
        pa.schema([("a", pa.struct([("x", pa.int64())]))]),
        pa.schema([("m", pa.map_(pa.int64(), pa.float32()))]),
        pa.schema([("new", pa.uint64())]),
        pa.schema([("new", pa.struct([]))]),
        pa.schema([("x", pa.int64()), ("x", pa.int64())]),
    ],
)
def test_everything_else_is_refused(wanted: pa.Schema) -> None:
    with pytest.raises(Refused, match="column"):
        plan_schema(table_of(NESTED), wanted)


def test_unknown_iceberg_type_is_refused() -> None:
    json: dict[str, Any] = {"fields": [{"id": 1, "name": "v", "required": False, "type": "variant"}]}
    with pytest.raises(Refused, match="variant"):
        to_arrow(json)
