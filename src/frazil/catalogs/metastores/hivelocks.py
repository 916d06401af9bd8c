"""Hive's lock on a table, for as long as one commit takes; locks of ours that were left by the dead are taken away (F63).

The lock keeps out writers that rely on it alone (Iceberg's Java client by default, PyIceberg). It does not decide between writers of
ours: the expected parameter does, so a process that wakes up after its lock was taken away overwrites nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import logging
import socket
from collections.abc import AsyncIterator
from typing import Any, Final

from hive_metastore.ttypes import (
    CheckLockRequest,
    LockComponent,
    LockLevel,
    LockRequest,
    LockState,
    LockType,
    ShowLocksRequest,
    UnlockRequest,
)

from frazil.catalogs.metastores.hiveapi import HiveApi
from frazil.kit.clock import Clock
from frazil.kit.errors import FrazilError, RetryLater

_LOG: Final = logging.getLogger("frazil.catalogs")
AGENT: Final = "frazil"
"""``agentInfo`` of our locks."""
_DEAD_MS: Final = 45_000
"""No lock of ours is held or waited for so long without a sign of life (``check_lock`` is one)."""
_WAIT_MS: Final = 20_000
_POLL_MIN_MS: Final = 50
_POLL_MAX_MS: Final = 1_000


class HiveLocks:
    """Exclusive locks on tables."""

    def __init__(self, api: HiveApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._seen: dict[int, tuple[object, float]] = {}
        """Locks of ours in the way: their last sign of life, and when it was first seen here."""

    @contextlib.asynccontextmanager
    async def held(self, database: str, name: str) -> AsyncIterator[None]:
        """Holds the table's lock. Raises RetryLater naming who has it when it is not to be had within 20 seconds."""
        what = f"locking table {database}.{name}"
        request = LockRequest(
            component=[
                LockComponent(type=LockType.EXCLUSIVE, level=LockLevel.TABLE, dbname=database, tablename=name, isTransactional=False)
            ],
            user=getpass.getuser(),
            hostname=socket.gethostname(),
            agentInfo=AGENT,
        )
        answer = await self._api.call(lambda client: client.lock(request), what=what)
        try:
            await self._acquired(answer, database, name)
            yield
        finally:
            await self._unlock(int(answer.lockid), what)

    async def _acquired(self, answer: Any, database: str, name: str) -> None:  # noqa: ANN401 - thrift has no types
        what = f"locking table {database}.{name}"
        end_ms = self._clock.monotonic_ms() + _WAIT_MS
        pause_ms = _POLL_MIN_MS
        lock_id = answer.lockid
        while answer.state == LockState.WAITING:
            blocked = await self._blockers(lock_id, database, name)
            if self._clock.monotonic_ms() >= end_ms:
                raise RetryLater(f"{what}: held by {blocked or 'somebody'}; it is taken when they end or their lock does", after_ms=1_000)
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(pause_ms * 2, _POLL_MAX_MS)
            answer = await self._api.call(lambda client: client.check_lock(CheckLockRequest(lockid=lock_id)), what=what)
        if answer.state != LockState.ACQUIRED:
            raise RetryLater(f"{what}: the metastore answers {LockState._VALUES_TO_NAMES.get(answer.state, answer.state)}")

    async def _blockers(self, mine: int, database: str, name: str) -> str:
        """Who is in the way. A lock of ours that gives no sign of life is taken away."""
        request = ShowLocksRequest(dbname=database, tablename=name)
        shown = await self._api.call(lambda client: client.show_locks(request), what=f"looking at the locks of {database}.{name}")
        now_ms = self._clock.monotonic_ms()
        others = [lock for lock in shown.locks or () if lock.lockid != mine and lock.lockid < mine]
        self._seen = {lock_id: seen for lock_id, seen in self._seen.items() if lock_id in {lock.lockid for lock in others}}
        for lock in others:
            life = (lock.lastheartbeat, lock.state)
            known = self._seen.get(lock.lockid)
            if known is None or known[0] != life:
                self._seen[lock.lockid] = (life, now_ms)
            elif lock.agentInfo == AGENT and now_ms - known[1] >= _DEAD_MS:
                _LOG.warning(
                    "table %s.%s: lock %s of %s@%s gives no sign of life; taken away", database, name, lock.lockid, lock.user, lock.hostname
                )
                await self._unlock(lock.lockid, f"taking away a dead lock on {database}.{name}")
        return ", ".join(f"{lock.user}@{lock.hostname} ({lock.agentInfo or 'unknown program'})" for lock in others)

    async def _unlock(self, lock_id: int, what: str) -> None:
        """Best effort: a lock that is not taken back here ends by itself."""
        try:
            await self._api.call(lambda client: client.unlock(UnlockRequest(lockid=lock_id)), what=what)
        except FrazilError as error:
            _LOG.info("%s: unlocking: %s", what, error)
