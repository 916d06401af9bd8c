"""Which snapshots a table keeps (pure, R17): the last of every branch, one per hour and per day of the recent past, and all refs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from frazil.catalogs.metadata_json import MAIN, ref_snapshot
from frazil.catalogs.port import JsonObject
from frazil.catalogs.progress import ancestry

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """How much history is kept."""

    last: int = 100
    """Snapshots of each branch, counted from its head."""
    hours: int = 24
    """The newest snapshot of each of so many hours."""
    days: int = 7
    """The newest snapshot of each of so many days."""


def keeps_everything(metadata: JsonObject) -> bool:
    """Iceberg's ``gc.enabled=false``: nothing of the table may be expired or deleted, because others than its metadata name its files.

    Nessie gives it to each table: other branches and older commits are there.
    """
    return str(metadata.get("properties", {}).get("gc.enabled", "true")).lower() == "false"


def expired(metadata: JsonObject, keep: Keep) -> list[int]:
    """Snapshot ids to remove, oldest first. Ages are counted from the newest snapshot, not by anybody's clock (F59)."""
    snapshots = metadata.get("snapshots", ())
    if not snapshots:
        return []
    kept = {int(ref["snapshot-id"]) for ref in metadata.get("refs", {}).values()}
    heads = [int(ref["snapshot-id"]) for ref in metadata.get("refs", {}).values() if ref["type"] == "branch"]
    main = ref_snapshot(metadata, MAIN)
    for head in [*heads, *([main] if main is not None else [])]:
        for number, snapshot in enumerate(ancestry(metadata, head)):
            if number >= max(1, keep.last):
                break
            kept.add(int(snapshot["snapshot-id"]))
    newest_ms = max(int(snapshot["timestamp-ms"]) for snapshot in snapshots)
    for unit_ms, count in ((_HOUR_MS, keep.hours), (_DAY_MS, keep.days)):
        per_unit = {int(snapshot["timestamp-ms"]) // unit_ms: int(snapshot["snapshot-id"]) for snapshot in snapshots}
        kept |= {snapshot_id for unit, snapshot_id in per_unit.items() if unit > newest_ms // unit_ms - count}
    return [int(snapshot["snapshot-id"]) for snapshot in snapshots if int(snapshot["snapshot-id"]) not in kept]
