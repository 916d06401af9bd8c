"""Values that say where records are: refs, bounds, slices."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.kit.errors import Refused
from frazil.kit.names import PartitionKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Ref:
    """Offsets ``[base, end)`` of one partition are the bytes ``[position, position + length)`` of one object."""

    base: int
    end: int
    object_key: str
    position: int
    length: int
    first_timestamp_ms: int
    max_timestamp_ms: int
    sealed: bool
    """False: bundle bytes, whose batches carry no offsets yet and must pass ``records.patch`` (R31)."""
    object_bytes: int
    """Size of the whole object, so that a reader can decide to take all of it (R12)."""
    written_ms: int
    """When the object was made, by the clock of a broker; timestamps are the producers'."""

    @property
    def lost(self) -> bool:
        """No bytes: a restore of metadata could not tell what these offsets were, or whether they were used at all (R22)."""
        return not self.object_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Log start offset and end offset (exclusive) of one partition. The end is high watermark and last stable offset."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Whole patched batches of one partition; ``base`` ≤ the offset asked for < ``end`` unless ``data`` is empty.

    When the offset asked for is in a lost range, ``base`` is the next one that exists.
    """

    key: PartitionKey
    base: int
    end: int
    data: bytes
    bounds: Bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """A slice whose bytes were not joined: ``parts`` one after the other are its ``data``. They may be views into the cache."""

    key: PartitionKey
    base: int
    end: int
    parts: tuple[bytes | memoryview, ...]
    bounds: Bounds

    def joined(self) -> Slice:
        """With bytes of its own."""
        parts = self.parts
        data = parts[0] if len(parts) == 1 and isinstance(parts[0], bytes) else b"".join(parts)
        return Slice(key=self.key, base=self.base, end=self.end, data=data, bounds=self.bounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """What a reader asks for: batches from ``offset`` on, about ``bytes_max`` bytes, at least one batch if there is one."""

    key: PartitionKey
    offset: int
    bytes_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAt:
    """A record found by time."""

    offset: int
    timestamp_ms: int


class OffsetOutOfRange(Refused):
    """The offset is outside ``bounds``, which were read linearizably (R08)."""

    def __init__(self, key: PartitionKey, offset: int, bounds: Bounds) -> None:
        super().__init__(f"offset {offset} of {key} is outside [{bounds.start}, {bounds.end}]")
        self.key = key
        self.offset = offset
        self.bounds = bounds
