"""The other side of ``crew``: takes orders of other processes' tables while there is nothing of our own to do, and hands over files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from frazil.catalogs.metadata_json import current_schema
from frazil.kit.chance import UlidSource
from frazil.kit.errors import FrazilError, Refused
from frazil.kit.shares import ByteShares
from frazil.landing.deadletter import Burial, Graveyard
from frazil.landing.discover import dead_table
from frazil.landing.handover import Handover, encode_handover
from frazil.landing.lake import Lakes, within
from frazil.landing.plan import PartitionState
from frazil.landing.prepare import Bench, prepare
from frazil.landing.settings import LandingDeps, LandingSettings
from frazil.landing.sharing import Others
from frazil.landing.source import SliceSource
from frazil.landing.target import Target
from frazil.metadata.landings import LandingSpec
from frazil.metadata.orders import Answer, Order, answer_order, free_orders, take_order

_LOG = logging.getLogger("frazil.landing")
_WATCHED: Final = "landing-orders/"
_SOURCES_MAX: Final = 32


@dataclass(slots=True)
class _Place:
    """What is kept of a table from order to order."""

    spec: LandingSpec
    source: SliceSource
    target: Target


class Hand:
    """One worker of one process; one order at a time."""

    def __init__(self, deps: LandingDeps, settings: LandingSettings, lakes: Lakes, memory: ByteShares, others: Others) -> None:
        self._deps, self._settings, self._lakes, self._memory = deps, settings, lakes, memory
        self._others = others
        self._ids = UlidSource(deps.chance)
        self._places: dict[str, _Place] = {}
        self.done = 0
        """Orders that were handed over."""

    async def run(self, specs: Callable[[], Mapping[str, LandingSpec]], is_free: Callable[[], bool]) -> None:
        """For ever. ``specs``: the landings there are; ``is_free``: whether the process has nothing of its own to do."""
        async for _ in self._deps.store.watch(_WATCHED):
            try:
                while is_free():
                    landings = specs()  # one look: a landing may be dropped while its order is taken
                    if (order := await self._next(landings)) is None:
                        break
                    await self._work(order, landings[order.table])
            except FrazilError as error:
                _LOG.warning("helping: %s", error)

    async def _next(self, specs: Mapping[str, LandingSpec]) -> Order | None:
        """An order that is ours now."""
        lease = self._others.lease()
        if lease is None:
            return None
        for order in await within(free_orders(self._deps.store), self._settings.call_deadline_ms, "looking for orders"):
            if order.table in specs and order.lease != lease:
                taking = take_order(self._deps.store, order, self._others.name, lease=lease)
                if await within(taking, self._settings.call_deadline_ms, "taking an order"):
                    return order
        return None

    async def _work(self, order: Order, spec: LandingSpec) -> None:
        try:
            key = await self._hand_over(order, self._place(spec))
            answer = Answer(number=order.number, handover=key)
        except FrazilError as error:
            answer = Answer(number=order.number, trouble=f"{self._others.name}: {error}")
        except Exception as error:  # noqa: BLE001 - the seam to another's table: a bug there costs the order, and is loud
            _LOG.exception("helping with %s", order.table)
            answer = Answer(number=order.number, trouble=f"{self._others.name}: {type(error).__name__}: {error}")
        if not await within(answer_order(self._deps.store, order, answer), self._settings.call_deadline_ms, "answering an order"):
            _LOG.info("an order for %s was withdrawn before it was done", order.table)
            return
        self.done += bool(answer.handover)

    async def _hand_over(self, order: Order, place: _Place) -> str:
        """Reads and prepares the order's part; the key of the object that says what came of it."""
        deps, settings = self._deps, self._settings
        lake = self._lakes.find(place.spec.options.get("catalog", settings.catalog))
        table = await place.target.load()
        if table is None or table.uuid != order.uuid:
            raise Refused(f"table {order.table} is another one here than for who gave the order")
        source = place.source
        await within(deps.index.refresh(), settings.call_deadline_ms, "reading metadata")
        bounds = deps.index.bounds
        source.states = [
            PartitionState(key=part.key, topic=part.topic, next_offset=part.offset, bounds=bounds(part.key)) for part in order.parts
        ]
        plan = source.next_slice(source.states, source.cursor)
        async with self._memory.share(source.share()):
            decoded = await source.read(plan, source.cursor)
            if decoded is None:
                raise Refused("the log was made anew meanwhile")
            ready = await prepare(place.target, table, decoded, Bench(lake=lake, deps=deps, settings=settings, enter=source.enter))
        if ready.letters:
            attempt = self._ids.next(deps.clock.now_ms())
            burial = Burial(target_uuid=table.uuid, attempt=attempt, now_ms=deps.clock.now_ms(), target_name=order.table)
            await Graveyard(ident=dead_table(order.table), lake=lake, deadline_ms=settings.call_deadline_ms).bury(ready.letters, burial)
        handover = Handover(
            base_schema_id=int(current_schema(ready.table.metadata)["schema-id"]),
            files=ready.written.files,
            consumed=decoded.consumed,
            change=ready.written.change,
            rows=ready.rows,
            letters=len(ready.letters),
        )
        name = f"{ready.table.location}/metadata/frazil-handover-{self._ids.next(deps.clock.now_ms())}.bin"
        key = lake.committer.locations.side_name(lake.committer.locations.key_of(name))
        data = await deps.offload.run(lambda: encode_handover(handover, ready.table))
        await within(lake.objects.put_if_absent(key, data), settings.call_deadline_ms, "handing over")
        return key

    def _place(self, spec: LandingSpec) -> _Place:
        place = self._places.get(spec.table)
        if place is None or place.spec != spec:
            lake = self._lakes.find(spec.options.get("catalog", self._settings.catalog))
            source = SliceSource(spec, lake, self._deps, self._settings)
            place = self._places[spec.table] = _Place(spec, source, Target(spec, lake, self._deps, self._settings))
            if len(self._places) > _SOURCES_MAX:
                self._places.pop(next(iter(self._places)))
        return place
