"""The owner's side of shared work on a huge topic: parts of a slice are given to other processes, and committed with the owner's own.

The owner stays the only committer. It offers the partitions it does not read itself, works on its own part, and takes in what was done by
then: orders that nobody took are withdrawn, and what is late is read by the owner later. What is handed over are files that nobody
names yet, so anybody may die at any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from frazil.catalogs.port import LoadedTable
from frazil.kit.clock import Clock
from frazil.kit.errors import Corrupt, FrazilError, Missing
from frazil.kit.names import PartitionKey
from frazil.landing.handover import Handover, decode_handover
from frazil.landing.lake import Lake, within
from frazil.landing.plan import PartitionState
from frazil.landing.prepare import Prepared
from frazil.landing.sharing import Others
from frazil.metadata.landings import LandingSpec
from frazil.metadata.orders import Answer, Order, OrderPart, end_orders, put_order, read_answers, taken_orders
from frazil.metadata.port import MetadataStore

_SLICES_MIN: Final = 2
"""So many slices must wait before others are asked: for less it does not pay."""
_POLL_S: Final = 0.02
_ALONE_OPTIONS: Final = ("mode", "envelope", "route", "from", "to", "deadletters.stop")
"""Landings with one of these go alone: order of events, bounds or counts over the whole slice matter there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """One slice that is worked on by several."""

    own: tuple[PartitionState, ...]
    orders: tuple[Order, ...] = ()


class Crew:
    """Gives orders for one table, and takes in what was done. Trouble with helpers costs their part, never the slice."""

    def __init__(self, store: MetadataStore, others: Others, clock: Clock, *, patience_ms: int, deadline_ms: int) -> None:
        self._store = store
        self._others = others
        self._clock = clock
        self._patience_ms = patience_ms
        self._deadline_ms = deadline_ms
        self._alone_until_ms = 0.0
        self._alone: set[PartitionKey] = set()
        """Partitions of which a helper could read nothing (an open transaction, a damaged batch): the owner knows better."""
        self._open: tuple[Order, ...] = ()
        self.trouble = ""
        """Why the last order came to nothing."""

    async def divide(
        self, table: LoadedTable | None, states: Sequence[PartitionState], number: str, *, spec: LandingSpec, slices: float
    ) -> Shift:
        """Which partitions the owner reads itself, and orders for the others. ``slices``: how many are waiting."""
        alone = Shift(own=tuple(states))
        lease, others = self._others.lease(), self._others.count()
        await self.close()
        shared = [state for state in states if state.lag and state.key not in self._alone]
        lagging = sorted(shared, key=lambda state: (-state.lag, state.key))
        if table is None or lease is None or not others or slices < _SLICES_MIN or len(lagging) < 2:
            return alone
        if any(name in spec.options for name in _ALONE_OPTIONS) or self._clock.monotonic_ms() < self._alone_until_ms:
            return alone
        groups = [lagging[at :: others + 1] for at in range(min(others + 1, len(lagging)))]
        orders = []
        for at, group in enumerate(groups[1:]):
            parts = tuple(OrderPart(key=state.key, topic=state.topic, offset=state.start) for state in group)
            orders.append(Order(table=spec.table, number=f"{number}-{at}", uuid=table.uuid, lease=lease, parts=parts))
        self._open = tuple(orders)
        try:
            for order in orders:
                await within(put_order(self._store, order), self._deadline_ms, "offering a part of a slice")
        except FrazilError as error:
            return await self._leave(orders, alone, str(error))
        given = {part.key for order in orders for part in order.parts}
        return Shift(own=tuple(state for state in states if state.key not in given), orders=tuple(orders))

    async def gather(self, shift: Shift, ready: Prepared, lake: Lake) -> tuple[Handover, ...]:
        """What others have done that goes into the same commit as ``ready``; everything else of theirs is void from now on."""
        if not shift.orders:
            return ()
        try:
            answers = await self._wait(shift.orders)
            found = [handed for answer in answers if (handed := await self._read(answer, lake)) is not None]
            await self.close()
        except FrazilError as error:
            await self._leave(shift.orders, Shift(own=()), str(error))
            return ()
        self._learn(shift.orders, answers, found)
        return fitting(ready, found)

    async def close(self) -> None:
        """Withdraws what is still offered. Raises RetryLater."""
        if self._open:
            await within(end_orders(self._store, self._open), self._deadline_ms, "ending orders")
            self._open = ()

    def _learn(self, orders: Sequence[Order], answers: Sequence[Answer], found: Sequence[Handover]) -> None:
        """Partitions of answered orders that nothing came of are read by the owner from now on."""
        answered = {answer.number for answer in answers if answer.handover}
        asked = {part.key for order in orders if order.number in answered for part in order.parts}
        self._alone |= asked - {done.key for handed in found for done in handed.consumed if done.end > done.first}

    async def _wait(self, orders: Sequence[Order]) -> list[Answer]:
        """The answers to orders that were taken; those are waited for, the others withdrawn by the caller."""
        table = orders[0].table
        numbers = {order.number for order in orders}
        taken = (await within(taken_orders(self._store, table), self._deadline_ms, "looking for helpers")) & numbers
        until_ms = self._clock.monotonic_ms() + self._patience_ms
        while True:
            answers = await within(read_answers(self._store, table), self._deadline_ms, "reading answers")
            found = [answer for answer in answers if answer.number in numbers]
            if taken <= {answer.number for answer in found}:
                return found
            if self._clock.monotonic_ms() >= until_ms:
                self._rest(f"a helper did not answer within {self._patience_ms} ms")
                return found
            await asyncio.sleep(_POLL_S)  # answers of other processes: looked for, as hints may be lost

    async def _read(self, answer: Answer, lake: Lake) -> Handover | None:
        if not answer.handover:
            self._rest(answer.trouble)
            return None
        try:
            data = await within(lake.objects.get(answer.handover), self._deadline_ms, "reading what was handed over")
            handed = decode_handover(data, where=answer.handover)
            await within(lake.objects.delete([answer.handover]), self._deadline_ms, "deleting what was handed over")
        except (Missing, Corrupt) as error:
            self._rest(str(error))
            return None
        return handed

    async def _leave(self, orders: Sequence[Order], shift: Shift, why: str) -> Shift:
        """Goes on alone. Orders that cannot be withdrawn now are void: nobody reads their answers, and they end with the lease."""
        self._rest(why)
        self._open = tuple(orders)
        try:
            await self.close()
        except FrazilError as error:
            self.trouble = f"{why}; {error}"
        return shift

    def _rest(self, why: str) -> None:
        self.trouble = why
        self._alone_until_ms = self._clock.monotonic_ms() + 2 * self._patience_ms


def fitting(ready: Prepared, found: Sequence[Handover]) -> tuple[Handover, ...]:
    """Those that can go into one commit with ``ready``: written for the same schema, and of several that change it only one. Pure."""
    schema_id = int(ready.table.metadata["current-schema-id"])
    specs = {int(spec["spec-id"]) for spec in ready.table.metadata["partition-specs"]}
    changed = ready.written.change is not None
    kept = []
    for handed in found:
        if handed.base_schema_id != schema_id or any(file.spec_id not in specs for file in handed.files):
            continue
        if handed.change is not None:
            if changed:
                continue
            changed = True
        kept.append(handed)
    return tuple(kept)


def joined(ready: Prepared, handed: Sequence[Handover]) -> Prepared:
    """The owner's part and the others' as one. Pure."""
    change = ready.written.change or next((one.change for one in handed if one.change is not None), None)
    files = (*ready.written.files, *(file for one in handed for file in one.files))
    return replace(ready, written=replace(ready.written, files=files, change=change), rows=ready.rows + sum(one.rows for one in handed))
