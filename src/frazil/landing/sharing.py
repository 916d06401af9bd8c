"""Which tables this process works on when several landing processes share them.

Each process claims tables under its lease, up to its even part, and gives some back when another has fewer. What a dead process had
is free when its lease ends. Claims only save work: two owners of one table are harmless, as every commit asserts the table's head.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from frazil.kit.clock import Clock
from frazil.kit.errors import Conflict
from frazil.metadata.claims import Claims, claim_tables, give_back, join_processes, leave_processes, read_claims
from frazil.metadata.port import MetadataStore

_RENEWALS: Final = 3
"""A lease is renewed so often in its life."""


class Others(Protocol):
    """This process among the others that share."""

    @property
    def name(self) -> str:
        """Of this process."""
        ...

    def count(self) -> int:
        """How many others there are, as known last."""
        ...

    def lease(self) -> int | None:
        """The lease of this process; None: it has none now."""
        ...


class Sharing(Protocol):
    """Says which tables are this process's."""

    def others(self) -> Others | None:
        """Who may help with a huge topic; None: nobody ever."""
        ...

    async def mine(self, wanted: Sequence[str]) -> frozenset[str]:
        """Those of ``wanted`` that this process works on from now on; it ends its work on the others, then tells ``released``.

        Raises RetryLater: then everything stays as it is.
        """
        ...

    async def released(self, table: str) -> None:
        """The work on a table has ended. Raises RetryLater."""
        ...

    async def leave(self) -> None:
        """A clean end. Raises RetryLater."""
        ...


class Alone(Sharing):
    """One process has all tables."""

    def others(self) -> None:
        """Nobody."""

    async def mine(self, wanted: Sequence[str]) -> frozenset[str]:
        """All of them."""
        return frozenset(wanted)

    async def released(self, table: str) -> None:
        """Nobody waits for it."""

    async def leave(self) -> None:
        """Nobody needs to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """What a process does about its tables: these it gives back, these it tries to claim."""

    give_back: tuple[str, ...] = ()
    claim: tuple[str, ...] = ()


def plan_shares(tables: Collection[str], claims: Claims, process: str) -> Shares:
    """Even parts with as few moves as possible. Pure: every process plans for itself, from the same claims.

    A process holds at most ⌈tables / processes⌉. One that holds more than another lacks gives one back; free tables are claimed in an
    order of each process's own, so that two do not run for the same one.
    """
    processes = {*claims.processes, process}
    held = {claim.table: claim.process for claim in claims.claims if claim.process in processes and claim.table in tables}
    counts = dict.fromkeys(processes, 0)
    for owner in held.values():
        counts[owner] += 1
    low, high = len(tables) // len(processes), -(-len(tables) // len(processes))
    own = sorted((table for table, owner in held.items() if owner == process), key=lambda table: _rank(process, table))
    free = sorted((table for table in tables if table not in held), key=lambda table: _rank(process, table))
    if len(own) > high:
        return Shares(give_back=tuple(own[high:]))
    someone_lacks = not free and any(count < low for other, count in counts.items() if other != process)
    if someone_lacks and len(own) > low:
        return Shares(give_back=(own[-1],))
    return Shares(claim=tuple(free[: high - len(own)]))


def _rank(process: str, table: str) -> bytes:
    return hashlib.blake2b(f"{process}\0{table}".encode(), digest_size=8).digest()


class Shared(Sharing, Others):
    """Shares by claims in the metadata store."""

    def __init__(self, store: MetadataStore, clock: Clock, *, process: str, label: str = "", lease_ms: int = 10_000) -> None:
        """``process``: a name no other process ever has. ``label``: stands before table names, as everywhere in metadata."""
        self._store = store
        self._clock = clock
        self._process = process
        self._label = label
        self._lease_ms = lease_ms
        self._lease: int | None = None
        self._renewed_ms = 0.0
        self._count = 0

    @property
    def name(self) -> str:
        """See ``Others.name``."""
        return self._process

    def count(self) -> int:
        """See ``Others.count``."""
        return self._count

    def lease(self) -> int | None:
        """See ``Others.lease``."""
        return self._lease

    def others(self) -> Others:
        """See ``Sharing.others``."""
        return self

    async def mine(self, wanted: Sequence[str]) -> frozenset[str]:
        """See ``Sharing.mine``."""
        lease = await self._alive()
        tables = {self._label + table: table for table in wanted}
        claims = await read_claims(self._store)
        self._count = sum(process != self._process for process in claims.processes)
        shares = plan_shares(tables.keys(), claims, self._process)
        held = {claim.table for claim in claims.claims if claim.process == self._process and claim.table in tables}
        held -= set(shares.give_back)
        try:
            held |= set(await claim_tables(self._store, shares.claim, self._process, lease=lease))
        except Conflict:
            self._lease = None  # it ended under our hands, and with it every claim
            return frozenset()
        return frozenset(tables[table] for table in held)

    async def released(self, table: str) -> None:
        """See ``Sharing.released``."""
        await give_back(self._store, self._label + table, self._process)

    async def leave(self) -> None:
        """See ``Sharing.leave``."""
        await leave_processes(self._store, self._process)

    async def _alive(self) -> int:
        """The lease, renewed in time, or a new one when it has ended: then nothing is this process's any more."""
        now_ms = self._clock.monotonic_ms()
        if self._lease is not None and now_ms - self._renewed_ms < self._lease_ms / _RENEWALS:
            return self._lease
        if self._lease is None or not await self._store.renew_lease(self._lease):
            self._lease = await self._store.grant_lease(self._lease_ms)
            await join_processes(self._store, self._process, lease=self._lease)
        self._renewed_ms = now_ms
        return self._lease
