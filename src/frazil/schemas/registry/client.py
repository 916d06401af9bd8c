"""Schemas by id, remembered: what a registry has under an id never changes, and what it has not is asked for seldom (F42)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from frazil.kit.clock import Clock
from frazil.kit.errors import FrazilError
from frazil.kit.tasks import spawn
from frazil.schemas.framing import Found, Unknown, WriterSchema
from frazil.schemas.registry.answers import Entry, Reference, by_id, by_reference, read
from frazil.schemas.registry.http import Fetch

SCHEMAS_MAX: Final = 10_000
MISS_MS: Final = 30_000
"""How long a miss is believed: a schema may be registered a moment after its first record was seen."""
REFERENCES_MAX: Final = 200
_ASKED_AT_ONCE: Final = 8


_Key: TypeAlias = tuple[str, str, int]
"""What a reference calls it, subject, version."""


class SchemaSource(Protocol):
    """Where schemas come from."""

    async def find(self, ids: Iterable[int]) -> Mapping[int, Found]:
        """An answer for every id. Raises RetryLater while the registry is away, Refused when it does not let us in."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    found: Found
    until_ms: float | None
    """None: for ever."""


class RegistryClient:
    """One registry. Bounded memory: the ids used longest ago are forgotten first. Several tables may ask at once."""

    def __init__(self, fetch: Fetch, clock: Clock, *, schemas_max: int = SCHEMAS_MAX) -> None:
        self._fetch = fetch
        self._clock = clock
        self._most = schemas_max
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._asked: dict[int, asyncio.Task[Found | FrazilError]] = {}
        self._turns = asyncio.Semaphore(_ASKED_AT_ONCE)

    async def find(self, ids: Iterable[int]) -> Mapping[int, Found]:
        """See SchemaSource. Each id is asked for once, however many ask; one failure fails the call, and what came is kept."""
        found: dict[int, Found] = {}
        asked: dict[int, asyncio.Task[Found | FrazilError]] = {}
        for schema_id in ids:
            kept = self._remembered(schema_id)
            if kept is not None:
                found[schema_id] = kept
                continue
            if schema_id not in self._asked:
                self._asked[schema_id] = spawn(f"schema {schema_id}", self._ask(schema_id))
            asked[schema_id] = self._asked[schema_id]
        if asked:
            await asyncio.wait(asked.values())  # a cancelled caller leaves the look-ups to those who share them
        for schema_id, task in asked.items():
            answer = task.result()
            if isinstance(answer, FrazilError):
                raise answer
            found[schema_id] = answer
        return found

    async def close(self) -> None:
        """Ends the look-ups under way and the connections."""
        tasks = list(self._asked.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._fetch.close()

    def _remembered(self, schema_id: int) -> Found | None:
        kept = self._kept.get(schema_id)
        if kept is None:
            return None
        if kept.until_ms is not None and kept.until_ms <= self._clock.monotonic_ms():
            del self._kept[schema_id]
            return None
        self._kept.move_to_end(schema_id)
        return kept.found

    async def _ask(self, schema_id: int) -> Found | FrazilError:
        """The answer, or why there is none now; the next who asks asks again."""
        try:
            async with self._turns:
                found = await self._look_up(schema_id)
        except FrazilError as error:
            return error
        finally:
            del self._asked[schema_id]
        until_ms = self._clock.monotonic_ms() + MISS_MS if isinstance(found, Unknown) else None
        self._kept[schema_id] = _Kept(found=found, until_ms=until_ms)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return found

    async def _look_up(self, schema_id: int) -> Found:
        entry = await self._get(by_id(schema_id))
        if entry is None:
            return Unknown(code="unknown-schema", why=f"the registry has no schema with id {schema_id}")
        texts: dict[_Key, str] = {}
        why = await self._gather(entry, texts, set())
        if why:
            return Unknown(code="bad-schema", why=f"schema {schema_id}: {why}")
        return WriterSchema(kind=entry.kind, text=entry.text, references=tuple((name, text) for (name, _, _), text in texts.items()))

    async def _gather(self, entry: Entry, texts: dict[_Key, str], above: set[_Key]) -> str:
        """Fills ``texts`` with everything ``entry`` refers to, what is needed first; why not, if it cannot be had."""
        for reference in entry.references:
            key = (reference.name, reference.subject, reference.version)
            if key in texts:
                continue
            if key in above or len(texts) + len(above) >= REFERENCES_MAX:
                return f"its references go in a circle or are more than {REFERENCES_MAX}"
            needed = await self._get(by_reference(reference))
            if needed is None:
                return _missing(reference)
            why = await self._gather(needed, texts, above | {key})
            if why:
                return why
            texts[key] = needed.text
        return ""

    async def _get(self, path: str) -> Entry | None:
        return read(await self._fetch.get(path), path)


def _missing(reference: Reference) -> str:
    return f"it refers to {reference.name}, version {reference.version} of subject {reference.subject}, which the registry does not have"
