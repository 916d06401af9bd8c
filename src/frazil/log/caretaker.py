"""The one background loop that keeps the log small: seal, retain, remove, collect. One process of the cluster runs it at a time.

The claim, a key under a lease, only saves double work; every step is safe when two processes do it at once.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from frazil.kit.errors import Corrupt, Missing, Refused, RetryLater
from frazil.log.collect import Collector
from frazil.log.remove import Remover
from frazil.log.retain import Retainer
from frazil.log.seal import Sealer
from frazil.log.strays import StraySweeper
from frazil.log.upkeep import UpkeepDeps, UpkeepPolicy
from frazil.metadata import read_one
from frazil.metadata.port import START, Check, Moved, Write

CLAIM: Final = "gc/caretaker"
_LOG = logging.getLogger(__name__)


class Caretaker:
    """Started by assembly, one per broker; ``name`` identifies the process in the claim."""

    def __init__(self, deps: UpkeepDeps, policy: UpkeepPolicy, *, name: str) -> None:
        self._deps = deps
        self._policy = policy
        self._name = name
        self._lease = 0
        self.sealer = Sealer(deps, policy)
        self.retainer = Retainer(deps, policy)
        self.remover = Remover(deps, policy)
        self.collector = Collector(deps, policy)
        self.strays = StraySweeper(deps, policy)
        self.trouble = ""
        """Why the last pass did not finish; empty when it did."""

    async def run(self) -> None:
        """Passes for ever, ``interval_ms`` apart, while this process holds the claim."""
        while True:
            try:
                if await self._claim():
                    await self.pass_once()
                    self.trouble = ""
            except (RetryLater, Refused, Missing, Corrupt) as error:  # appending and reading go on, whatever a store refuses here
                self.trouble = f"{type(error).__name__}: {error}"
                _LOG.warning("log upkeep stopped and will try again: %s", self.trouble)
            await asyncio.sleep(self._policy.interval_ms / 1000)

    async def pass_once(self) -> None:
        """Everything once, in the order in which one step makes work for the next."""
        await self.remover.pass_once()
        await self.sealer.pass_once()
        await self.retainer.pass_once()
        await self.collector.pass_once()
        await self.strays.pass_once()

    def troubles(self) -> tuple[str, ...]:
        """What a status should say: the pass as a whole, and partitions that cannot be sealed."""
        sealing = tuple(f"{key}: {why}" for key, why in sorted(self.sealer.troubles.items()))
        return (*((self.trouble,) if self.trouble else ()), *sealing)

    async def _claim(self) -> bool:
        """True while the claim is ours."""
        if self._lease and await self._deps.store.renew_lease(self._lease):
            return True
        self._lease = 0
        if (await read_one(self._deps.store, CLAIM)).version:
            return False
        lease = await self._deps.store.grant_lease(6 * self._policy.interval_ms)
        write = Write(key=CLAIM, value=self._name.encode(), lease=lease)
        if isinstance(await self._deps.store.commit([Check(key=CLAIM, version=START)], [write]), Moved):
            return False
        self._lease = lease
        return True
