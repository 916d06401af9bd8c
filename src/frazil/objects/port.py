"""The object store port: five verbs over immutable objects. Keys are ``/``-separated UTF-8 text without leading ``/``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """One listed object."""

    key: str
    size_bytes: int
    modified_ms: int


class ObjectStore(Protocol):
    """Immutable objects under keys. Nothing is ever overwritten."""

    def uri(self, key: str) -> str:
        """The address by which other programs find ``key`` (``file:///…``, ``s3://…``, ``memory://…``)."""
        ...

    async def put_if_absent(self, key: str, data: bytes | bytearray | memoryview | Sequence[bytes | memoryview]) -> None:
        """Stores the object durably and atomically (a reader sees all of it or nothing).

        Raises Conflict when the key exists, RetryLater when nothing was stored, OutcomeUnknown when the answer was lost.
        """
        ...

    async def get(self, key: str, *, start: int = 0, end: int | None = None) -> bytes:
        """Bytes ``[start, end)`` of the object, or up to its end. A range past the end is cut, as S3 does.

        Raises Missing when there is no such object, RetryLater on passing trouble.
        """
        ...

    def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        """Objects whose key starts with ``prefix``, in key order."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Deletes the objects; those that are already gone are no error."""
        ...
