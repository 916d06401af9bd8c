"""Writes files of a table again: small ones merged, deleted rows left out (R24). Each rewrite is a REPLACE snapshot of its own.

    head S ─► rows of some files, without what S deletes ─► new files, data sequence number of S
                                                             │
    head T ─► deletes that came since S ─────────────────────┤ by key: they apply to the new files as they are (newer number)
                                                             │ by place: looked up again in the new files by the rows' keys
                                                             └─► commit on T: old files out, new files in, places rewritten

Reading and writing go on beside commits; the committer is asked when everything is an object. A rewrite that is killed leaves files that
nobody names. One that meets deletes by place it cannot translate (a table without known key) gives up: the next pass plans anew (F51).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pyarrow as pa

from frazil.catalogs.arrow import ArrowArray
from frazil.catalogs.commit import Committer
from frazil.catalogs.deletes import EQUALITY, POSITION, Place
from frazil.catalogs.files import DataFile
from frazil.catalogs.keys import Hits, key_columns, match
from frazil.catalogs.live import Live, applies_by_equality, runs_of
from frazil.catalogs.manifests import Entry
from frazil.catalogs.metadata_json import MAIN, ref_snapshot
from frazil.catalogs.port import LoadedTable
from frazil.catalogs.progress import ancestry
from frazil.catalogs.removal import Removal
from frazil.catalogs.rewriteplan import Group, Plan, RewriteSettings, plan_rewrite, wants_conversion
from frazil.catalogs.rowdelta import KEYS_SUMMARY, Places, RowDelta
from frazil.catalogs.rows import Deletes
from frazil.catalogs.schema import arrow_schema
from frazil.catalogs.snapshots import Draft
from frazil.catalogs.writeoptions import write_options

_TRIES: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteReport:
    """What one pass did."""

    merged: int = 0
    """Data files that are part of a larger one now."""
    folded: int = 0
    """Data files written again without deleted rows."""
    converted: int = 0
    """Equality delete files that became deletes by place."""
    given_up: int = 0
    """Rewrites that met what they could not go on with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """A rewrite that waits for its commit: ``outputs`` stand for ``inputs`` as of the head with ``sequence``."""

    inputs: tuple[Entry, ...]
    outputs: tuple[DataFile, ...]
    sequence: int
    seen: frozenset[str]
    """Position deletes that are applied in the outputs."""


class Rewriter:
    """Rewrites of the tables of one catalog. One pass at a time per table; passes run beside commits."""

    def __init__(self, committer: Committer, delta: RowDelta, settings: RewriteSettings | None = None) -> None:
        self._committer = committer
        self._delta = delta
        self._settings = settings or RewriteSettings()
        self._turns: dict[str, asyncio.Lock] = {}

    def turn(self, ident: str) -> asyncio.Lock:
        """Held by whoever writes files of the table again: two at once would each undo the other's work."""
        return self._turns.setdefault(ident, asyncio.Lock())

    async def pass_once(self, ident: str) -> RewriteReport:
        """Plans by the head as it is and does all of it. Raises Missing, Corrupt, Refused; RetryLater: call again."""
        table = await self._committer.catalog.load(ident)
        live = await self._delta.files.of(table)
        converted = 0
        if wants_conversion(live, self._settings):
            converted = await self._convert(ident, table, live)
            table = await self._committer.catalog.load(ident)
            live = await self._delta.files.of(table)
        plan = await self._plan(table, live)
        merged = folded = given_up = 0
        for group in plan.groups:
            async with self.turn(ident):
                done = await self._rewrite(ident, group)
            if not done:
                given_up += 1
            elif group.why == "merge":
                merged += len(group.entries)
            else:
                folded += len(group.entries)
        if plan.gather:
            await self._gather(ident)
        return RewriteReport(merged=merged, folded=folded, converted=converted, given_up=given_up)

    async def _plan(self, table: LoadedTable, live: Live) -> Plan:
        if not live.data:
            return Plan(groups=())
        target = write_options(table.metadata.get("properties", {})).target_bytes
        settings = replace(self._settings, target_bytes=min(target, self._settings.target_bytes))
        dead = await self._delta.files.dead(live.of_content(POSITION)) if live.deletes else {}
        counts = {path: len(places) for path, places in dead.items()}
        return plan_rewrite(live, counts, settings)

    # --- one rewrite -------------------------------------------------------------------------------------------------

    async def _rewrite(self, ident: str, group: Group) -> bool:
        """False: what it stands on is gone."""
        table = await self._committer.catalog.load(ident)
        live = await self._delta.files.of(table)
        now = {entry.file.path: entry for entry in live.data}
        inputs = tuple(now[entry.file.path] for entry in group.entries if entry.file.path in now)
        if not inputs or (group.why == "merge" and len(inputs) < 2):
            return False
        made = await self._write(table, live, inputs)
        for _ in range(_TRIES):
            newest = await self._committer.catalog.load(ident)
            if newest.uuid != table.uuid or newest.metadata["current-schema-id"] != table.metadata["current-schema-id"]:
                break
            if await self._is_in(newest, made):
                self._delta.finder.forget(entry.file.path for entry in inputs)
                return True
            draft = await self._draft(newest, made)
            if draft is None:
                break
            if await self._commit(ident, newest, draft):
                self._delta.finder.forget(entry.file.path for entry in inputs)
                return True
        return False

    async def _write(self, table: LoadedTable, live: Live, inputs: tuple[Entry, ...]) -> _Made:
        deletes = await self._delta.reader.deletes(live)
        parts = [await self._delta.reader.surviving(table, entry, deletes) for entry in inputs]
        rows = pa.concat_tables(parts)
        outputs = await self._delta.writer.write(table, rows) if rows.num_rows else ()
        seen = frozenset(entry.file.path for entry in live.of_content(POSITION))
        return _Made(inputs=inputs, outputs=tuple(outputs), sequence=live.sequence, seen=seen)

    async def _is_in(self, table: LoadedTable, made: _Made) -> bool:
        """Whether an earlier try came through although its answer was lost."""
        live = await self._delta.files.of(table)
        return bool(made.outputs) and made.outputs[0].path in live.holders

    async def _commit(self, ident: str, head: LoadedTable, draft: Draft) -> bool:
        expected = ref_snapshot(head.metadata, MAIN)

        async def plan(newest: LoadedTable) -> Draft | None:
            same = newest.uuid == head.uuid and ref_snapshot(newest.metadata, MAIN) == expected
            return draft if same else None

        return await self._committer.replace(ident, plan) is not None

    async def _draft(self, table: LoadedTable, made: _Made) -> Draft | None:
        """The commit on top of this head. None: an input is gone, or deletes have come that cannot be translated."""
        live = await self._delta.files.of(table)
        inputs = {entry.file.path for entry in made.inputs}
        if not inputs <= live.holders.keys():
            return None
        positions = live.of_content(POSITION)
        late = await self._late(positions, made, inputs)
        moved: tuple[Hits, ...] | None = await self._translate(table, made, late) if late else ()
        if moved is None:
            return None
        outdated, kept = await self._delta.without(positions, inputs)
        deletes = [*(await self._delta.delete_hits(table, moved)), *(await self._delta.write_places(table, kept))]
        spent = self._spent_equality(table, live, inputs, made)
        removal = await self._delta.remover.plan(table, live, {*inputs, *outdated, *spent})
        return self._drafted(table, (*made.outputs, *deletes), removal, made.sequence)

    # --- deletes by place --------------------------------------------------------------------------------------------

    async def _late(self, positions: Sequence[Entry], made: _Made, inputs: set[str]) -> dict[str, ArrowArray]:
        """Places in the inputs that were deleted after these were read."""
        dead = await self._delta.files.dead([entry for entry in positions if entry.file.path not in made.seen])
        return {path: places for path, places in dead.items() if path in inputs}

    async def _translate(self, table: LoadedTable, made: _Made, late: Mapping[str, ArrowArray]) -> tuple[Hits, ...] | None:
        """The same rows in the outputs, found by their keys. None: the table's key is not known."""
        names = _key_of(table)
        have = arrow_schema(table)
        if names is None or any(name not in have.names for name in names):
            return None
        schema = key_columns(have, names)
        by_path = {entry.file.path: entry for entry in made.inputs}
        keys = [(await self._delta.finder.columns(by_path[path], schema)).take(places) for path, places in late.items()]
        outputs = [
            Entry(status=1, snapshot_id=0, sequence_number=made.sequence, file_sequence_number=made.sequence, file=file)
            for file in made.outputs
        ]
        return tuple(await self._delta.finder.find(outputs, pa.concat_tables(keys), schema))

    async def _gather(self, ident: str) -> bool:
        """Position deletes in as few files as there are partitions; what is about files that are gone is left out."""
        table = await self._committer.catalog.load(ident)
        live = await self._delta.files.of(table)
        data = {entry.file.path for entry in live.data}
        gone = {
            path for entry in live.of_content(POSITION) for path, _ in runs_of(await self._delta.files.places(entry)) if path not in data
        }
        positions = live.of_content(POSITION)
        kept: Places = {}
        for entry in positions:
            place = Place(spec_id=entry.file.spec_id, partition=entry.file.partition)
            for path, places in runs_of(await self._delta.files.places(entry)):
                if path not in gone:
                    kept.setdefault(place, {}).setdefault(path, []).append(places)
        if len(kept) >= len(positions):
            return False
        files = await self._delta.write_places(table, kept)
        removal = await self._delta.remover.plan(table, live, {entry.file.path for entry in positions})
        return await self._commit(ident, table, self._drafted(table, files, removal))

    # --- deletes by key ----------------------------------------------------------------------------------------------

    async def _convert(self, ident: str, table: LoadedTable, live: Live) -> int:
        """Equality deletes become deletes by place: their keys are looked up once, for all readers. Returns how many files went."""
        equality = live.of_content(EQUALITY)
        hits = [hit for entry in live.data for hit in await self._hits(table, entry, equality)]
        files = await self._delta.delete_hits(table, hits)
        for _ in range(_TRIES):
            newest = await self._committer.catalog.load(ident)
            now = await self._delta.files.of(newest)
            if newest.uuid != table.uuid or not all(hit.entry.file.path in now.holders for hit in hits):
                return 0
            left = {entry.file.path for entry in equality if entry.file.path in now.holders}
            if not left:
                return len(equality)
            if await self._commit(ident, newest, self._drafted(newest, files, await self._delta.remover.plan(newest, now, left))):
                return len(left)
        return 0

    async def _hits(self, table: LoadedTable, entry: Entry, equality: tuple[Entry, ...]) -> list[Hits]:
        schema = arrow_schema(table)
        found: list[Hits] = []
        for keys in await self._delta.reader.keys_against(table, entry, Deletes(dead={}, equality=equality)):
            columns = await self._delta.finder.columns(entry, key_columns(schema, keys.column_names))
            rows = await self._committer.deps.offload.run(partial(match, columns, keys))
            if rows.num_rows:
                found.append(Hits(entry=entry, rows=rows))
        return found

    def _drafted(self, table: LoadedTable, files: Sequence[DataFile], removal: Removal, sequence: int | None = None) -> Draft:
        return Draft(
            operation="replace",
            files=files,
            removed=removal.files,
            rewritten=removal.rewritten,
            replaced=removal.replaced,
            snapshot_id=removal.snapshot_id,
            sequence=sequence,
            summary=_key_summary(table),
        )

    def _spent_equality(self, table: LoadedTable, live: Live, inputs: set[str], made: _Made) -> set[str]:
        """Equality deletes that no data file is older than any more once this rewrite is in."""
        rest = [entry for entry in live.data if entry.file.path not in inputs]
        outputs = [
            Entry(status=1, snapshot_id=0, sequence_number=made.sequence, file_sequence_number=made.sequence, file=file)
            for file in made.outputs
        ]
        return {
            delete.file.path
            for delete in live.of_content(EQUALITY)
            if not any(applies_by_equality(table, delete, entry) for entry in (*rest, *outputs))
        }


def _key_of(table: LoadedTable) -> list[str] | None:
    """The columns that make a row the same row, as the newest of our snapshots says."""
    for snapshot in ancestry(table.metadata, ref_snapshot(table.metadata, MAIN)):
        text = snapshot.get("summary", {}).get(KEYS_SUMMARY)
        if text is not None:
            return [str(name) for name in json.loads(text)]
    return None


def _key_summary(table: LoadedTable) -> dict[str, str]:
    names = _key_of(table)
    return {} if names is None else {KEYS_SUMMARY: json.dumps(names)}
