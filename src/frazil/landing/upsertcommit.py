"""Commits of tables with one row per key: the new rows and what makes the old ones go are one snapshot.

Old rows are found in the head that the commit asserts. When the head moves meanwhile (a rewrite of our own, as a rule), they are looked up
again in the new one; the data files are kept.
"""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Final

import pyarrow as pa

from frazil.catalogs.commit import Committed, Landed, Lost
from frazil.catalogs.metadata_json import MAIN, ref_snapshot
from frazil.catalogs.port import LoadedTable
from frazil.catalogs.progress import ancestry, read_progress
from frazil.catalogs.rowdelta import KEYS_SUMMARY, Delta
from frazil.landing.changes import ORDER, ROW, Changes, Collapsed, collapse
from frazil.landing.columns import Column
from frazil.landing.folding import deletes_of
from frazil.landing.lake import Lake
from frazil.landing.write import Touched

_REPLACE: Final = "replace"


async def last_events(lake: Lake, table: LoadedTable, events: pa.Table, rows: pa.Table, changes: Changes) -> tuple[pa.Table, Touched]:
    """The rows to write of a slice, and the keys they take the place of. Raises Refused, Corrupt, RetryLater."""
    upsert = changes.upsert
    assert upsert is not None
    found = await lake.offload.run(lambda: collapse(events, rows, changes))
    if not upsert.by_offset:
        newer = await lake.delta.newer(table, found.keys, list(upsert.keys), upsert.order, ORDER)
        found = await lake.offload.run(lambda: _only(found, newer, rows))
    return found.rows, Touched(keys=found.keys.select(list(upsert.keys)), write=upsert.write, ordered=not upsert.by_offset)


def _only(found: Collapsed, kept: Column, rows: pa.Table) -> Collapsed:
    """Without the events that are older than the row the table has."""
    if len(kept) == found.keys.num_rows:
        return found
    keys = found.keys.take(kept)
    places = keys.column(ROW).combine_chunks().sort()
    return Collapsed(rows=rows.take(places), keys=keys)


async def commit_upsert(lake: Lake, landed: Landed, touched: Touched) -> Committed | Lost:
    """See ``commit_slice``. Raises Refused, Missing, Corrupt."""
    summary = {**landed.summary, KEYS_SUMMARY: json.dumps(touched.keys.column_names)}
    base = await _room(lake, landed, touched)
    while True:
        async with AsyncExitStack() as held:
            base, delta = await _delta(lake, base, touched, landed, held)
            lake.committer.deps.faults.reach("P3")
            outcome = await lake.committer.commit(
                replace(landed, base=base, files=(*landed.files, *delta.files), removal=delta.removal, summary=summary, rebase=False)
            )
        if isinstance(outcome, Committed) and lake.folding is not None:
            lake.folding.ask_after(outcome.table)
        if isinstance(outcome, Committed) or not _may_go_on(base, outcome, landed, touched):
            return outcome
        # What was made for the head that has passed is in no snapshot; care collects it when it is not certain that it never will be.
        made = {lake.committer.locations.key_of(file.path) for file in delta.files}
        await lake.objects.delete([key for key in outcome.orphans if key in made])
        base = outcome.table


async def _delta(lake: Lake, base: LoadedTable, touched: Touched, landed: Landed, held: AsyncExitStack) -> tuple[LoadedTable, Delta]:
    """What makes the old rows go, and the head it was made for. Files are written again in turn with the folds of the table (``held``)."""
    folding, ident = lake.folding, base.ident
    if touched.write == "equality":
        return base, await lake.delta.equality(base, touched.keys, landed.change)
    if touched.write == "copy":
        if folding is not None:
            await held.enter_async_context(folding.turn(ident))
            base = await _newest(lake, base, landed, touched)
        return base, await lake.delta.copy(base, touched.keys)
    found = await lake.delta.look(base, touched.keys, None if folding is None else folding.bounds)
    if found.heavy and folding is not None:
        await held.enter_async_context(folding.turn(ident))
        newest = await _newest(lake, base, landed, touched)
        if ref_snapshot(newest.metadata, MAIN) != ref_snapshot(base.metadata, MAIN):
            base, found = newest, await lake.delta.look(newest, touched.keys, folding.bounds)
    return base, await lake.delta.positions(base, found)


async def _newest(lake: Lake, base: LoadedTable, landed: Landed, touched: Touched) -> LoadedTable:
    """The head as it is now when the same rows may go on top of it; else the old one, and the commit will say so."""
    newest = await lake.catalog.load(base.ident)
    lost = Lost(table=newest, progress=await read_progress(lake.objects, newest), orphans=(), why="")
    return newest if _may_go_on(base, lost, landed, touched) else base


async def _room(lake: Lake, landed: Landed, touched: Touched) -> LoadedTable:
    """Waits until the table's delete files are no longer more than its readers should pay for; the head to go on with."""
    base, folding = landed.base, lake.folding
    if folding is None:
        return base
    try:
        while folding.is_overdue(base):
            lake.committer.note(base.ident, "waits for the fold of deleted rows: updates come faster than they can be folded")
            await folding.passed(base.ident)
            newest = await _newest(lake, base, landed, touched)
            if newest is base or deletes_of(newest) == deletes_of(base):
                return newest  # nobody's to fold: readers have to live with them
            base = newest
    finally:
        lake.committer.note(base.ident, None)
    return base


def _may_go_on(base: LoadedTable, lost: Lost, landed: Landed, touched: Touched) -> bool:
    """Whether the same rows may go on top of the head as it is now: nobody else moved this progress, or changed columns or rows."""
    if any(lost.progress.get(key) != move.before for key, move in landed.moves.items()):
        return False
    before, after = base.metadata, lost.table.metadata
    if any(before[name] != after[name] for name in ("table-uuid", "current-schema-id", "default-spec-id", "last-column-id")):
        return False
    old = ref_snapshot(before, MAIN)
    for snapshot in ancestry(after, ref_snapshot(after, MAIN)):
        if snapshot["snapshot-id"] == old:
            return True
        if touched.ordered and snapshot.get("summary", {}).get("operation") != _REPLACE:
            return False
    return old is None and not touched.ordered
