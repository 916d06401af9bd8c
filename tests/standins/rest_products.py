"""What single products do otherwise than the Iceberg REST specification's example: for the strict double."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def place_outside(updates: Sequence[Mapping[str, Any]], location: str) -> str:
    """The first place that a commit names outside the table's location, as Polaris refuses it; empty when there is none."""
    for update in updates:
        places = (update.get("snapshot", {}).get("manifest-list"), update.get("location"), update.get("updates", {}).get("write.data.path"))
        for place in filter(None, places):
            if not place.startswith(f"{location}/"):
                return str(place)
    return ""


def as_nessie(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata as Nessie 0.99.0 shows it: the newest snapshot only, without its parent, tags and logs, and with its own properties."""
    head = metadata.get("current-snapshot-id")
    kept = [snapshot for snapshot in metadata["snapshots"] if snapshot["snapshot-id"] == head]
    snapshots = [{name: text for name, text in snapshot.items() if name != "parent-snapshot-id"} for snapshot in kept]
    main = {"main": metadata["refs"]["main"]} if kept else {}
    properties = {**metadata["properties"], "gc.enabled": "false", "nessie.catalog.content-id": metadata["table-uuid"]}
    return {**metadata, "snapshots": snapshots, "refs": main, "snapshot-log": [], "metadata-log": [], "properties": properties}
