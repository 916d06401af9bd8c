"""What a bucket holds that metadata, being an older copy, may not know: segments by topic, bundles, and what they tell (R22).

The bound that restore stands on: an offset given out after the copy was made lies in a run of a bundle. A bundle goes only when all
its runs are sealed or below the log start. So nothing was given out beyond the highest end that segments, marks, pins or tables
show, plus the offsets of all runs that metadata has no commit of, in bundles that could still be committed when the copy was made.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from frazil.kit.errors import Corrupt, Missing, Refused
from frazil.kit.names import PartitionId, PartitionKey
from frazil.log.commitrecord import decode_commit
from frazil.log.horizon import read_horizon
from frazil.log.partitions import Segment
from frazil.log.shards import COMMIT
from frazil.log.upkeep import UpkeepDeps
from frazil.metadata import prefix_end
from frazil.segments import read_directory, read_segment
from frazil.segments.bundles import FOOTER_BYTES, tail_bytes_needed
from frazil.segments.keys import bundle_key, bundle_ulid, parse_segment_key

LogName = tuple[str, int, int]
"""Topic, incarnation, partition."""
_BATCH_BYTES_MAX = 2**31 - 1


@dataclass(slots=True)
class Found:
    """The bucket as listed."""

    segments: dict[LogName, list[tuple[int, str, int]]] = field(default_factory=dict)
    """Base, object key, size of every segment."""
    bundles: dict[str, int] = field(default_factory=dict)
    """Sizes of bundles by ULID."""
    open_offsets: Counter[PartitionKey] = field(default_factory=Counter)
    """Offsets of runs without a commit in metadata that may have been committed elsewhere."""
    open_bundles: int = 0
    """Bundles with such runs."""
    damaged: list[str] = field(default_factory=list)
    blind: bool = False
    """A bundle's directory cannot be read: nobody knows whose offsets it holds."""

    @property
    def newest_bundle(self) -> str:
        """The highest ULID; empty without bundles."""
        return max(self.bundles, default="")


async def look(deps: UpkeepDeps) -> Found:
    """Lists the bucket and reads the directories of bundles that metadata does not account for. Raises RetryLater."""
    found = Found()
    async for info in deps.objects.list(f"{deps.namespace}/"):
        key = parse_segment_key(info.key)
        if key is not None:
            name = (key.topic, key.incarnation, key.partition)
            found.segments.setdefault(name, []).append((key.base_offset, info.key, info.size_bytes))
    async for info in deps.objects.list("bundles/"):
        ulid = bundle_ulid(info.key)
        if ulid is not None:
            found.bundles[ulid] = info.size_bytes
    committed, closed = await _committed(deps)
    for ulid in sorted(found.bundles):
        if ulid > closed:  # at or below the copy's horizon nothing was committed after the copy (R01)
            await _count_open(deps, found, ulid, committed.get(ulid, set()))
    return found


async def _committed(deps: UpkeepDeps) -> tuple[dict[str, set[PartitionKey]], str]:
    """Whose runs of each bundle are committed in metadata (a bundle may be committed in parts), and the horizon."""
    committed: dict[str, set[PartitionKey]] = {}
    closed = (await read_horizon(deps.store)).ulid
    for entry in (await deps.store.range(COMMIT, prefix_end(COMMIT))).entries:
        record = decode_commit(entry.value, where=entry.key)
        keys = committed.setdefault(record.ulid, set())
        for section in record.sections:
            keys.update(PartitionKey(row.topic_id, PartitionId(row.partition)) for row in section.rows)
    return committed, closed


async def _count_open(deps: UpkeepDeps, found: Found, ulid: str, committed: set[PartitionKey]) -> None:
    key, size = bundle_key(ulid), found.bundles[ulid]
    try:
        tail = await deps.objects.get(key, start=max(0, size - FOOTER_BYTES))
        tail = await deps.objects.get(key, start=size - tail_bytes_needed(tail, size, where=key))
        runs = read_directory(tail, size, where=key)
    except (Corrupt, Refused, Missing) as error:
        found.damaged.append(f"bundle {key}: {error}")
        found.blind = True
        return
    open_runs = [run for run in runs if PartitionKey(run.topic_id, run.partition) not in committed]
    for run in open_runs:
        found.open_offsets[PartitionKey(run.topic_id, run.partition)] += run.offset_count
    found.open_bundles += bool(open_runs)


async def read_whole_segment(deps: UpkeepDeps, found: Found, object_key: str) -> Segment | None:
    """A segment checked from end to end, as its record would describe it; None, and a note, when it is damaged."""
    try:
        data = await deps.objects.get(object_key)
        view = await deps.offload.run(lambda: read_segment(data, where=object_key, batch_bytes_max=_BATCH_BYTES_MAX))
    except (Corrupt, Missing) as error:
        found.damaged.append(f"segment {error}")
        return None
    first = view.batches[0]
    return Segment(
        base=view.base_offset,
        end=view.last_offset + 1,
        object_key=object_key,
        object_bytes=len(data),
        body_bytes=len(view.body),
        records=view.message_count,
        first_timestamp_ms=first.max_timestamp_ms if first.attributes & 0x08 else first.base_timestamp_ms,
        max_timestamp_ms=max(batch.max_timestamp_ms for batch in view.batches),
        crc=view.crc,
        created_ms=view.created_ms,
    )
