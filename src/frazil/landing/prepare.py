"""Stages registry, convert, create, write of one table: decoded records → files that wait for their commit, and dead letters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from frazil.catalogs.port import LoadedTable
from frazil.landing.convert import DeadLetter, convert
from frazil.landing.decode import Decoded
from frazil.landing.lake import Lake
from frazil.landing.settings import LandingDeps, LandingSettings
from frazil.landing.target import Target
from frazil.landing.upsertcommit import last_events
from frazil.landing.write import Written, write_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What the stages work with. ``enter`` is told which one begins."""

    lake: Lake
    deps: LandingDeps
    settings: LandingSettings
    enter: Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """One table's part of a slice. ``table`` is what the files were written for and what their commit is based on."""

    table: LoadedTable
    written: Written
    letters: tuple[DeadLetter, ...]
    rows: int
    advice: str = ""
    """What the status should say about the layout."""


async def prepare(target: Target, table: LoadedTable | None, decoded: Decoded, bench: Bench) -> Prepared:
    """``table``: as loaded when its progress was read; None: there is none yet, and it is made. Raises Refused, RetryLater."""
    deps = bench.deps
    if target.asks_registry:
        bench.enter("registry")
        await target.learn(decoded.rows.records)
    bench.enter("convert")
    shape = target.shape(table)
    converted = await deps.offload.run(lambda: convert(decoded, shape))
    deps.faults.reach("P1")
    bench.enter("write")
    table = await target.lay_out(table) if table is not None else await target.create(converted.values)
    rows, touched = converted.rows, None
    if converted.events is not None and target.changes is not None:
        rows, touched = await last_events(bench.lake, table, converted.events, rows, target.changes)
    written = await write_rows(bench.lake, table, rows, renames=target.renames)
    deps.faults.reach("P3")
    written = replace(written, touched=touched)
    return Prepared(
        table=table,
        written=written,
        letters=converted.letters,
        rows=converted.rows.num_rows,
        advice=target.advice(table, written.files),
    )
