"""Runs one world from its seed to its verdict."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tests.simulation.clients import until
from tests.simulation.fickle import fickle_decoders
from tests.simulation.judges import (
    judge_log,
    judge_reborn,
    judge_segments,
    judge_tables,
    landed_hint,
    leftovers,
    missing_rows,
    read_back,
    reborn_landed,
)
from tests.simulation.loop import run_virtual
from tests.simulation.profiles import Profile, drawn
from tests.simulation.tight import tight_limits
from tests.simulation.world import World

BOUND_S = 40.0


@dataclass(slots=True)
class Outcome:
    """What became of one seed."""

    seed: int
    profile: str
    violations: list[str]
    faults: Counter[str]
    trace: list[str]
    virtual_s: float
    cpu_s: float
    acked: int
    digest: int
    """Of everything that was stored: the same for the same seed, in every process."""


class _Shouts(logging.Handler):
    """What the product logs with a traceback is a bug in it."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[0] is not None:
            self._world.book.fail(f"logged: {record.getMessage()}: {record.exc_info[1]!r}")


@contextlib.contextmanager
def _listening(world: World) -> Iterator[None]:
    logger = logging.getLogger("frazil")
    level, handler = logger.level, _Shouts(world)
    if not logger.isEnabledFor(logging.DEBUG):
        logger.setLevel(logging.ERROR)
    logger.addHandler(handler)
    propagate, logger.propagate = logger.propagate, logger.isEnabledFor(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


def run_seed(seed: int, profile: Profile | None = None) -> Outcome:
    """One world. Nothing is raised for a violation: it is in the outcome."""
    began = time.process_time()
    chosen = profile or drawn(seed)

    async def main() -> Outcome:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        world = World(seed, chosen)
        with contextlib.ExitStack() as stack:
            stack.enter_context(_listening(world))
            if chosen.fickle:
                stack.enter_context(fickle_decoders())
            if chosen.tight:
                stack.enter_context(tight_limits())
            await _live(world)
            virtual = world.loop.time()
            await world.end()
        return _outcome(world, virtual)

    collecting = gc.isenabled()
    gc.disable()
    try:
        outcome = run_virtual(main())
    finally:
        if collecting:
            gc.enable()
    outcome.cpu_s = time.process_time() - began
    return outcome


def _outcome(world: World, virtual: float) -> Outcome:
    digest = zlib.crc32(repr((sorted(world.bucket.objects.items()), world.state.revision, world.trace)).encode())
    return Outcome(
        seed=world.seed,
        profile=world.profile.name,
        violations=list(dict.fromkeys(world.book.violations)),
        faults=world.faults,
        trace=world.trace,
        virtual_s=virtual,
        cpu_s=0.0,
        acked=world.book.acked_records,
        digest=digest,
    )


async def _live(world: World) -> None:
    await world.start()
    world.start_misfortune()
    await asyncio.sleep(world.profile.seconds)
    world.stop_misfortune()
    await _settle(world)


async def _settle(world: World) -> None:
    """After the faults: LIVE first, then all that must be true."""
    book = world.book
    fed = asyncio.ensure_future(world.fed())
    done, _ = await asyncio.wait({fed}, timeout=world.profile.seconds + 60)
    if not done:
        book.fail(f"LIVE: {world.unanswered()} batches are not answered a minute after the faults stopped")
        return
    fed.result()
    logs = await read_back(world)
    if not await until(lambda: _all_read(world, logs), seconds=30):
        book.fail("LIVE: a consumer does not reach the end")
    judge_log(book, logs)
    if world.profile.landing:
        await _settle_tables(world, logs)
    if world.profile.upkeep and world.profile.check_bound:
        backlog = world.profile.seconds if world.profile.tight else 0  # with tiny passes a backlog takes as long as it took to grow
        if not await until(lambda: not leftovers(world), seconds=BOUND_S + 4 * world.profile.grace_ms / 1000 + backlog):
            book.fail(f"BOUND: still there: {dict(leftovers(world))}")
    judge_segments(world, logs)


async def _settle_tables(world: World, logs: dict[tuple[str, int], tuple[int, int]]) -> None:
    deadline = world.loop.time() + world.profile.settle_s
    while True:
        hinted = await until(lambda: landed_hint(world, logs), seconds=max(0.0, deadline - world.loop.time()))
        if hinted and not missing_rows(world, logs) and reborn_landed(world):
            break
        if world.loop.time() >= deadline:
            statuses = world.hosts["landing"].landing.statuses() if world.hosts["landing"].landing else ()
            words = "; ".join(f"{status.table}: {status.state} {status.stage} {status.reason}" for status in statuses)
            world.book.fail(f"LIVE: not landed: {missing_rows(world, logs)} ({words})")
            break
        await asyncio.sleep(1.0)
    judge_tables(world, logs)
    judge_reborn(world)


def _all_read(world: World, logs: dict[tuple[str, int], tuple[int, int]]) -> bool:
    return all(
        offset >= logs.get((consumer.topic, partition), (0, 0))[1]
        for consumer in world.consumers
        for partition, offset in consumer.offsets.items()
    )
