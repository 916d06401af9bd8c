"""Which landing process works on which table: claims that end with the lease of the process that holds them.

``landing-processes/{process}`` says that a process shares, ``landing-claims/{table}`` who works on a table. Both are written under the
process's lease, so what a dead process held is free when its lease has ended (F63). A claim saves work; exactly once does not hang on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from frazil.metadata.opening import prefix_end, read_one
from frazil.metadata.port import START, Check, Committed, MetadataStore, Write
from frazil.metadata.values import decode, encode

PROCESSES: Final = "landing-processes/"
CLAIMS: Final = "landing-claims/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """``process`` works on ``table``."""

    table: str
    process: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """Who shares now, by name, and every claim, by table."""

    processes: tuple[str, ...]
    claims: tuple[Claim, ...]


async def read_claims(store: MetadataStore) -> Claims:
    """All processes and claims. Raises RetryLater."""
    processes, claims = await asyncio.gather(store.range(PROCESSES, prefix_end(PROCESSES)), store.range(CLAIMS, prefix_end(CLAIMS)))
    return Claims(
        processes=tuple(entry.key.removeprefix(PROCESSES) for entry in processes.entries),
        claims=tuple(
            Claim(table=entry.key.removeprefix(CLAIMS), process=decode(entry.value, where=entry.key).text("process"))
            for entry in claims.entries
        ),
    )


async def join_processes(store: MetadataStore, process: str, *, lease: int) -> None:
    """Says that ``process`` shares, for as long as its lease lasts. Raises Conflict when that has ended already, RetryLater."""
    key = PROCESSES + process
    await store.commit((), [Write(key=key, value=encode({"process": process}), lease=lease)])


async def claim_tables(store: MetadataStore, tables: Sequence[str], process: str, *, lease: int) -> tuple[str, ...]:
    """The tables of ``tables`` that are this process's now; the others were faster claimed by somebody else.

    Raises Conflict when the lease has ended, RetryLater.
    """
    claimed = []
    for table in tables:
        key, value = CLAIMS + table, encode({"process": process})
        done = await store.commit([Check(key=key, version=START)], [Write(key=key, value=value, lease=lease)])
        if isinstance(done, Committed) or (done.entries and done.entries[0].value == value):
            claimed.append(table)
    return tuple(claimed)


async def give_back(store: MetadataStore, table: str, process: str) -> None:
    """The table is free, unless it is somebody else's by now. Raises RetryLater."""
    entry = await read_one(store, CLAIMS + table)
    if not entry.version or decode(entry.value, where=entry.key).text("process") != process:
        return
    await store.commit([Check(key=entry.key, version=entry.version)], [Write(key=entry.key, value=None)])


async def leave_processes(store: MetadataStore, process: str) -> None:
    """A clean end: the process shares no longer. Raises RetryLater."""
    await store.commit((), [Write(key=PROCESSES + process, value=None)])
