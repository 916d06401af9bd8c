"""The tables of a route that could not keep up, and from where in the log each still needs its records (F26, R07). Only in memory.

A route reads on without a table that fails; its records wait in the log, above the home mark, and are read again for it alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from frazil.kit.names import PartitionKey
from frazil.landing.crowd import end_tasks
from frazil.landing.status import REASON_CHARACTERS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Setback:
    """Why a table's part of a slice is not in it. No ``why``: somebody else moved its progress, and it is tried again at once."""

    stage: str
    why: str
    may_pass: bool = True
    running: asyncio.Task[Any] | None = None
    """A commit whose outcome nobody knows yet: the table is left alone until it is decided (R16)."""


@dataclass(slots=True, kw_only=True)
class Straggler:
    """One such table. ``needs``: by partition, the first offset that may be missing."""

    table: str
    setback: Setback
    needs: dict[PartitionKey, int] = field(default_factory=dict)
    records: int = 0
    """That were seen for it and wait."""
    tries: int = 0
    due_ms: float = 0.0
    """Monotonic time of the next try."""

    @property
    def undecided(self) -> bool:
        """Whether a commit of it is still under way."""
        return self.setback.running is not None and not self.setback.running.done()


@dataclass(slots=True, kw_only=True)
class Stragglers:
    """All of a route. ``pause_ms``: from the number of tries in a row to the pause after them."""

    found: dict[str, Straggler] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.found)

    def __contains__(self, table: str) -> bool:
        return table in self.found

    def miss(self, table: str, firsts: Mapping[PartitionKey, int], records: int) -> None:
        """A slice had records for a table that does not keep up; ``firsts``: the first offset in each partition."""
        straggler = self.found[table]
        straggler.records += records
        for key, offset in firsts.items():
            straggler.needs[key] = min(offset, straggler.needs.get(key, offset))

    def fail(self, table: str, setback: Setback, due_ms: float) -> None:
        """The table's part of a slice is not in it."""
        straggler = self.found.setdefault(table, Straggler(table=table, setback=setback))
        straggler.setback = setback
        straggler.tries = straggler.tries + 1 if setback.why else 0
        straggler.due_ms = due_ms

    def due(self, now_ms: float) -> list[Straggler]:
        """Those to be tried again now."""
        return [one for one in self.found.values() if one.due_ms <= now_ms and not one.undecided]

    def floor(self, key: PartitionKey) -> int | None:
        """The first offset of a partition that some table still needs; None: there is none."""
        return min((one.needs[key] for one in self.found.values() if key in one.needs), default=None)

    def delivered(self, table: str, ends: Mapping[PartitionKey, int], reached: Mapping[PartitionKey, int], records: int) -> None:
        """The table has everything below ``ends``. It is well again when it needs nothing below where the route is, ``reached``."""
        straggler = self.found[table]
        straggler.tries, straggler.records = 0, max(0, straggler.records - records)
        straggler.needs = {key: max(at, ends.get(key, at)) for key, at in straggler.needs.items()}
        self._settle(reached)

    def raise_to(self, marks: Mapping[PartitionKey, int], reached: Mapping[PartitionKey, int]) -> None:
        """Nothing below ``marks`` will ever be read again: it was landed by somebody else, or it is lost."""
        for straggler in self.found.values():
            straggler.needs = {key: max(at, marks.get(key, at)) for key, at in straggler.needs.items()}
        self._settle(reached)

    def _settle(self, reached: Mapping[PartitionKey, int]) -> None:
        for table, straggler in list(self.found.items()):
            straggler.needs = {key: at for key, at in straggler.needs.items() if at < reached.get(key, at + 1)}
            if not straggler.needs and not straggler.undecided:
                del self.found[table]

    def worst(self) -> Straggler | None:
        """The table to name first: one that will not get well by itself, then the one with most records waiting."""
        told = [one for one in self.found.values() if one.setback.why]
        return max(told, key=lambda one: (not one.setback.may_pass, one.records, one.table), default=None)

    def story(self) -> str:
        """For people; empty when nothing is to be told."""
        worst = self.worst()
        if worst is None:
            return ""
        others = sorted(one.table for one in self.found.values() if one.setback.why and one is not worst)
        more = f" (and {len(others)} more tables: {', '.join(others)})" if others else ""
        return f"table {worst.table}: {worst.setback.why}; {worst.records} records wait for it{more}"[:REASON_CHARACTERS_MAX]

    async def close(self) -> None:
        """Ends the commits that are still under way; the next start sees what became of them."""
        running = [one.setback.running for one in self.found.values() if one.setback.running is not None]
        await end_tasks(running)
