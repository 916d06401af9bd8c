"""``frazil land reset``: the wish, and the rows of its preview."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from frazil.kit.errors import Refused

LATEST: Final = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class LandResetWish:
    """Where a table's partitions shall go on. ``to``: earliest, latest, an offset or a time; empty: only those of ``partitions``.

    ``partitions``: (topic, partition, the same words) each.
    """

    to: str = ""
    partitions: tuple[tuple[str, int, str], ...] = ()
    delete_rows: bool = False
    allow_duplicates: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LandResetRow:
    """One partition that would change."""

    topic: str
    partition: int
    now: int | None
    then: int
    read_again: int
    skipped: int
    rows: int | None
    """Rows of the table that would be read again; None: without metadata columns nobody can tell."""


class LandResetAdmin(Protocol):
    """Resets one table."""

    async def preview(self, wish: LandResetWish) -> tuple[LandResetRow, ...]:
        """What would change. Changes nothing."""
        ...

    async def reset(self, wish: LandResetWish) -> tuple[LandResetRow, ...]:
        """Does it, with numbers as they were then; Refused when rows would double and the wish does not say what to do about it."""
        ...


def parse_partitions(texts: Sequence[str]) -> tuple[tuple[str, int, str], ...]:
    """``topic:partition=WORD`` each. Raises Refused."""
    found = []
    for text in texts:
        place, equals, word = text.partition("=")
        topic, colon, number = place.rpartition(":")
        if not (equals and colon and topic and word and number.isascii() and number.isdecimal()):
            raise Refused(f"--partition {text!r}: want topic:partition=offset, for example orders:3=1200")
        found.append((topic, int(number), word))
    return tuple(found)
