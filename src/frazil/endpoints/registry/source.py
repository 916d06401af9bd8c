"""The cluster's own registry as a source of schemas for landing: read from the metadata store, without a server between."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

from frazil.endpoints.registry.book import Book
from frazil.endpoints.registry.problems import Problem
from frazil.kit.clock import Clock
from frazil.schemas.framing import Found, Unknown, WriterSchema

_SCHEMAS_MAX: Final = 10_000
_MISS_MS: Final = 5_000


class StoredSchemas:
    """``schemas.registry.SchemaSource``. What an id means never changes, so it is remembered; a miss is believed for seconds."""

    def __init__(self, book: Book, clock: Clock) -> None:
        self._book = book
        self._clock = clock
        self._kept: OrderedDict[int, WriterSchema] = OrderedDict()
        self._missed: dict[int, tuple[float, Unknown]] = {}

    async def find(self, ids: Iterable[int]) -> Mapping[int, Found]:
        """An answer for every id. Raises RetryLater while the metadata store is away."""
        return {schema_id: await self._find(schema_id) for schema_id in ids}

    async def _find(self, schema_id: int) -> Found:
        if schema_id in self._kept:
            self._kept.move_to_end(schema_id)
            return self._kept[schema_id]
        now_ms = self._clock.monotonic_ms()
        missed = self._missed.get(schema_id)
        if missed is not None and now_ms - missed[0] < _MISS_MS:
            return missed[1]
        try:
            found = await self._book.resolved(await self._book.schema(schema_id))
        except Problem as problem:
            unknown = Unknown(code="unknown-schema", why=f"the cluster's registry has no schema with id {schema_id}: {problem.message}")
            if len(self._missed) >= _SCHEMAS_MAX:
                self._missed.clear()
            self._missed[schema_id] = (now_ms, unknown)
            return unknown
        self._kept[schema_id] = found
        if len(self._kept) > _SCHEMAS_MAX:
            self._kept.popitem(last=False)
        return found
