"""The owner task of one table: steps at the commit interval, at once while behind, after a growing pause when a step fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol

from frazil.kit.errors import FrazilError, RetryLater
from frazil.landing.settings import LandingDeps, LandingSettings
from frazil.landing.status import Board
from frazil.metadata.landings import LandingSpec

_LOG = logging.getLogger("frazil.landing")
_LOOK_MS = 250


class Pipeline(Protocol):
    """The work of one landing, table or route, step by step."""

    board: Board

    async def step(self) -> bool:
        """One slice. True when more was waiting than it could take. Raises what stopped it; ``board`` knows the stage."""
        ...

    def look(self) -> None:
        """Brings the board's numbers up to date from memory."""
        ...

    def trouble(self) -> str | None:
        """What keeps a commit from being through, None when nothing does."""
        ...

    def cared(self) -> Mapping[str, int]:
        """Tables to be cared for and the snapshot each got last, 0 for none."""
        ...

    def waiting_bytes(self, enough: int) -> int:
        """Bytes that wait for the next slice, counted up to ``enough``."""
        ...

    async def close(self) -> None:
        """Ends what runs beside the steps."""
        ...


class Owner:
    """Runs one table's pipeline. Its failures are its own: they go to the board, and the other tables do not notice."""

    def __init__(self, spec: LandingSpec, pipeline: Pipeline, deps: LandingDeps, settings: LandingSettings) -> None:
        self.spec = spec
        self.pipeline = pipeline
        self._deps = deps
        self._settings = settings
        self._failures = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Until ``stop``; then one last step, so that a clean stop leaves nothing waiting that could be landed."""
        self.pipeline.board.paused = self.spec.options.get("paused") == "true"
        try:
            while not stop.is_set():
                behind = False if self.pipeline.board.paused else await self._try_step()
                if not behind:
                    await self._pause(stop)
            if not self.pipeline.board.paused and not self._failures:
                await self._try_step()
        finally:
            await self.pipeline.close()

    async def _try_step(self) -> bool:
        board = self.pipeline.board
        try:
            behind = await self.pipeline.step()
        except FrazilError as error:
            self._note(str(error), may_pass=isinstance(error, RetryLater))
            return False
        except Exception as error:  # noqa: BLE001 - the seam between tables: a bug in one must be loud there and harmless elsewhere
            _LOG.exception("table %s, stage %s", board.table, board.stage)
            self._note(f"{type(error).__name__}: {error}", may_pass=False)
            return False
        self._failures = 0
        board.recover()
        return behind

    def _note(self, why: str, *, may_pass: bool) -> None:
        board = self.pipeline.board
        if why != board.error:
            _LOG.warning("table %s, stage %s: %s", board.table, board.stage, why)
        self._failures += 1
        board.fail(why, may_pass=may_pass, now_ms=self._deps.clock.monotonic_ms())

    async def _pause(self, stop: asyncio.Event) -> None:
        """Until the next step is due: the interval, or less when enough bytes wait; a growing pause with jitter after failures."""
        clock, settings = self._deps.clock, self._settings
        if self._failures:
            exponent = min(self._failures - 1, 20)
            pause_ms = min(settings.backoff_max_ms, settings.backoff_min_ms * 2**exponent)
            await _sleep(stop, pause_ms * (0.5 + self._deps.chance.random()))
            return
        interval_ms = self.pipeline.board.interval_ms
        # Ticks of all tables with one interval fall together, so that a bundle is read once for all its topics (R12).
        begun_ms = clock.monotonic_ms()
        due_ms = (begun_ms // interval_ms + 1) * interval_ms
        await _sleep(stop, min(settings.commit_interval_min_ms, due_ms - begun_ms))
        while not stop.is_set() and (left_ms := due_ms - clock.monotonic_ms()) > 0:
            if self.pipeline.waiting_bytes(self.spec.commit_bytes) >= self.spec.commit_bytes:
                return
            await _sleep(stop, min(left_ms, _LOOK_MS))


async def _sleep(stop: asyncio.Event, pause_ms: float) -> None:
    """Sleeps, or less when ``stop`` is set."""
    try:
        async with asyncio.timeout(max(0.0, pause_ms) / 1000):
            await stop.wait()
    except TimeoutError:
        return
