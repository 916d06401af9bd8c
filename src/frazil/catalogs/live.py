"""The live files of a table's head: data and deletes, with their sequence numbers; and the places that position deletes name."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from frazil.catalogs.arrow import ArrowArray
from frazil.catalogs.deletes import EQUALITY, POSITION, read_positions
from frazil.catalogs.lists import ManifestLists
from frazil.catalogs.locations import Locations
from frazil.catalogs.manifests import Entry, Manifest
from frazil.catalogs.metadata_json import MAIN, partition_spec, ref_snapshot, snapshot_by_id
from frazil.catalogs.port import LoadedTable
from frazil.catalogs.scan import read_manifest
from frazil.kit.errors import Corrupt, Missing
from frazil.kit.tasks import Offload
from frazil.objects.port import ObjectStore

_DELETED: Final = 2
_MANIFESTS_MAX: Final = 512
_POSITION_ROWS_MAX: Final = 4_000_000
_compute: Any = pc


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """The live files of one snapshot. ``holders``: which manifest names a file."""

    snapshot_id: int | None
    sequence: int
    data: tuple[Entry, ...]
    deletes: tuple[Entry, ...]
    holders: Mapping[str, Manifest]

    def of_content(self, content: int) -> tuple[Entry, ...]:
        """Position or equality deletes."""
        return tuple(entry for entry in self.deletes if entry.file.content == content)


class LiveFiles:
    """Reads heads. Manifests and position deletes are immutable and small, so recent ones are kept."""

    def __init__(self, objects: ObjectStore, lists: ManifestLists, offload: Offload) -> None:
        self._objects = objects
        self._locations = Locations(objects)
        self._lists = lists
        self._offload = offload
        self._entries: OrderedDict[str, tuple[Entry, ...]] = OrderedDict()
        self._places: OrderedDict[str, pa.Table] = OrderedDict()

    async def of(self, table: LoadedTable) -> Live:
        """The live files of the table's head. Raises Corrupt, RetryLater."""
        head = snapshot_by_id(table.metadata, ref_snapshot(table.metadata, MAIN))
        found: dict[bool, list[Entry]] = {False: [], True: []}
        holders: dict[str, Manifest] = {}
        for line in await self._lists.lines(head):
            for entry in await self.entries(line):
                if entry.status != _DELETED:
                    found[int(line.content) != 0].append(entry)
                    holders[entry.file.path] = line
        return Live(
            snapshot_id=None if head is None else int(head["snapshot-id"]),
            sequence=0 if head is None else int(head["sequence-number"]),
            data=tuple(found[False]),
            deletes=tuple(found[True]),
            holders=holders,
        )

    async def entries(self, line: Manifest) -> tuple[Entry, ...]:
        """Every entry of a manifest, deleted ones too. Raises Corrupt, RetryLater."""
        kept = self._entries.get(line.manifest_path)
        if kept is None:
            kept = self._entries[line.manifest_path] = tuple(await read_manifest(self._objects, self._locations, line))
            if len(self._entries) > _MANIFESTS_MAX:
                self._entries.popitem(last=False)
        self._entries.move_to_end(line.manifest_path)
        return kept

    async def places(self, entry: Entry) -> pa.Table:
        """The rows of a position delete file, sorted by file and place. Raises Corrupt, RetryLater."""
        path = entry.file.path
        kept = self._places.get(path)
        if kept is None:
            data = await whole_file(self._objects, self._locations, path)
            kept = self._places[path] = await self._offload.run(lambda: _read_places(data, path))
            while len(self._places) > 1 and sum(table.num_rows for table in self._places.values()) > _POSITION_ROWS_MAX:
                self._places.popitem(last=False)
        self._places.move_to_end(path)
        return kept

    async def dead(self, deletes: Iterable[Entry]) -> dict[str, ArrowArray]:
        """By data file, the places that these position deletes name, each once. Raises Corrupt, RetryLater."""
        tables = [await self.places(entry) for entry in deletes if entry.file.content == POSITION]
        return await self._offload.run(lambda: _by_file(tables))


async def whole_file(objects: ObjectStore, locations: Locations, path: str) -> bytes:
    """The bytes of a live file. Raises Corrupt when it is missing, RetryLater."""
    try:
        return await objects.get(locations.key_of(path))
    except Missing as error:
        raise Corrupt("a live file of the table does not exist", where=path) from error


async def whole_files(objects: ObjectStore, locations: Locations, entries: Sequence[Entry]) -> list[bytes]:
    """The bytes of several; together, as each is a wait."""
    return await asyncio.gather(*(whole_file(objects, locations, entry.file.path) for entry in entries))


def applies_by_equality(table: LoadedTable, delete: Entry, data: Entry) -> bool:
    """Whether an equality delete is about a data file: newer than it, and of its partition or of none."""
    if delete.file.content != EQUALITY or delete.sequence_number <= data.sequence_number:
        return False
    if not partition_spec(table.metadata, delete.file.spec_id)["fields"]:
        return True
    return delete.file.spec_id == data.file.spec_id and delete.file.partition == data.file.partition


def _read_places(data: bytes, path: str) -> pa.Table:
    try:
        return read_positions(data).combine_chunks()
    except (pa.ArrowInvalid, OSError, KeyError) as error:
        raise Corrupt(f"not readable as position deletes: {error}", where=path) from error


def _by_file(tables: Sequence[pa.Table]) -> dict[str, ArrowArray]:
    found: dict[str, list[ArrowArray]] = {}
    for table in tables:
        for path, places in runs_of(table):
            found.setdefault(path, []).append(places)
    return {path: _compute.unique(pa.concat_arrays(parts)) for path, parts in found.items()}


def runs_of(places: pa.Table) -> list[tuple[str, ArrowArray]]:
    """The places of each file; rows of one file stand together."""
    if not places.num_rows:
        return []
    combined = places.combine_chunks()
    paths: Any = combined.column(0).chunk(0)
    positions: Any = combined.column(1).chunk(0)
    if not pa.types.is_dictionary(paths.type):
        paths = paths.dictionary_encode()
    runs = _compute.run_end_encode(paths.indices)
    ends = runs.run_ends.to_pylist()
    names = paths.dictionary.take(runs.values).to_pylist()
    starts = [0, *ends[:-1]]
    return [(name, positions.slice(start, end - start)) for name, start, end in zip(names, starts, ends, strict=True)]
