"""Applies REST-shaped updates and requirements to table metadata, as plain JSON values (Iceberg table spec, format version 2).

Pure. The input is never changed; the result shares what did not change, so the cost of a commit does not grow with history
beyond one shallow copy of the snapshot list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from frazil.catalogs.port import JsonObject, LoadedTable
from frazil.kit.errors import Conflict, Refused

MAIN: Final = "main"
FORMAT_WRITTEN: Final = 2
"""The format version of tables made and written here."""
LAST_ADDED: Final = -1
"""In ``set-current-schema`` and its like: the one added by this very request."""
METADATA_LOG_MAX: Final = 100
"""Iceberg's default of ``write.metadata.previous-versions-max``."""
_FIRST_PARTITION_FIELD: Final = 1000

Doc = dict[str, Any]


def new_metadata(*, table_uuid: str, location: str, schema: JsonObject, properties: Mapping[str, str], now_ms: int) -> Doc:
    """Metadata of a new, empty, unpartitioned table. ``schema`` already has its field ids."""
    return {
        "format-version": FORMAT_WRITTEN,
        "table-uuid": table_uuid,
        "location": location,
        "last-sequence-number": 0,
        "last-updated-ms": now_ms,
        "last-column-id": highest_field_id(schema),
        "schemas": [schema],
        "current-schema-id": schema["schema-id"],
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": _FIRST_PARTITION_FIELD - 1,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": dict(properties),
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
        "refs": {},
    }


def laid_out(metadata: JsonObject, spec: JsonObject, order: JsonObject) -> Doc:
    """Metadata of a new table that is partitioned by ``spec`` and sorted by ``order``."""
    doc: Doc = dict(metadata)
    ids = [int(field["field-id"]) for field in spec["fields"]]
    doc |= {"partition-specs": [spec], "default-spec-id": spec["spec-id"], "last-partition-id": max([_FIRST_PARTITION_FIELD - 1, *ids])}
    if order["fields"]:
        doc |= {"sort-orders": [*doc["sort-orders"], order], "default-sort-order-id": order["order-id"]}
    return doc


def apply_updates(metadata: JsonObject, updates: Sequence[JsonObject], *, previous_location: str, now_ms: int) -> Doc:
    """Metadata after ``updates``, with ``metadata-log`` naming ``previous_location``. Raises Refused for an update that cannot be applied.

    Times never go back, whatever the clock says (F59).
    """
    doc: Doc = dict(metadata)
    previous_ms = int(metadata["last-updated-ms"])
    doc["last-updated-ms"] = max(now_ms, previous_ms)
    added: dict[str, int] = {}
    for update in updates:
        action = str(update.get("action"))
        step = _STEPS.get(action)
        if step is None:
            raise Refused(f"update {action!r} is not known here")
        step(doc, update, added)
    log_max = _log_max(doc)
    doc["metadata-log"] = [*metadata.get("metadata-log", ()), {"metadata-file": previous_location, "timestamp-ms": previous_ms}][-log_max:]
    return doc


def check_requirements(metadata: JsonObject | None, requirements: Sequence[JsonObject]) -> None:
    """Raises Conflict when one does not hold; ``metadata`` is None when there is no table."""
    for requirement in requirements:
        kind = str(requirement.get("type"))
        if kind == "assert-create":
            if metadata is not None:
                raise Conflict("assert-create: the table exists")
            continue
        if metadata is None:
            raise Conflict(f"{kind}: there is no table")
        if kind == "assert-ref-snapshot-id":
            _expect(kind, requirement.get("snapshot-id"), ref_snapshot(metadata, str(requirement["ref"])))
        elif kind in _ASSERTED:
            key = _ASSERTED[kind]
            _expect(kind, requirement[_REQUIRED.get(kind, key)], metadata.get(key))
        else:
            raise Refused(f"requirement {kind!r} is not known here")


_ASSERTED: Final = {
    "assert-table-uuid": "table-uuid",
    "assert-current-schema-id": "current-schema-id",
    "assert-last-assigned-field-id": "last-column-id",
    "assert-last-assigned-partition-id": "last-partition-id",
    "assert-default-spec-id": "default-spec-id",
    "assert-default-sort-order-id": "default-sort-order-id",
}
_REQUIRED: Final = {
    "assert-table-uuid": "uuid",
    "assert-last-assigned-field-id": "last-assigned-field-id",
    "assert-last-assigned-partition-id": "last-assigned-partition-id",
}


def _expect(kind: str, wanted: object, found: object) -> None:
    if wanted != found:
        raise Conflict(f"{kind}: asserted {wanted}, the table has {found}")


# --- looking things up -------------------------------------------------------------------------------------------------


def check_writable(table: LoadedTable) -> None:
    """Refuses tables that cannot be committed to, before anything is uploaded for them (F67): the catalog offers no commits, or the
    format version's snapshots have other fields than those written here (version 3: row lineage).
    """
    if table.read_only:
        raise Refused(f"table {table.ident}: {table.read_only}")
    version = int(table.metadata["format-version"])
    if version != FORMAT_WRITTEN:
        way = "upgrade the table to 2" if version < FORMAT_WRITTEN else "land into another table"
        raise Refused(f"table {table.ident} has Iceberg format version {version}, and only {FORMAT_WRITTEN} is written here; {way}")


def current_schema(metadata: JsonObject) -> JsonObject:
    """The schema new files are written with."""
    return _by_id(metadata["schemas"], "schema-id", metadata["current-schema-id"])


def partition_spec(metadata: JsonObject, spec_id: int) -> JsonObject:
    """The partition spec of that id."""
    return _by_id(metadata["partition-specs"], "spec-id", spec_id)


def sort_order(metadata: JsonObject, order_id: int) -> JsonObject:
    """The sort order of that id."""
    return _by_id(metadata["sort-orders"], "order-id", order_id)


def ref_snapshot(metadata: JsonObject, ref: str) -> int | None:
    """Snapshot id a branch or tag points at."""
    found = metadata.get("refs", {}).get(ref)
    if found is not None:
        return int(found["snapshot-id"])
    current = metadata.get("current-snapshot-id")
    return int(current) if ref == MAIN and current is not None and current != -1 else None  # metadata older than refs


def snapshot_by_id(metadata: JsonObject, snapshot_id: int | None) -> JsonObject | None:
    """That snapshot, or None when it is not kept."""
    if snapshot_id is None:
        return None
    for snapshot in reversed(metadata.get("snapshots", ())):
        if snapshot["snapshot-id"] == snapshot_id:
            found: JsonObject = snapshot
            return found
    return None


def _by_id(items: Sequence[JsonObject], key: str, wanted: int) -> JsonObject:
    for item in items:
        if item[key] == wanted:
            return item
    raise Refused(f"table metadata has no {key} {wanted}")


def highest_field_id(schema: JsonObject) -> int:
    """The largest field id anywhere in a schema or type."""
    highest = 0
    pending: list[Any] = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, Mapping):
            highest = max(highest, *(int(node.get(key, 0)) for key in ("id", "element-id", "key-id", "value-id")))
            pending.extend(node.values())
        elif isinstance(node, list | tuple):
            pending.extend(node)
    return highest


# --- one function per update -------------------------------------------------------------------------------------------


def _assign_uuid(doc: Doc, update: JsonObject, _: dict[str, int]) -> None:
    if doc.get("table-uuid") not in (None, update["uuid"]):
        raise Refused("assign-uuid: the table has another uuid")
    doc["table-uuid"] = update["uuid"]


def _upgrade(doc: Doc, update: JsonObject, _: dict[str, int]) -> None:
    version = int(update["format-version"])
    if version < doc["format-version"] or version > 2:
        raise Refused(f"upgrade-format-version: from {doc['format-version']} to {version} is not possible here")
    doc["format-version"] = version


def _add_schema(doc: Doc, update: JsonObject, added: dict[str, int]) -> None:
    schema: JsonObject = update["schema"]
    if any(item["schema-id"] == schema["schema-id"] for item in doc["schemas"]):
        raise Refused(f"add-schema: schema {schema['schema-id']} exists")
    doc["schemas"] = [*doc["schemas"], schema]
    doc["last-column-id"] = max(int(doc["last-column-id"]), highest_field_id(schema))
    added["schema"] = int(schema["schema-id"])


def _set_current_schema(doc: Doc, update: JsonObject, added: dict[str, int]) -> None:
    wanted = _resolve(int(update["schema-id"]), added, "schema")
    _by_id(doc["schemas"], "schema-id", wanted)
    doc["current-schema-id"] = wanted


def _add_spec(doc: Doc, update: JsonObject, added: dict[str, int]) -> None:
    spec: JsonObject = update["spec"]
    if any(item["spec-id"] == spec["spec-id"] for item in doc["partition-specs"]):
        raise Refused(f"add-spec: spec {spec['spec-id']} exists")
    doc["partition-specs"] = [*doc["partition-specs"], spec]
    doc["last-partition-id"] = max([int(doc["last-partition-id"]), *(int(field["field-id"]) for field in spec["fields"])])
    added["spec"] = int(spec["spec-id"])


def _set_default_spec(doc: Doc, update: JsonObject, added: dict[str, int]) -> None:
    wanted = _resolve(int(update["spec-id"]), added, "spec")
    _by_id(doc["partition-specs"], "spec-id", wanted)
    doc["default-spec-id"] = wanted


def _add_sort_order(doc: Doc, update: JsonObject, added: dict[str, int]) -> None:
    order: JsonObject = update["sort-order"]
    if any(item["order-id"] == order["order-id"] for item in doc["sort-orders"]):
        raise Refused(f"add-sort-order: order {order['order-id']} exists")
    doc["sort-orders"] = [*doc["sort-orders"], order]
    added["sort-order"] = int(order["order-id"])


def _set_default_sort_order(doc: Doc, update: JsonObject, added: dict[str, int]) -> None:
    wanted = _resolve(int(update["sort-order-id"]), added, "sort-order")
    _by_id(doc["sort-orders"], "order-id", wanted)
    doc["default-sort-order-id"] = wanted


def _add_snapshot(doc: Doc, update: JsonObject, added: dict[str, int]) -> None:
    snapshot: JsonObject = update["snapshot"]
    if snapshot_by_id(doc, snapshot["snapshot-id"]) is not None:
        raise Refused(f"add-snapshot: snapshot {snapshot['snapshot-id']} exists")
    # A request that was delayed past another commit can never be applied: sequence numbers only grow, even over a rollback.
    if snapshot["sequence-number"] <= doc["last-sequence-number"]:
        raise Conflict(f"add-snapshot: sequence number {snapshot['sequence-number']} is not above {doc['last-sequence-number']}")
    doc["snapshots"] = [*doc["snapshots"], snapshot]
    doc["last-sequence-number"] = snapshot["sequence-number"]
    doc["last-updated-ms"] = max(int(doc["last-updated-ms"]), int(snapshot["timestamp-ms"]))
    added["snapshot"] = int(snapshot["snapshot-id"])


def _set_ref(doc: Doc, update: JsonObject, _: dict[str, int]) -> None:
    name = str(update["ref-name"])
    snapshot_id = int(update["snapshot-id"])
    snapshot = snapshot_by_id(doc, snapshot_id)
    if snapshot is None:
        raise Refused(f"set-snapshot-ref {name}: there is no snapshot {snapshot_id}")
    if name == MAIN and update["type"] != "branch":
        raise Refused("set-snapshot-ref main: main is a branch")
    moved = ref_snapshot(doc, name) != snapshot_id
    doc["refs"] = {**doc.get("refs", {}), name: {key: value for key, value in update.items() if key not in ("action", "ref-name")}}
    if name == MAIN and moved:
        doc["current-snapshot-id"] = snapshot_id
        entry = {"snapshot-id": snapshot_id, "timestamp-ms": doc["last-updated-ms"]}
        doc["snapshot-log"] = [*doc.get("snapshot-log", ()), entry]


def _remove_ref(doc: Doc, update: JsonObject, _: dict[str, int]) -> None:
    name = str(update["ref-name"])
    doc["refs"] = {key: value for key, value in doc.get("refs", {}).items() if key != name}
    if name == MAIN:
        doc.pop("current-snapshot-id", None)
        doc["snapshot-log"] = []


def _remove_snapshots(doc: Doc, update: JsonObject, _: dict[str, int]) -> None:
    gone = set(update["snapshot-ids"])
    held = {ref["snapshot-id"]: name for name, ref in doc.get("refs", {}).items()}
    for snapshot_id in sorted(gone & held.keys()):
        raise Refused(f"remove-snapshots: {snapshot_id} is held by ref {held[snapshot_id]}")
    doc["snapshots"] = [item for item in doc["snapshots"] if item["snapshot-id"] not in gone]
    kept = {item["snapshot-id"] for item in doc["snapshots"]}
    log: list[Any] = []
    for entry in doc.get("snapshot-log", ()):
        if entry["snapshot-id"] in kept:
            log.append(entry)
        else:
            log = []  # history before a gap says nothing reliable
    doc["snapshot-log"] = log
    for key in ("statistics", "partition-statistics"):
        if doc.get(key):
            doc[key] = [item for item in doc[key] if item["snapshot-id"] in kept]


def _set_properties(doc: Doc, update: JsonObject, _: dict[str, int]) -> None:
    doc["properties"] = {**doc.get("properties", {}), **update["updates"]}


def _remove_properties(doc: Doc, update: JsonObject, _: dict[str, int]) -> None:
    gone = set(update["removals"])
    doc["properties"] = {key: value for key, value in doc.get("properties", {}).items() if key not in gone}


def _set_location(doc: Doc, update: JsonObject, _: dict[str, int]) -> None:
    doc["location"] = update["location"]


_STEPS: Final[Mapping[str, Callable[[Doc, JsonObject, dict[str, int]], None]]] = {
    "assign-uuid": _assign_uuid,
    "upgrade-format-version": _upgrade,
    "add-schema": _add_schema,
    "set-current-schema": _set_current_schema,
    "add-spec": _add_spec,
    "set-default-spec": _set_default_spec,
    "add-sort-order": _add_sort_order,
    "set-default-sort-order": _set_default_sort_order,
    "add-snapshot": _add_snapshot,
    "set-snapshot-ref": _set_ref,
    "remove-snapshot-ref": _remove_ref,
    "remove-snapshots": _remove_snapshots,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "set-location": _set_location,
}


def _resolve(wanted: int, added: Mapping[str, int], what: str) -> int:
    if wanted != LAST_ADDED:
        return wanted
    if what not in added:
        raise Refused(f"set of the last added {what}, but none was added in this request")
    return added[what]


def _log_max(doc: Doc) -> int:
    text = str(doc.get("properties", {}).get("write.metadata.previous-versions-max", METADATA_LOG_MAX))
    return max(1, int(text)) if text.isdigit() else METADATA_LOG_MAX
