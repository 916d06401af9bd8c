"""A catalog that misbehaves as real ones do, on a script or at seeded rates; the words are those of docs/proof.md.

    C-409      refuses with a conflict that is not true          C-409/a     applies, then answers 409 (a gateway that replays)
    C-429      too many requests                                 C-400       calls the request wrong
    C-401      credentials expired (C-419 too)                   C-403       not allowed to commit
    C-404      does not find the table
    C-5xx/n    server error, not applied                         C-5xx/a     server error, applied all the same
    C-cut/n    connection closed, not applied                    C-cut/a     connection closed, applied
    C-late(s)  connection closed, applied s seconds later        C-hang      accepts and never answers
    ok         behaves

For the caller C-5xx, C-cut and C-late look alike: the outcome is unknown. All waiting is ``asyncio.sleep``: virtual under simulation.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from frazil.catalogs.port import Catalog, CreateTable, JsonObject, LoadedTable
from frazil.kit.chance import Chance
from frazil.kit.delays import NO_DELAY, Delay
from frazil.kit.errors import Conflict, FrazilError, Missing, OutcomeUnknown, Refused, RetryLater
from frazil.kit.tasks import spawn
from frazil.objects.port import ObjectStore

WORDS: Final = (
    "C-409", "C-429", "C-400", "C-401", "C-403", "C-419", "C-404", "C-5xx/n", "C-5xx/a", "C-cut/n", "C-cut/a", "C-409/a", "C-hang", "ok",
)  # fmt: skip
_LATE: Final = re.compile(r"C-late\((\d+(?:\.\d+)?)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """Which word the next commits meet: first the script in order, then chance."""

    script: Sequence[str] = ()
    rates: Mapping[str, float] = field(default_factory=dict)
    """Probability per word, once the script has run out."""
    load_failures: float = 0.0
    """Probability that a load answers 5xx."""
    delay: Delay = NO_DELAY
    """Latency of every call."""


class FaultyCatalog(Catalog):
    """Wraps another catalog. Only ``commit`` meets the words; ``load`` may fail passingly; the rest is the inner catalog's."""

    def __init__(self, inner: Catalog, chance: Chance, plan: FaultPlan) -> None:
        for word in (*plan.script, *plan.rates):
            if word not in WORDS and not _LATE.fullmatch(word):
                raise Refused(f"fault word {word!r}; known: {', '.join(WORDS)}, C-late(seconds)")
        self._inner = inner
        self._chance = chance
        self._plan = plan
        self._script = deque(plan.script)
        self._late: set[asyncio.Task[None]] = set()
        self.met: list[str] = []
        """The words met so far."""

    async def load(self, ident: str) -> LoadedTable:
        """See ``Catalog.load``."""
        await self._wait()
        if self._chance.random() < self._plan.load_failures:
            raise RetryLater("503 on load")
        return await self._inner.load(ident)

    async def create(self, ident: str, table: CreateTable) -> LoadedTable:
        """See ``Catalog.create``."""
        await self._wait()
        return await self._inner.create(ident, table)

    async def list(self, namespace: str) -> tuple[str, ...]:
        """See ``Catalog.list``."""
        await self._wait()
        return await self._inner.list(namespace)

    async def drop(self, ident: str) -> None:
        """See ``Catalog.drop``."""
        await self._wait()
        await self._inner.drop(ident)

    async def commit(self, ident: str, base: LoadedTable, requirements: Sequence[JsonObject], updates: Sequence[JsonObject]) -> LoadedTable:
        """See ``Catalog.commit``."""
        await self._wait()
        word = self._draw()
        self.met.append(word)
        if late := _LATE.fullmatch(word):
            self._apply_later(float(late.group(1)), lambda: self._inner.commit(ident, base, requirements, updates))
            raise OutcomeUnknown(f"{word}: connection closed")
        refused = _NOT_APPLIED.get(word)
        if refused is not None:
            raise refused(f"{word}: injected")
        if word == "C-hang":
            await asyncio.get_running_loop().create_future()
        table = await self._inner.commit(ident, base, requirements, updates)
        if word == "C-409/a":
            raise Conflict(f"{word}: already applied")
        if word != "ok":
            raise OutcomeUnknown(f"{word}: the answer was lost")
        return table

    @property
    def objects(self) -> ObjectStore | None:
        """See ``Catalog.objects``."""
        return self._inner.objects

    async def reading(self, table: LoadedTable) -> Mapping[str, str]:
        """See ``Catalog.reading``."""
        return await self._inner.reading(table)

    async def close(self) -> None:
        """See ``Catalog.close``."""
        await self._inner.close()

    async def settle(self) -> None:
        """Waits until every late request has reached the inner catalog."""
        while self._late:
            await asyncio.gather(*self._late)

    def _draw(self) -> str:
        if self._script:
            return self._script.popleft()
        point = self._chance.random()
        for word, rate in self._plan.rates.items():
            point -= rate
            if point < 0:
                return word
        return "ok"

    def _apply_later(self, seconds: float, request: Callable[[], Awaitable[LoadedTable]]) -> None:
        async def arrive() -> None:
            await asyncio.sleep(seconds)
            try:
                await request()
            except FrazilError as error:
                self.met.append(f"late request refused: {type(error).__name__}")

        task = spawn("faulty catalog, late request", arrive())
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _wait(self) -> None:
        await asyncio.sleep(self._plan.delay.draw_ms(self._chance) / 1000)


_NOT_APPLIED: Final[Mapping[str, type[Conflict | Refused | RetryLater | Missing]]] = {
    "C-409": Conflict,
    "C-429": RetryLater,
    "C-400": Refused,
    "C-401": RetryLater,
    "C-403": Refused,
    "C-419": RetryLater,
    "C-404": Missing,
    "C-5xx/n": OutcomeUnknown,
    "C-cut/n": OutcomeUnknown,
}
