"""Opening a metadata store by its URL, and the two small reads everybody needs."""

from __future__ import annotations

from frazil.kit.clock import Clock
from frazil.kit.errors import Bug, Refused
from frazil.kit.plugins import load_backend
from frazil.metadata.port import Entry, MetadataStore, Revision


def open_metadata(url: str, *, clock: Clock) -> MetadataStore:
    """The store behind ``sqlite:///path/metadata.db`` or ``memory:``; back-ends register under ``frazil.metadata``.

    Raises Refused for an unknown scheme or an address the back-end cannot use.
    """
    scheme, colon, _ = url.partition(":")
    if not colon or not scheme:
        raise Refused(f"metadata url {url!r}: write scheme:…, for example sqlite:///var/lib/frazil/metadata.db")
    store: MetadataStore = load_backend("frazil.metadata", scheme)(url, clock)
    return store


async def read_one(store: MetadataStore, key: str) -> Entry:
    """One key, linearizably; ``version`` 0 when it does not exist."""
    found = await store.range(key, key + "\0")
    return found.entries[0] if found.entries else Entry(key=key, value=b"", version=Revision(0))


def prefix_end(prefix: str) -> str:
    """The end bound of the range of all keys that start with ``prefix`` (which must end in an ASCII character)."""
    if not prefix or ord(prefix[-1]) >= 0x7F:
        raise Bug(f"no range for prefix {prefix!r}")
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
