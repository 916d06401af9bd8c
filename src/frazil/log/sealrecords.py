"""Small rare records of the log as JSON: partition (log start, seal mark), segment, seal plan. Each has a ``format``."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final

from frazil.kit.errors import Corrupt
from frazil.log.partitions import Segment

FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """``log_start``: first offset that exists; ``sealed_to``: end of the sealed part."""

    log_start: int
    sealed_to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SealPlan:
    """Fixes the bytes of the segments ``[base, ends[0])``, ``[ends[0], ends[1])``… so that every try writes the same (R05)."""

    base: int
    ends: tuple[int, ...]
    created_ms: int

    @property
    def end(self) -> int:
        """End of the planned range, exclusive."""
        return self.ends[-1]


def encode_partition(record: PartitionRecord) -> bytes:
    """The stored form."""
    return _dump(asdict(record))


def decode_partition(value: bytes, *, where: str) -> PartitionRecord:
    """Raises Corrupt for anything else."""
    found = _load(value, where)
    return PartitionRecord(log_start=_number(found, "log_start", where), sealed_to=_number(found, "sealed_to", where))


def encode_plan(plan: SealPlan) -> bytes:
    """The stored form."""
    return _dump(asdict(plan))


def decode_plan(value: bytes, *, where: str) -> SealPlan:
    """Raises Corrupt for anything else."""
    found = _load(value, where)
    base, ends = _number(found, "base", where), found.get("ends")
    if not isinstance(ends, list) or not ends or not all(isinstance(end, int) for end in ends):
        raise Corrupt(f"ends {ends!r} are not numbers", where=where)
    if any(later <= earlier for earlier, later in pairwise([base, *ends])):
        raise Corrupt(f"ends {ends!r} do not rise from {base}", where=where)
    return SealPlan(base=base, ends=tuple(ends), created_ms=_number(found, "created_ms", where))


def encode_segment(segment: Segment) -> bytes:
    """The stored form."""
    return _dump(segment._asdict())


def decode_segment(value: bytes, *, where: str) -> Segment:
    """Raises Corrupt for anything else."""
    found = _load(value, where)
    key = found.get("object_key")
    if not isinstance(key, str):
        raise Corrupt(f"object key {key!r} is not text", where=where)
    numbers = {name: _number(found, name, where) for name in Segment._fields if name != "object_key"}
    return Segment(object_key=key, **numbers)


def _dump(fields: dict[str, Any]) -> bytes:
    return json.dumps({"format": FORMAT, **fields}, separators=(",", ":")).encode()


def _load(value: bytes, where: str) -> dict[str, Any]:
    try:
        found = json.loads(value)
    except ValueError as error:
        raise Corrupt(f"not JSON: {error}", where=where) from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise Corrupt(f"not a record of format {FORMAT}", where=where)
    return found


def _number(found: dict[str, Any], name: str, where: str) -> int:
    value = found.get(name)
    if not isinstance(value, int):
        raise Corrupt(f"{name} is {value!r}, not a whole number", where=where)
    return value
