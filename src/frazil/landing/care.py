"""Stage care: snapshots expire, metadata is trimmed, manifests merge (R17, R24).

All of it in commits of their own, beside landing and never in its way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from frazil.catalogs.care import Care
from frazil.kit.errors import FrazilError, Missing
from frazil.kit.tasks import spawn
from frazil.landing.discover import dead_table
from frazil.landing.lake import Lake, within
from frazil.landing.settings import LandingSettings

_LOG = logging.getLogger("frazil.landing")
_FOLD_LOOK_MS = 100


async def keep_folding(lakes: Callable[[], Sequence[Lake]]) -> None:
    """For ever: rewrites of the tables that are asked for, one at a time in each catalog."""
    running: dict[int, asyncio.Task[None]] = {}
    try:
        while True:
            await asyncio.sleep(_FOLD_LOOK_MS / 1000)
            running = {name: task for name, task in running.items() if not _ended(task)}
            for lake in lakes():
                if lake.folding is not None and lake.folding.is_wanted and id(lake) not in running:
                    running[id(lake)] = spawn(f"fold {lake.name}", lake.folding.run())
    finally:
        for task in running.values():
            task.cancel()
        await asyncio.gather(*running.values(), return_exceptions=True)


def _ended(task: asyncio.Task[None]) -> bool:
    """Raises what ended it, if it was a bug."""
    if task.done():
        task.result()
    return task.done()


class CareKeeper:
    """Goes round the tables that have committed since their last care."""

    def __init__(self, settings: LandingSettings) -> None:
        self._settings = settings
        self._seen: dict[str, int] = {}

    async def run(self, tables: Callable[[], Mapping[str, tuple[Lake, int]]]) -> None:
        """For ever. ``tables`` gives table → (its lake, its newest snapshot id), 0 for none. Catalogs do not wait for each other."""
        while True:
            await asyncio.sleep(self._settings.care_interval_ms / 1000)
            due: dict[str, list[tuple[str, Lake, int]]] = {}
            for table, (lake, snapshot_id) in sorted(tables().items()):
                if snapshot_id and self._seen.get(table) != snapshot_id:
                    due.setdefault(lake.name, []).append((table, lake, snapshot_id))
            await asyncio.gather(*(self._round(due[name]) for name in sorted(due)))

    async def _round(self, due: Sequence[tuple[str, Lake, int]]) -> None:
        for table, lake, snapshot_id in due:
            if lake.folding is not None:
                lake.folding.ask(table)  # merges small files; beside what care does, which needs no rows
            if lake.care is not None:
                await self._care(table, lake.care)
            self._seen[table] = snapshot_id

    async def _care(self, table: str, care: Care) -> None:
        """One table and its dead letters. Trouble here costs nothing but metadata that stays longer; the next commit brings another try."""
        for ident in (table, dead_table(table)):
            try:
                await within(care.pass_once(ident), self._settings.care_deadline_ms, f"care of {ident}")
            except Missing:
                continue  # most tables have no dead letters
            except FrazilError as error:
                _LOG.warning("care of %s: %s", ident, error)
