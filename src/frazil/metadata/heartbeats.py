"""Signs of life of processes that no client talks to: a process that died must not look well by its last words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from frazil.kit.errors import Corrupt
from frazil.metadata.change import settle
from frazil.metadata.opening import prefix_end
from frazil.metadata.port import Entry, MetadataStore, Write
from frazil.metadata.values import decode, encode

PREFIX: Final = "heartbeats/"


async def beat(store: MetadataStore, process: str, *, now_ms: int) -> None:
    """Says that ``process`` lives at ``now_ms``. Raises RetryLater."""
    key, value = PREFIX + process, encode({"at_ms": now_ms})

    def decide(entries: Mapping[str, Entry]) -> list[Write]:
        return [] if entries[key].value == value else [Write(key=key, value=value)]

    await settle(store, (key,), decide)


async def fall_silent(store: MetadataStore, process: str) -> None:
    """A clean end: the process takes its sign of life back. Raises RetryLater."""
    key = PREFIX + process
    await settle(store, (key,), lambda entries: [Write(key=key, value=None)] if entries[key].version else [])


async def last_beat_ms(store: MetadataStore, process: str) -> int | None:
    """When ``process``, or one of several ``process/…``, last said so; None when none ever did. Raises RetryLater."""
    alone = await store.range(PREFIX + process, PREFIX + process + "\0")
    several = await store.range(f"{PREFIX}{process}/", prefix_end(f"{PREFIX}{process}/"))
    found = [at_ms for entry in (*alone.entries, *several.entries) if (at_ms := _at_ms(entry)) is not None]
    return max(found, default=None)


def _at_ms(entry: Entry) -> int | None:
    try:
        return decode(entry.value, where=entry.key).number("at_ms")
    except Corrupt:
        return None  # unreadable is as good as silent: the next beat replaces it
