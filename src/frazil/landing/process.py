"""The landing process: one owner task per table, and the tasks that discover tables, publish status and take care of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from frazil.kit.errors import FrazilError, RetryLater
from frazil.kit.shares import ByteShares
from frazil.kit.tasks import spawn
from frazil.landing.care import CareKeeper, keep_folding
from frazil.landing.crew import Crew
from frazil.landing.discover import Refusal, discover
from frazil.landing.gauges import TableGauge
from frazil.landing.hand import Hand
from frazil.landing.lake import Heavy, Lake, Lakes, within
from frazil.landing.options import check_options
from frazil.landing.owner import Owner, Pipeline
from frazil.landing.pipeline import TablePipeline
from frazil.landing.routepipeline import RoutePipeline
from frazil.landing.routeplaces import RoutePlaces
from frazil.landing.routing import route_of
from frazil.landing.settings import LandingDeps, LandingSettings
from frazil.landing.status import REASON_CHARACTERS_MAX, StatusBook, status_of
from frazil.log.pins import drop_pin
from frazil.metadata.landings import DEAD_SUFFIX, LandingSpec, LandingStatus, delete_status, list_landings

_LOG = logging.getLogger("frazil.landing")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    owner: Owner
    lake: Lake
    stop: asyncio.Event
    task: asyncio.Task[None]


class Landing:
    """Lands every table until ``stop``. ``run`` raises only for a bug in the process itself, never for one table's trouble."""

    def __init__(self, deps: LandingDeps, settings: LandingSettings) -> None:
        self._deps = replace(deps, offload=Heavy(deps.offload, settings.heavy_max))
        self._settings = settings
        self._lakes = Lakes(deps, settings)  # with the plain offload: writing files is not held up by heavy work
        self._memory = ByteShares(settings.slices_bytes_max)
        self._book = StatusBook(store=deps.store, interval_ms=settings.status_interval_ms)
        self._owners: dict[str, _Running] = {}
        self._refused: dict[str, LandingStatus] = {}
        self._wanted: dict[str, LandingSpec] = {}
        self._stop = asyncio.Event()
        self._blind: str | None = None

    def stop(self) -> None:
        """Asks for a clean end."""
        self._stop.set()

    def statuses(self) -> tuple[LandingStatus, ...]:
        """How every table is doing now, in order of table name."""
        return tuple(gauge.status for gauge in self.gauges())

    def gauges(self) -> tuple[TableGauge, ...]:
        """The same with what only this process knows."""
        found = {table: TableGauge(status=status, overdue=True) for table, status in self._refused.items()}
        monotonic_ms = self._deps.clock.monotonic_ms()
        for table, running in self._owners.items():
            board = running.owner.pipeline.board
            running.owner.pipeline.look()
            status = status_of(
                board, now_ms=self._deps.clock.now_ms(), monotonic_ms=monotonic_ms, trouble=running.owner.pipeline.trouble()
            )
            overdue = board.overdue(monotonic_ms) or board.failing_too_long(monotonic_ms)
            found[table] = TableGauge(status=status, overdue=overdue, commit_took_ms=board.commit_took_ms)
        return tuple(found[table] for table in sorted(found))

    def blind(self) -> str | None:
        """Why this process does not know which tables to land; None when it knows."""
        return self._blind

    async def run(self) -> None:
        """Discovers, lands, reports; returns after ``stop``, when each table had up to ``stop_ms`` for its last commit."""
        beside = [
            spawn("landing status", self._report()),
            spawn("landing care", CareKeeper(self._settings).run(self._cared_for)),
            spawn("landing folds", keep_folding(self._lakes.all)),
        ]
        others = self._deps.sharing.others()
        if others is not None:
            hand = Hand(self._deps, self._settings, self._lakes, self._memory, others)
            beside.append(spawn("landing help", hand.run(lambda: self._wanted, self._is_free)))
        try:
            while not self._stop.is_set():
                await self._discover()
                self._check_tasks(beside)
                await self._wait()
            await self._end_owners(list(self._owners.values()))
        finally:
            await _cancel([*beside, *(running.task for running in self._owners.values())])
        await self._publish(last=True)
        await self._leave()

    async def _leave(self) -> None:
        await self._release(list(self._owners))
        try:
            await within(self._deps.sharing.leave(), self._settings.call_deadline_ms, "leaving the other processes")
        except RetryLater as error:
            _LOG.warning("leaving: %s", error)

    async def _discover(self) -> None:
        """Starts owners for new tables, ends those that are no longer wanted or wanted otherwise."""
        deadline_ms = self._settings.call_deadline_ms
        try:
            specs = self._deps.specs
            if specs is None:
                specs = await within(list_landings(self._deps.store), deadline_ms, "listing landings")
            await within(self._deps.topics.refresh(), deadline_ms, "reading topics")
        except FrazilError as error:
            self._blind = str(error)
            _LOG.warning("discover: %s", error)
            return
        found = discover(specs, self._deps.topics.all(), self._settings.auto, interval_ms=self._settings.commit_interval_ms)
        wanted = {spec.table: spec for spec in found.specs}
        try:
            mine = await within(self._deps.sharing.mine(tuple(wanted)), deadline_ms, "sharing tables with other processes")
        except FrazilError as error:
            self._blind = str(error)
            _LOG.warning("discover: %s", error)
            return
        self._blind = None
        self._wanted = wanted
        self._refused = {refusal.table: self._refusal(refusal) for refusal in found.refusals}
        outdated = [
            table
            for table, running in self._owners.items()
            if table not in mine or wanted.get(table) != running.owner.spec or not self._lakes.is_current(running.lake)
        ]
        await self._end_owners([self._owners.pop(table) for table in outdated])
        for table in outdated:
            if table not in wanted:
                await self._forget(table)
            elif table not in mine:
                self._book.forget(self._deps.label + table)
        await self._release([table for table in outdated if table not in mine])
        for table, spec in wanted.items():
            if table in mine and table not in self._owners:
                self._start(spec)

    async def _release(self, tables: Sequence[str]) -> None:
        """Others may work on these tables now. What fails here is tried again, or ends with the process's lease."""
        for table in tables:
            try:
                await within(self._deps.sharing.released(table), self._settings.call_deadline_ms, "giving a table back")
            except RetryLater as error:
                _LOG.warning("giving %s back: %s", table, error)

    async def _forget(self, table: str) -> None:
        """A table that is not landed any more needs nothing of the log (R18) and has no status. What fails here ends by its age."""
        name = self._deps.label + table
        self._book.forget(name)
        deadline_ms = self._settings.call_deadline_ms
        try:
            await within(drop_pin(self._deps.store, name), deadline_ms, "dropping a pin")
            await within(delete_status(self._deps.store, name), deadline_ms, "deleting a status")
        except RetryLater as error:
            _LOG.warning("forgetting %s: %s", table, error)

    def _start(self, spec: LandingSpec) -> None:
        try:
            check_options(spec)
            lake = self._lakes.find(spec.options.get("catalog", self._settings.catalog))
            pipeline = self._pipeline(spec, lake)
        except FrazilError as error:
            self._refused[spec.table] = self._refusal(Refusal(table=spec.table, topics=spec.topics, why=str(error)))
            return
        owner = Owner(spec, pipeline, self._deps, self._settings)
        stop = asyncio.Event()
        self._owners[spec.table] = _Running(owner=owner, lake=lake, stop=stop, task=spawn(f"land {spec.table}", owner.run(stop)))

    def _pipeline(self, spec: LandingSpec, lake: Lake) -> Pipeline:
        route = route_of(spec)
        if route is None:
            return TablePipeline(spec, lake, self._deps, self._settings, self._memory, crew=self._crew())
        places = RoutePlaces(spec, route, self._deps, self._settings, self._holder)
        return RoutePipeline(spec, lake, self._deps, self._settings, memory=self._memory, places=places)

    def _crew(self) -> Crew | None:
        others, settings = self._deps.sharing.others(), self._settings
        if others is None:
            return None
        patience_ms, deadline_ms = settings.help_patience_ms, settings.call_deadline_ms
        return Crew(self._deps.store, others, self._deps.clock, patience_ms=patience_ms, deadline_ms=deadline_ms)

    def _is_free(self) -> bool:
        """Whether no table of this process has a whole slice waiting."""
        most = self._settings.slice_bytes_max
        return all(running.owner.pipeline.waiting_bytes(most) < most for running in self._owners.values())

    def _holder(self, table: str) -> str:
        """Which landing has a table, or its dead letters there; empty: none."""
        if table in self._wanted:
            return f"the landing {table}"
        owner = table.removesuffix(DEAD_SUFFIX)
        return f"the dead letters of {owner}" if owner != table and owner in self._wanted else ""

    async def _end_owners(self, ending: list[_Running]) -> None:
        """A clean end for these tables, together, in bounded time; then they are abandoned, which is safe."""
        for running in ending:
            running.stop.set()
        if ending:
            await asyncio.wait([running.task for running in ending], timeout=self._settings.stop_ms / 1000)
        await _cancel([running.task for running in ending])
        for running in ending:
            if not running.task.cancelled():
                running.task.result()

    def _check_tasks(self, beside: list[asyncio.Task[None]]) -> None:
        """A task that ended although nobody asked for it is a bug: its exception ends the process, loudly."""
        for task in (*beside, *(running.task for running in self._owners.values())):
            if task.done():
                task.result()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self._settings.discover_interval_ms / 1000):
                await self._stop.wait()
        except TimeoutError:
            return

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(self._settings.status_interval_ms / 1000)
            await self._publish()

    async def _publish(self, *, last: bool = False) -> None:
        statuses = [replace(status, table=self._deps.label + status.table) for status in self.statuses()]
        try:
            await within(self._book.publish(statuses, all_of_them=last), self._settings.call_deadline_ms, "writing status")
        except RetryLater as error:
            _LOG.warning("status: %s", error)

    def _cared_for(self) -> dict[str, tuple[Lake, int]]:
        return {
            table: (running.lake, snapshot_id)
            for running in self._owners.values()
            for table, snapshot_id in running.owner.pipeline.cared().items()
        }

    def _refusal(self, refusal: Refusal) -> LandingStatus:
        return LandingStatus(
            table=refusal.table,
            state="failed",
            stage="discover",
            reason=refusal.why[:REASON_CHARACTERS_MAX],
            topic=",".join(refusal.topics),
            updated_ms=self._deps.clock.now_ms(),
        )


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Ends the tasks. Asks again while some runs on: a library may swallow one cancellation."""
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=1.0)
