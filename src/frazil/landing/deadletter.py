"""Stage dead letter: what the table cannot take goes, byte for byte, to ``{table}_dead``, before progress passes it (R15, F28).

The dead-letter commit goes first and is read back; then the main commit. A letter is known by (target table uuid, topic id,
partition, offset), never by progress: when a slice is worked again, the letters of its offset range are read and only
missing ones are added. So a record is in the table, or its letter is there now; after a change of mind it may be in both,
and then it counts as landed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa

from frazil.catalogs.commit import Committed, Landed
from frazil.catalogs.port import CreateTable, LoadedTable
from frazil.catalogs.scan import Span, read_rows
from frazil.kit.errors import Conflict, Missing, RetryLater
from frazil.landing.columns import HEADERS
from frazil.landing.convert import DeadLetter
from frazil.landing.lake import Lake, within

_TIME: Final = pa.timestamp("us", tz="UTC")
_FIELDS: Final[list[tuple[str, pa.DataType]]] = [
    ("target_table", pa.string()),
    ("topic", pa.string()),
    ("topic_id", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("last_offset", pa.int64()),
    ("timestamp", _TIME),
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("headers", HEADERS),
    ("code", pa.string()),
    ("reason", pa.string()),
    ("failed_at", _TIME),
    ("attempt", pa.string()),
]
DEAD_SCHEMA: Final = pa.schema(_FIELDS)
_KEY_COLUMNS: Final = ("target_table", "topic_id", "partition", "offset")
_TRIES_MAX: Final = 8

LetterKey: TypeAlias = tuple[str, str, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Burial:
    """For which table, in which attempt, and when the letters of a slice are buried."""

    target_uuid: str
    attempt: str
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Graveyard:
    """One dead-letter table and the means to write it."""

    ident: str
    lake: Lake
    deadline_ms: int

    async def bury(self, letters: Sequence[DeadLetter], burial: Burial) -> int:
        """Makes sure that every letter is in the table now; how many had to be added. Raises RetryLater when that cannot be seen."""
        added = 0
        for _ in range(_TRIES_MAX):
            table = await self._open()
            missing = await self._missing(table, letters, burial.target_uuid)
            if not missing:
                return added
            file = await within(self.lake.writer.write(table, letter_rows(missing, burial)), self.deadline_ms, "writing dead letters")
            # rebase=False: if anybody moved the table meanwhile, the letters are looked for again before a second try.
            outcome = await self.lake.committer.commit(
                Landed(base=table, files=(file,), summary={"frazil.attempt": burial.attempt}, rebase=False)
            )
            if isinstance(outcome, Committed):
                added += len(missing)
        raise RetryLater(f"dead letters did not show up in {self.ident} after {_TRIES_MAX} tries")

    async def _open(self) -> LoadedTable:
        try:
            return await self._load()
        except Missing:
            properties = {"comment": "records that could not be landed, with their bytes and the reason"}
            creation = self.lake.catalog.create(self.ident, CreateTable(schema=DEAD_SCHEMA, properties=properties))
            try:
                return await within(creation, self.deadline_ms, "creating the dead-letter table")
            except Conflict:
                return await self._load()

    async def _load(self) -> LoadedTable:
        return await within(self.lake.catalog.load(self.ident), self.deadline_ms, "loading the dead-letter table")

    async def _missing(self, table: LoadedTable, letters: Sequence[DeadLetter], uuid: str) -> list[DeadLetter]:
        low, high = min(letter.offset for letter in letters), max(letter.offset for letter in letters)
        reading = read_rows(self.lake.objects, table, _KEY_COLUMNS, Span(column="offset", low=low, high=high + 1))
        found = await within(reading, self.deadline_ms, "reading dead letters")
        known: set[LetterKey] = set(zip(*(found.column(name).to_pylist() for name in _KEY_COLUMNS), strict=True))
        return [letter for letter in letters if letter_key(letter, uuid) not in known]


def letter_key(letter: DeadLetter, target_uuid: str) -> LetterKey:
    """What a letter is known by."""
    return target_uuid, letter.key.topic_id.hex(), int(letter.key.partition), letter.offset


def letter_rows(letters: Sequence[DeadLetter], burial: Burial) -> pa.Table:
    """Letters as rows of ``DEAD_SCHEMA``."""
    rows = [
        {
            "target_table": burial.target_uuid,
            "topic": letter.topic,
            "topic_id": letter.key.topic_id.hex(),
            "partition": int(letter.key.partition),
            "offset": letter.offset,
            "last_offset": letter.last_offset,
            "timestamp": None if letter.timestamp_ms == -1 else letter.timestamp_ms * 1000,
            "key": letter.record_key,
            "value": letter.value,
            "headers": [{"key": name, "value": value} for name, value in letter.headers],
            "code": letter.code,
            "reason": letter.why,
            "failed_at": burial.now_ms * 1000,
            "attempt": burial.attempt,
        }
        for letter in letters
    ]
    return pa.Table.from_pylist(rows, schema=DEAD_SCHEMA)
