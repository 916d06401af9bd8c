"""``gc/horizon``: no bundle with a ULID at or below it may be committed any more (R01)."""

from __future__ import annotations

from typing import NamedTuple

from frazil.log.shards import HORIZON
from frazil.metadata import read_one
from frazil.metadata.port import START, Check, Entry, MetadataStore, Moved, Revision, Write

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class Horizon(NamedTuple):
    """The highest closed ULID (empty: none) and the version of the record that says so."""

    ulid: str
    version: Revision


NO_HORIZON = Horizon("", START)


def horizon_of(entry: Entry) -> Horizon:
    """From the stored record, whose value is the ULID as ASCII."""
    return Horizon(entry.value.decode(), entry.version)


async def read_horizon(store: MetadataStore) -> Horizon:
    """As it is now."""
    return horizon_of(await read_one(store, HORIZON))


async def raise_horizon(store: MetadataStore, ulid: str) -> Horizon:
    """Raises it to ``ulid`` unless it is there already; returns where it is now. It never goes back."""
    current = await read_horizon(store)
    while current.ulid < ulid:
        answer = await store.commit([Check(key=HORIZON, version=current.version)], [Write(key=HORIZON, value=ulid.encode())])
        current = horizon_of(answer.entries[0]) if isinstance(answer, Moved) else Horizon(ulid, answer.revision)
    return current


def ulid_ms(ulid: str) -> int:
    """The millisecond in a ULID; 0 for the empty one."""
    value = 0
    for character in ulid[:10]:
        value = value * 32 + _CROCKFORD.index(character)
    return value
