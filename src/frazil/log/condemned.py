"""Objects that nothing refers to any more and that go when their grace is over (R01, R17).

A condemned record is written in the transaction that makes the objects unreachable, so a crash leaves none behind.
Being in the change feed, it also tells every process which bundles' commit records are gone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from frazil.kit.errors import Corrupt

FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Condemned:
    """``bundles``: ULIDs; ``objects``: keys of segment objects; both unreachable since ``since_ms``."""

    since_ms: int
    bundles: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()


def encode_condemned(record: Condemned) -> bytes:
    """The stored form, JSON."""
    fields = {"format": FORMAT, "since_ms": record.since_ms, "bundles": record.bundles, "objects": record.objects}
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_condemned(value: bytes, *, where: str) -> Condemned:
    """Raises Corrupt for anything else."""
    try:
        found = json.loads(value)
        if found["format"] != FORMAT:
            raise Corrupt(f"condemned record of format {found['format']}", where=where)
        return Condemned(since_ms=int(found["since_ms"]), bundles=tuple(found["bundles"]), objects=tuple(found["objects"]))
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"not a condemned record: {error!r}", where=where) from error
