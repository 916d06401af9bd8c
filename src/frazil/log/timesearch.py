"""Records by time inside one batch, which a stranger may have made to be dear to unpack (R21).

One batch is unpacked at a time, in a thread, within bounds; a batch that cannot be, or is beyond them, is answered with its
first offset: readers must meet it, not skip it. Which ones those are is remembered, since finding out costs.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final, NamedTuple

from frazil.kit.tasks import Offload
from frazil.log.refs import OffsetAt
from frazil.records import Batch, patch, scan
from frazil.records.scanning import BatchFault, RecordColumns

UNPACKED_AT_ONCE: Final = 1
"""Each may take several times the bound on its bytes."""
RECORDS_MAX: Final = 1_000_000
REMEMBERED_MAX: Final = 1024


class Place(NamedTuple):
    """Where a batch is stored: identity enough, since objects never change."""

    object_key: str
    position: int


class TimeSearch:
    """See the module's docstring. ``bytes_max`` bounds what one batch may unpack to."""

    def __init__(self, offload: Offload, *, bytes_max: int) -> None:
        self._offload = offload
        self._bytes_max = bytes_max
        self._turn = asyncio.Semaphore(UNPACKED_AT_ONCE)
        self._unreadable: OrderedDict[Place, None] = OrderedDict()

    async def find(self, batch: Batch, view: memoryview, place: Place, base: int, timestamp_ms: int) -> OffsetAt | None:
        """The first record at or after the time in a batch whose first offset is ``base``; None when there is none."""
        async with self._turn:
            if batch.record_count <= RECORDS_MAX and place not in self._unreadable:
                columns, faults = await self._offload.run(_Unpack(view, base, self._bytes_max))
                if not faults:
                    found = zip(columns.offsets, columns.timestamps_ms, strict=True)
                    return next((OffsetAt(offset=offset, timestamp_ms=time) for offset, time in found if time >= timestamp_ms), None)
                self._remember(place)
        return OffsetAt(offset=base, timestamp_ms=batch.max_timestamp_ms)

    def _remember(self, place: Place) -> None:
        self._unreadable[place] = None
        if len(self._unreadable) > REMEMBERED_MAX:
            self._unreadable.popitem(last=False)


class _Unpack:
    """Unpacks one batch; work for another thread."""

    def __init__(self, batch: memoryview, base: int, bytes_max: int) -> None:
        self._work = (batch, base, bytes_max)

    def __call__(self) -> tuple[RecordColumns, tuple[BatchFault, ...]]:
        batch, base, bytes_max = self._work
        return scan(patch(batch, base), uncompressed_bytes_max=bytes_max, where="look-up by time")
