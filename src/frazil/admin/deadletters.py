"""Verbs over dead letters: the values they take and answer with, as one protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """Which letters of one table. Nothing given: all of them."""

    codes: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    partition: int | None = None
    offset: int | None = None
    before_ms: int | None = None
    """Refused before this time (Unix milliseconds)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterCount:
    """How many letters of one table, topic and code there are. Times are Unix milliseconds of the refusal."""

    table: str
    topic: str
    code: str
    letters: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One record, or one whole batch (``last_offset`` above ``offset``), that its table could not take, with its bytes."""

    topic: str
    partition: int
    offset: int
    last_offset: int
    timestamp_ms: int | None
    code: str
    reason: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    failed_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayAnswer:
    """What a replay did, or would do. ``refused``: (code, reason, letters) of those that are refused again, the most frequent first."""

    chosen: int
    landed: int
    there_already: int
    """Letters whose record is in the table already: their letters go, no row is added."""
    refused: tuple[tuple[str, str, int], ...]


class DeadLetterAdmin(Protocol):
    """Verbs over the dead letters of landed tables; joined in ``assembly``."""

    async def counts(self, table: str | None) -> tuple[LetterCount, ...]:
        """Letters by table, topic and code; of every landed table when none is named. Raises Missing, Refused, RetryLater."""
        ...

    async def letters(self, table: str, which: LetterFilter, *, most: int) -> tuple[Letter, ...]:
        """The newest letters of a table, at most ``most``. Raises Missing when the table has no dead letters, Refused, RetryLater."""
        ...

    async def purge(self, table: str, which: LetterFilter, *, execute: bool) -> int:
        """Removes letters; how many. Without ``execute`` they are only counted. Raises Missing, Refused, RetryLater."""
        ...

    async def replay(self, table: str, which: LetterFilter, *, execute: bool) -> ReplayAnswer:
        """Decodes letters again as the table takes values now: good ones become rows, once, and their letters go.

        Without ``execute`` nothing is changed. Raises Missing, Refused, RetryLater.
        """
        ...


def chosen(which: LetterFilter) -> Sequence[str]:
    """The filter in words, for a person."""
    words = [f"code {', '.join(which.codes)}"] if which.codes else []
    words += [f"topic {', '.join(which.topics)}"] if which.topics else []
    words += [f"partition {which.partition}"] if which.partition is not None else []
    words += [f"offset {which.offset}"] if which.offset is not None else []
    words += ["refused before the time given"] if which.before_ms is not None else []
    return words
