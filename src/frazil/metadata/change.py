"""Read, decide, compare-and-swap, and again until it is settled: the one loop for small record changes.

``decide`` must recognise its own result. After a lost answer (OutcomeUnknown) the keys are read again and ``decide`` says
either "done" or what is still to do (R02); a commit that is applied late then loses against the checks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from frazil.kit.errors import OutcomeUnknown, RetryLater
from frazil.metadata.opening import read_one
from frazil.metadata.port import Check, Committed, Entry, MetadataStore, Write

Decide = Callable[[Mapping[str, Entry]], Sequence[Write]]

_ATTEMPTS_MAX: Final = 100
_PAUSE_MS_MAX: Final = 500
_LOSSES_AT_ONCE: Final = 3


async def settle(store: MetadataStore, keys: Sequence[str], decide: Decide) -> None:
    """Applies what ``decide`` makes of ``keys`` as they are; no writes means there is nothing (more) to do.

    Errors of ``decide`` pass through. Raises RetryLater or OutcomeUnknown when the store stays in trouble for about 40 s.
    """
    pause_ms = 5
    losses = 0
    trouble: RetryLater | None = None
    for _ in range(_ATTEMPTS_MAX):
        try:
            entries = {key: await read_one(store, key) for key in keys}
            writes = decide(entries)
            if not writes:
                return
            checks = [Check(key=key, version=entry.version) for key, entry in entries.items()]
            if isinstance(await store.commit(checks, writes), Committed):
                return
            trouble = None
            losses += 1
        except RetryLater as error:
            # a failed read leaves the doubt of the commit before it
            trouble = error if not isinstance(trouble, OutcomeUnknown) or isinstance(error, OutcomeUnknown) else trouble
        if trouble is not None or losses > _LOSSES_AT_ONCE:
            await asyncio.sleep(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, _PAUSE_MS_MAX)
    raise trouble or RetryLater(f"metadata keys {', '.join(keys)} are changed by others all the time")
