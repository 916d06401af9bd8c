"""Stage fold: rewrites of upsert tables, as soon as their deletes begin to cost readers (R24, F93).

Landing asks after its commits. Where updates come faster than files can be written again beside it, its own commits write files again
(``catalogs/rowdelta.py``), or wait for a pass while there are too many keys or files of deletes: a table that takes more updates than this
machine can fold is slow to land, not slow to read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from frazil.catalogs.metadata_json import MAIN, ref_snapshot, snapshot_by_id
from frazil.catalogs.port import LoadedTable
from frazil.catalogs.rewrite import Rewriter
from frazil.catalogs.rewriteplan import RewriteSettings
from frazil.catalogs.rowdelta import Bounds
from frazil.kit.errors import FrazilError, Missing

_LOG = logging.getLogger("frazil.landing")
_HARD_SHARE: Final = 2.0
"""Rows deleted by place may be so many times the share that asks for a fold."""
_HARD_ROWS: Final = 10
"""The same of the least number that matters."""
_HARD_KEYS: Final = 100
"""Keys of equality deletes may be so many times those that ask for a pass."""
_HARD_FILES: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletes:
    """What a head says about its deletes: rows by place, keys, files of both; and all rows of its data files."""

    places: int
    keys: int
    files: int
    rows: int


def deletes_of(table: LoadedTable) -> Deletes:
    """By the totals of the newest snapshot; what another writer left out counts as none."""
    head = snapshot_by_id(table.metadata, ref_snapshot(table.metadata, MAIN))
    summary: Mapping[str, Any] = {} if head is None else head.get("summary", {})
    places, keys, files, rows = (
        int(summary.get(f"total-{name}", 0)) for name in ("position-deletes", "equality-deletes", "delete-files", "records")
    )
    return Deletes(places=places, keys=keys, files=files, rows=rows)


class Folding:
    """The rewrites of one catalog's tables: one table at a time, first come, first served."""

    def __init__(self, rewriter: Rewriter, settings: RewriteSettings, *, pause_ms: int) -> None:
        self._rewriter = rewriter
        self._settings = settings
        self._pause_ms = pause_ms
        self._wanted: dict[str, None] = {}
        self._passes: dict[str, asyncio.Event] = {}
        self.bounds = Bounds(share=_HARD_SHARE * settings.dead_share, rows_min=_HARD_ROWS * settings.dead_rows_min)

    @property
    def is_wanted(self) -> bool:
        """Whether a pass was asked for."""
        return bool(self._wanted)

    def turn(self, ident: str) -> asyncio.Lock:
        """See ``Rewriter.turn``."""
        return self._rewriter.turn(ident)

    def ask(self, ident: str) -> None:
        """Asks for a pass."""
        self._wanted.setdefault(ident, None)

    def ask_after(self, table: LoadedTable) -> None:
        """Asks for a pass when the table's deletes are more than they should be."""
        now, settings = deletes_of(table), self._settings
        many_places = now.places > max(settings.dead_rows_min, settings.dead_share * now.rows)
        if many_places or now.keys > settings.equality_rows_max or now.files > settings.delete_files_max:
            self.ask(table.ident)

    def is_overdue(self, table: LoadedTable) -> bool:
        """Whether the next commit has to wait for a pass."""
        now = deletes_of(table)
        return now.keys > _HARD_KEYS * self._settings.equality_rows_max or now.files > _HARD_FILES

    async def passed(self, ident: str) -> None:
        """Asks for a pass, and returns after it."""
        self.ask(ident)
        await self._passes.setdefault(ident, asyncio.Event()).wait()

    async def run(self) -> None:
        """Passes over the tables that are asked for, until there are none."""
        while self._wanted:
            ident = next(iter(self._wanted))
            del self._wanted[ident]
            waiting = self._passes.pop(ident, None)  # who asks from now on waits for the pass after this one
            try:
                await self._pass(ident)
            finally:
                if waiting is not None:
                    waiting.set()

    async def _pass(self, ident: str) -> None:
        """One pass; trouble is told and left to the next one."""
        try:
            report = await self._rewriter.pass_once(ident)
        except Missing:
            return
        except FrazilError as error:
            _LOG.warning("rewriting %s: %s", ident, error)
            await asyncio.sleep(self._pause_ms / 1000)
            return
        if report.given_up:
            _LOG.info("rewriting %s: %d of its rewrites were overtaken", ident, report.given_up)
