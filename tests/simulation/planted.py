"""Nine old mistakes, put back one at a time: each must be caught, or the simulation proves nothing.

python -m tests.simulation.planted            writes docs/results/planted.json
python -m tests.simulation.replay --seed N --plant R02
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from tests.simulation.profiles import Faults, Profile
from tests.simulation.results import write_result

from frazil.catalogs import commit as catalog_commit
from frazil.catalogs import progress as catalog_progress
from frazil.catalogs.commit import Committer
from frazil.catalogs.scan import Span, read_rows
from frazil.kit.delays import Delay
from frazil.kit.errors import OutcomeUnknown
from frazil.landing.deadletter import _KEY_COLUMNS, Graveyard
from frazil.log import collect, seal
from frazil.log.append import Appender
from frazil.log.commit import Sequencer
from frazil.log.horizon import Horizon
from frazil.log.read import LogReader
from frazil.log.refs import OffsetOutOfRange
from frazil.log.seal import Sealer
from frazil.log.sequence import sequence
from frazil.metadata.faulty import MetadataFaults
from frazil.metadata.port import START, Moved
from frazil.objects.faulty import ObjectFaults

SEEDS_MAX = 50


@dataclass(frozen=True, slots=True)
class Plant:
    """One mistake: what it is, in which worlds it shows, and how it is put back."""

    rule: str
    what: str
    profile: Profile
    install: Callable[[], contextlib.AbstractContextManager[Any]]


@contextlib.contextmanager
def _patched(*changes: tuple[Any, str, Any]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for owner, name, value in changes:
            stack.enter_context(mock.patch.object(owner, name, value))
        yield


# --- the log ----------------------------------------------------------------------------------------------------------


def _ack_early() -> contextlib.AbstractContextManager[Any]:
    original = Sequencer._step

    async def step(self: Sequencer, attempt: Any) -> None:
        state = self._deps.index.state
        for part, outcome in sequence(attempt.choose(state.shards), state, self._expected).answers:
            part.settle(outcome)
        await original(self, attempt)

    return _patched((Sequencer, "_step", step))


def _no_commit_key() -> contextlib.AbstractContextManager[Any]:
    async def commit(self: Sequencer, plan: Any) -> Any:
        checks, writes, _ = self._transaction(plan)
        try:
            answer = await self._deps.store.commit(checks, writes)
        except OutcomeUnknown:
            for piece in plan.pieces:
                piece.flush.chunk += 1  # nothing under the old key is looked at
            return Moved(entries=())
        return answer if isinstance(answer, Moved) else answer.revision

    return _patched((Sequencer, "_commit", commit))


def _as_they_finish() -> contextlib.AbstractContextManager[Any]:
    def take_ready(self: Appender) -> list[Any]:
        ready = [flush for flush in self._queue if flush.stored is not None and flush.stored.done()]
        failed = [flush for flush in ready if flush.why_failed]
        ready = failed[:1] or ready
        for flush in ready:
            self._queue.remove(flush)
        return ready

    return _patched((Appender, "_take_ready", take_ready))


def _no_horizon() -> contextlib.AbstractContextManager[Any]:
    """Everybody goes by age; nothing tells the brokers."""
    aged = ""

    async def raise_horizon(store: Any, ulid: str) -> Horizon:
        nonlocal aged
        aged = max(aged, ulid)
        return Horizon(ulid, START)

    async def read_horizon(store: Any) -> Horizon:
        return Horizon(aged, START)

    return _patched(
        (collect, "raise_horizon", raise_horizon), (seal, "raise_horizon", raise_horizon), (collect, "read_horizon", read_horizon)
    )


def _no_plan() -> contextlib.AbstractContextManager[Any]:
    original = Sealer._units

    def units(self: Sealer, key: Any) -> Any:
        return [unit._replace(created_ms=self._deps.clock.now_ms()) for unit in original(self, key)]

    return _patched((Sealer, "_units", units))


def _stale_view() -> contextlib.AbstractContextManager[Any]:
    async def locate(self: LogReader, want: Any) -> Any:
        refs = self._resolve(want)
        if refs is None:
            raise OffsetOutOfRange(want.key, want.offset, self._index.bounds(want.key))
        return refs

    return _patched((LogReader, "_locate", locate))


# --- tables -----------------------------------------------------------------------------------------------------------


def _unbound_progress() -> contextlib.AbstractContextManager[Any]:
    original = catalog_progress.progress_value

    def progress_value(metadata: Any, *, where: str) -> str | None:
        claimed = metadata.get("properties", {}).get(catalog_progress.PROGRESS)
        return original(metadata, where=where) if claimed is None else str(claimed)

    return _patched((catalog_progress, "progress_value", progress_value), (catalog_commit, "progress_value", progress_value))


def _letters_by_progress() -> contextlib.AbstractContextManager[Any]:
    async def missing(self: Graveyard, table: Any, letters: Any, uuid: str) -> Any:
        found = await read_rows(self.lake.objects, table, _KEY_COLUMNS, Span(column="offset", low=0, high=1 << 62))
        progress: dict[tuple[str, int], int] = {}
        for target, topic, partition, offset in zip(*(found.column(name).to_pylist() for name in _KEY_COLUMNS), strict=True):
            if target == uuid:
                progress[topic, partition] = max(progress.get((topic, partition), -1), offset)
        return [letter for letter in letters if letter.offset > progress.get((letter.key.topic_id.hex(), int(letter.key.partition)), -1)]

    return _patched((Graveyard, "_missing", missing))


def _blind_retry() -> contextlib.AbstractContextManager[Any]:
    original = Committer._settle

    async def settle(self: Committer, prepared: Any) -> Any:
        request = self._request

        async def once(again: Any) -> Any:
            try:
                return await request(again)
            except (OutcomeUnknown, TimeoutError):
                raise _NotApplied from None

        with mock.patch.object(self, "_request", once):
            try:
                return await original(self, prepared)
            except _NotApplied:
                return False, await self._retrying(prepared.base.ident, lambda: self._within(self.catalog.load(prepared.base.ident))), True

    return _patched((Committer, "_settle", settle))


class _NotApplied(Exception):
    """Thinks who got no answer."""


# --- the worlds -------------------------------------------------------------------------------------------------------

_LOG = Profile(check_bound=True, brokers=2, topics=(("events", 2),), landing=False, seconds=6.0, batches=6, batch_max=2)
_TABLE = Profile(brokers=1, topics=(("events", 1),), landing=True, seconds=6.0, batches=8, commit_interval_ms=400)
_SLOW_PUTS = ObjectFaults(put_delay=Delay(p50_ms=20, p99_ms=400))

PLANTS: dict[str, Plant] = {
    "ack-first": Plant(
        "D1",
        "produce is answered before its flush is sequenced",
        replace(_LOG, faults=Faults(kill_s=1.0, point_share=0.8, metadata=MetadataFaults(commit_delay=Delay(p50_ms=10, p99_ms=100)))),
        _ack_early,
    ),
    "R02": Plant(
        "R02",
        "a lost answer counts as not applied, without a look at the commit key",
        replace(_LOG, faults=Faults(metadata=MetadataFaults(lost_applied=0.1, lost_late=0.05))),
        _no_commit_key,
    ),
    "R03": Plant(
        "R03",
        "flushes are sequenced as their bundles get stored, not as they were cut",
        replace(_LOG, inflight=4, brokers=1, faults=Faults(objects=_SLOW_PUTS)),
        _as_they_finish,
    ),
    "R01": Plant(
        "R01",
        "orphan bundles are collected by age alone, without a horizon",
        replace(
            _LOG,
            seal_age_ms=1_500,
            grace_ms=2_000,
            seconds=12.0,
            faults=Faults(freeze_s=1.0, freeze_points=("B3",), freeze_for_s=(4.0, 9.0), objects=_SLOW_PUTS),
        ),
        _no_horizon,
    ),
    "R05": Plant(
        "R05",
        "every try of a seal makes its own segment",
        replace(
            _LOG,
            seal_age_ms=1_000,
            grace_ms=1_000,
            faults=Faults(
                kill_s=1.5,
                point_share=0.0,
                clean_share=0.0,
                metadata=MetadataFaults(unavailable=0.1, lost_unapplied=0.1),
                objects=ObjectFaults(put_delay=Delay(p50_ms=30, p99_ms=300), s_503=0.05),
            ),
        ),
        _no_plan,
    ),
    "R08": Plant(
        "R08",
        "a broker believes its old view and answers OFFSET_OUT_OF_RANGE",
        replace(_LOG, brokers=3, faults=Faults(metadata=MetadataFaults(hint_dropped=0.5, range_delay=Delay(p50_ms=20, p99_ms=300)))),
        _stale_view,
    ),
    "R06": Plant(
        "R06",
        "the progress property counts whatever the head of the table is",
        replace(_TABLE, faults=Faults(rollback_s=1.0)),
        _unbound_progress,
    ),
    "R15": Plant(
        "R15",
        "dead letters are told apart by how far the dead-letter table is, not by their keys",
        replace(_TABLE, fickle=True, bad_share=0.1, batches=12, faults=Faults(kill_s=0.7, point_share=1.0, clean_share=0.0)),
        _letters_by_progress,
    ),
    "R16": Plant(
        "R16",
        "a commit without an answer counts as not applied",
        replace(
            _TABLE,
            embedded_catalog=False,
            faults=Faults(catalog={"C-5xx/a": 0.1, "C-cut/a": 0.1, "C-cut/n": 0.1, "C-late(1)": 0.1}),
        ),
        _blind_retry,
    ),
}


def planted(name: str, seed: int) -> list[str]:
    """Violations of one seed with the mistake in place."""
    from tests.simulation.run import run_seed

    plant = PLANTS[name]
    with plant.install():
        return run_seed(seed, replace(plant.profile, name=name)).violations


def sound(name: str, seed: int) -> list[str]:
    """Violations of the same world without the mistake."""
    from tests.simulation.run import run_seed

    return run_seed(seed, replace(PLANTS[name].profile, name=name)).violations


def hunt(name: str) -> tuple[str, int, str]:
    """How many seeds it took to catch the mistake (0: not caught within the limit), and how it showed."""
    for seed in range(SEEDS_MAX):
        violations = planted(name, seed)
        if violations:
            return name, seed + 1, violations[0]
    return name, 0, ""


def main() -> int:
    with ProcessPoolExecutor(2) as pool:
        found = {name: (seeds, how) for name, seeds, how in pool.map(hunt, PLANTS)}
        wrong = {name: bad for name in PLANTS if (bad := [v for seed in range(SEEDS_MAX) for v in sound(name, seed)])}
    each = {
        name: {"rule": plant.rule, "what": plant.what, "seeds": found[name][0], "shown": found[name][1][:300]}
        for name, plant in PLANTS.items()
    }
    caught = sum(seeds > 0 for seeds, _ in found.values())
    seeds_max = max(seeds or 10**6 for seeds, _ in found.values())
    result = {"caught": caught, "seeds_max": seeds_max, "false_alarms": len(wrong), "each": each}
    write_result("planted.json", "python -m tests.simulation.planted", result)
    print(json.dumps(result, indent=1))
    for name, violations in wrong.items():
        print(f"without its mistake the world of {name} shows: {violations[:3]}")
    return 0 if caught == len(PLANTS) and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
