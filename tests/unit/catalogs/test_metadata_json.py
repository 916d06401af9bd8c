"""Updates and requirements on plain JSON metadata; the library's model is the judge of what comes out."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table.metadata import TableMetadataUtil

from frazil.catalogs.metadata_json import apply_updates, check_requirements, new_metadata, ref_snapshot
from frazil.catalogs.schema import new_schema
from frazil.kit.errors import Conflict, Refused

UUID = "11111111-1111-4111-8111-111111111111"
SCHEMA = new_schema(pa.schema([("a", pa.int64())]))


def fresh(**properties: str) -> dict[str, Any]:
    return new_metadata(table_uuid=UUID, location="file:///t", schema=SCHEMA, properties=properties, now_ms=1000)


def apply(metadata: dict[str, Any], *updates: dict[str, Any], now_ms: int = 2000) -> dict[str, Any]:
    before = json.dumps(metadata)
    found = apply_updates(metadata, updates, previous_location="file:///t/metadata/0.json", now_ms=now_ms)
    assert json.dumps(metadata) == before, "the input was changed"
    TableMetadataUtil.parse_raw(json.dumps(found))
    return found


def snapshot(number: int, parent: int | None = None, **more: Any) -> dict[str, Any]:
    value = {
        "snapshot-id": number,
        "sequence-number": number,
        "timestamp-ms": 1000 + number,
        "manifest-list": "x",
        "summary": {"operation": "append"},
    }
    return {"action": "add-snapshot", "snapshot": value | ({"parent-snapshot-id": parent} if parent else {}) | more}


def main_at(number: int) -> dict[str, Any]:
    return {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": number}


def test_new_metadata_is_valid_for_the_library() -> None:
    parsed = TableMetadataUtil.parse_raw(json.dumps(fresh(k="v")))
    assert parsed.format_version == 2
    assert parsed.current_snapshot_id is None
    assert parsed.properties == {"k": "v"}


def test_snapshots_refs_and_logs() -> None:
    one = apply(fresh(), snapshot(1), main_at(1), now_ms=5000)
    two = apply(one, snapshot(2, 1), main_at(2), now_ms=4000)
    assert two["current-snapshot-id"] == 2 and two["last-sequence-number"] == 2
    assert two["last-updated-ms"] == 5000, "times never go back (F59)"
    assert [entry["snapshot-id"] for entry in two["snapshot-log"]] == [1, 2]
    assert [entry["timestamp-ms"] for entry in two["metadata-log"]] == [1000, 5000]
    back = apply(two, main_at(1))
    assert ref_snapshot(back, "main") == 1 and len(back["snapshots"]) == 2
    gone = apply(back, {"action": "remove-snapshots", "snapshot-ids": [2]})
    assert [item["snapshot-id"] for item in gone["snapshots"]] == [1]
    assert [entry["snapshot-id"] for entry in gone["snapshot-log"]] == [1]
    empty = apply(gone, {"action": "remove-snapshot-ref", "ref-name": "main"})
    assert ref_snapshot(empty, "main") is None


def test_a_snapshot_held_by_a_ref_is_not_removed() -> None:
    metadata = apply(fresh(), snapshot(1), {"action": "set-snapshot-ref", "ref-name": "t", "type": "tag", "snapshot-id": 1})
    with pytest.raises(Refused, match="held by ref t"):
        apply(metadata, {"action": "remove-snapshots", "snapshot-ids": [1]})


def test_r16_a_snapshot_with_a_passed_sequence_number_is_a_conflict_even_after_a_rollback() -> None:
    metadata = apply(apply(fresh(), snapshot(1), main_at(1)), snapshot(2, 1), main_at(2))
    back = apply(metadata, main_at(1))
    with pytest.raises(Conflict, match="sequence number"):
        apply(back, snapshot(3, 1, **{"sequence-number": 2}))


def test_metadata_log_keeps_to_the_property() -> None:
    metadata = fresh(**{"write.metadata.previous-versions-max": "3"})
    for _ in range(10):
        metadata = apply(metadata, {"action": "set-properties", "updates": {"a": "b"}})
    assert len(metadata["metadata-log"]) == 3


def test_schema_spec_and_order() -> None:
    wider = {**SCHEMA, "schema-id": 1, "fields": [*SCHEMA["fields"], {"id": 2, "name": "b", "required": False, "type": "string"}]}
    spec = {"spec-id": 1, "fields": [{"source-id": 1, "field-id": 1000, "name": "a_bucket", "transform": "bucket[4]"}]}
    order = {"order-id": 1, "fields": [{"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}]}
    metadata = apply(
        fresh(),
        {"action": "add-schema", "schema": wider},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": spec},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": order},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-properties", "updates": {"x": "1", "y": "2"}},
        {"action": "remove-properties", "removals": ["x", "none"]},
        {"action": "set-location", "location": "file:///u"},
        {"action": "assign-uuid", "uuid": UUID},
        {"action": "upgrade-format-version", "format-version": 2},
    )
    found = [
        metadata[key] for key in ("current-schema-id", "last-column-id", "default-spec-id", "last-partition-id", "default-sort-order-id")
    ]
    assert found == [1, 2, 1, 1000, 1]
    assert metadata["properties"] == {"y": "2"} and metadata["location"] == "file:///u"


@pytest.mark.parametrize(
    "update",
    [
        {"action": "no-such"},
        {"action": "add-schema", "schema": SCHEMA},
        {"action": "set-current-schema", "schema-id": 9},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "assign-uuid", "uuid": "22222222-2222-4222-8222-222222222222"},
        {"action": "upgrade-format-version", "format-version": 3},
        {"action": "upgrade-format-version", "format-version": 1},
        main_at(77),
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "tag", "snapshot-id": 1},
    ],
)
def test_impossible_updates_are_refused(update: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        apply(apply(fresh(), snapshot(1)), update)


REQUIREMENTS = [
    ({"type": "assert-table-uuid", "uuid": UUID}, {"uuid": "2"}),
    ({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1}, {"snapshot-id": None}),
    ({"type": "assert-ref-snapshot-id", "ref": "none", "snapshot-id": None}, {"snapshot-id": 1}),
    ({"type": "assert-current-schema-id", "current-schema-id": 0}, {"current-schema-id": 1}),
    ({"type": "assert-last-assigned-field-id", "last-assigned-field-id": 1}, {"last-assigned-field-id": 2}),
    ({"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999}, {"last-assigned-partition-id": 1000}),
    ({"type": "assert-default-spec-id", "default-spec-id": 0}, {"default-spec-id": 1}),
    ({"type": "assert-default-sort-order-id", "default-sort-order-id": 0}, {"default-sort-order-id": 1}),
]


@pytest.mark.parametrize(("holds", "differs"), REQUIREMENTS)
def test_requirements(holds: dict[str, Any], differs: dict[str, Any]) -> None:
    metadata = apply(fresh(), snapshot(1), main_at(1))
    check_requirements(metadata, [holds])
    with pytest.raises(Conflict):
        check_requirements(metadata, [{**holds, **differs}])
    with pytest.raises(Conflict):
        check_requirements(None, [holds])


def test_assert_create_and_unknown_requirements() -> None:
    check_requirements(None, [{"type": "assert-create"}])
    with pytest.raises(Conflict):
        check_requirements(fresh(), [{"type": "assert-create"}])
    with pytest.raises(Refused):
        check_requirements(fresh(), [{"type": "assert-moon"}])
