"""Stage fold: rewrites of upsert tables, as soon as their deletes begin to cost readers (R24, F93).

Landing asks after its commits, and waits before the next one when a table's deletes have grown beyond what its readers should pay: a table
that takes more updates than this machine can fold is slow to land, not slow to read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from frazil.catalogs.metadata_json import MAIN, ref_snapshot, snapshot_by_id
from frazil.catalogs.port import LoadedTable
from frazil.catalogs.rewrite import Rewriter
from frazil.catalogs.rewriteplan import RewriteSettings
from frazil.kit.errors import FrazilError, Missing

_LOG = logging.getLogger("frazil.landing")
_LOOK_MS: Final = 200
_HARD_SHARE: Final = 2.0
"""Deletes may grow to so many times the share that asks for a fold, before landing waits."""
_HARD_ROWS_MIN: Final = 100_000
_HARD_FILES: Final = 80


class Folding:
    """The rewrites of one catalog's tables: one table at a time, first come, first served."""

    def __init__(self, rewriter: Rewriter, settings: RewriteSettings, *, pause_ms: int) -> None:
        self._rewriter = rewriter
        self._settings = settings
        self._pause_ms = pause_ms
        self._wanted: dict[str, None] = {}

    def ask_after(self, table: LoadedTable) -> None:
        """Asks for a pass when the table's deletes are more than they should be."""
        if self._load(table) > 1.0:
            self.ask(table.ident)

    def ask(self, ident: str) -> None:
        """Asks for a pass."""
        self._wanted.setdefault(ident, None)

    @property
    def is_wanted(self) -> bool:
        """Whether a pass was asked for."""
        return bool(self._wanted)

    def is_overdue(self, table: LoadedTable) -> bool:
        """Whether landing has to wait for a fold."""
        return self._load(table, hard=True) > 1.0

    async def wait(self) -> None:
        """A moment, while folds go on."""
        await asyncio.sleep(_LOOK_MS / 1000)

    async def run(self) -> None:
        """Passes over the tables that are asked for, until there are none."""
        while self._wanted:
            ident = next(iter(self._wanted))
            del self._wanted[ident]
            await self.pass_once(ident)

    async def pass_once(self, ident: str) -> None:
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

    def _load(self, table: LoadedTable, *, hard: bool = False) -> float:
        """The most advanced of the table's deletes, as a part of what is allowed."""
        head = snapshot_by_id(table.metadata, ref_snapshot(table.metadata, MAIN))
        summary: Mapping[str, Any] = {} if head is None else head.get("summary", {})
        settings = self._settings
        places, keys, files = (int(summary.get(f"total-{name}", 0)) for name in ("position-deletes", "equality-deletes", "delete-files"))
        rows = int(summary.get("total-records", 0))
        if hard:
            most_places = max(_HARD_ROWS_MIN, _HARD_SHARE * settings.dead_share * rows)
            return max(places / most_places, keys / max(_HARD_ROWS_MIN, settings.equality_rows_max), files / _HARD_FILES)
        most_places = max(settings.dead_rows_min, settings.dead_share * rows)
        return max(places / most_places, keys / settings.equality_rows_max, files / settings.delete_files_max)
