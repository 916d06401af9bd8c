"""A dead-letter table as it is edited: letters chosen, split off, taken away. Landing may add letters meanwhile; nothing of that is lost.

Every edit exchanges one data file for files with the same letters, or fewer, in one commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from frazil.catalogs.live import Live
from frazil.catalogs.manifests import Entry
from frazil.catalogs.metadata_json import MAIN, ref_snapshot
from frazil.catalogs.port import LoadedTable
from frazil.catalogs.snapshots import Draft
from frazil.kit.errors import RetryLater
from frazil.landing.lake import Lake, within

_TRIES_MAX: Final = 20
_compute: Any = pc


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """Which letters. Nothing given: all."""

    codes: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    partition: int | None = None
    offset: int | None = None
    before_ms: int | None = None
    target_uuid: str | None = None
    """Only letters of this table, by its uuid: a table made anew under the same name has none of the old one's."""


def chosen(letters: pa.Table, which: Which) -> Any:  # noqa: ANN401 - an Arrow array
    """A mask of the rows of ``letters`` (``deadletter.DEAD_SCHEMA``). Pure."""
    mask: Any = pa.array([True] * letters.num_rows, pa.bool_())
    for name, words in (("code", which.codes), ("topic", which.topics)):
        if words:
            mask = _compute.and_(mask, _compute.is_in(letters.column(name), value_set=pa.array(words, pa.string())))
    if which.partition is not None:
        mask = _compute.and_(mask, _compute.equal(letters.column("partition"), which.partition))
    if which.offset is not None:
        mask = _compute.and_(mask, _compute.less_equal(letters.column("offset"), which.offset))
        mask = _compute.and_(mask, _compute.greater_equal(letters.column("last_offset"), which.offset))
    if which.before_ms is not None:
        limit = pa.scalar(which.before_ms * 1000, pa.timestamp("us", tz="UTC"))
        mask = _compute.and_(mask, _compute.less(letters.column("failed_at"), limit))
    if which.target_uuid is not None:
        mask = _compute.and_(mask, _compute.equal(letters.column("target_table"), which.target_uuid))
    found = mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask
    return _compute.fill_null(found, fill_value=False)


class LetterBox:
    """One dead-letter table."""

    def __init__(self, ident: str, lake: Lake, *, deadline_ms: int) -> None:
        self.ident = ident
        self._lake = lake
        self._deadline_ms = deadline_ms

    async def open(self) -> tuple[LoadedTable, Live]:
        """The table as it is, with its files. Raises Missing, RetryLater."""
        table = await within(self._lake.catalog.load(self.ident), self._deadline_ms, "loading the dead-letter table")
        return table, await within(self._lake.delta.files.of(table), self._deadline_ms, "reading the dead-letter table's manifests")

    async def letters(self, table: LoadedTable, live: Live, entry: Entry) -> pa.Table:
        """The letters of one file. Raises Corrupt, RetryLater."""
        deletes = await self._lake.delta.reader.deletes(live)
        return await within(self._lake.delta.reader.surviving(table, entry, deletes), self._deadline_ms, "reading dead letters")

    async def remove(self, which: Which, *, execute: bool) -> int:
        """Takes the chosen letters away; how many. Without ``execute`` they are only counted."""
        table, live = await self.open()
        count = 0
        for entry in live.data:
            letters = await self.letters(table, live, entry)
            mask = chosen(letters, which)
            here = int(_compute.sum(mask).as_py() or 0)
            if here and execute and await self.exchange(entry.file.path, (letters.filter(_compute.invert(mask)),)) is None:
                continue  # somebody else took the file away meanwhile
            count += here
        return count

    async def exchange(self, path: str, parts: Sequence[pa.Table]) -> tuple[str | None, ...] | None:
        """One file goes, and a file for each of ``parts`` that has letters comes, in one commit. The paths of those, in order.

        None: the file was not there any more. Raises RetryLater when it could not be brought about.
        """
        table, live = await self.open()
        if path not in live.holders:
            return None
        made = [await self._lake.writer.write(table, part) if part.num_rows else () for part in parts]
        files = [file for group in made for file in group]
        places = tuple(group[0].path if group else None for group in made)
        for _ in range(_TRIES_MAX):
            head, live = await self.open()
            if path not in live.holders:
                return places if files and files[0].path in live.holders else None if files else places
            removal = await self._lake.delta.remover.plan(head, live, (path,))
            draft = Draft(
                operation="overwrite",
                files=files,
                removed=removal.files,
                rewritten=removal.rewritten,
                replaced=removal.replaced,
                snapshot_id=removal.snapshot_id,
            )
            if await self._commit(head, draft):
                return places
        raise RetryLater(f"{self.ident} is changed all the time; try again")

    async def _commit(self, head: LoadedTable, draft: Draft) -> bool:
        expected = ref_snapshot(head.metadata, MAIN)

        async def plan(newest: LoadedTable) -> Draft | None:
            same = newest.uuid == head.uuid and ref_snapshot(newest.metadata, MAIN) == expected
            return draft if same else None

        return await self._lake.committer.replace(self.ident, plan) is not None
