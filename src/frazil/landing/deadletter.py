"""Stage dead letter: what the table cannot take goes, byte for byte, to ``{table}_dead``, before progress passes it (R15, F28).

The dead-letter commit goes first and is read back; then the main commit. A letter is known by (target table uuid, topic id,
partition, offset), never by progress: when a slice is worked again, the letters of its offset range are read and only
missing ones are added. So a record is in the table, or its letter is there now; after a change of mind it may be in both,
and then it counts as landed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import pyarrow as pa

from frazil.catalogs.commit import Committed, Landed
from frazil.catalogs.metadata_json import MAIN, ref_snapshot, snapshot_by_id
from frazil.catalogs.port import CreateTable, LoadedTable
from frazil.catalogs.scan import Span, read_rows
from frazil.catalogs.schema import plan_schema
from frazil.kit.errors import Conflict, Missing, RetryLater
from frazil.landing.convert import DeadLetter
from frazil.landing.lake import Lake, within
from frazil.records.tables import HEADERS

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
    ("target_name", pa.string()),
]
DEAD_SCHEMA: Final = pa.schema(_FIELDS)
_KEY_COLUMNS: Final = ("target_table", "topic_id", "partition", "offset")
_TRIES_MAX: Final = 8
CHUNK_LETTERS: Final = 100_000
"""Letters of one commit: a slice of nothing but bad records may have millions, and each call has a deadline."""
CHUNK_BYTES: Final = 64 * 1024 * 1024

LetterKey: TypeAlias = tuple[str, str, int, int]
Check: TypeAlias = Callable[[int, Sequence[DeadLetter]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Burial:
    """For which table, in which attempt, and when the letters of a slice are buried."""

    target_uuid: str
    attempt: str
    now_ms: int
    target_name: str = ""


@dataclass(slots=True, kw_only=True)
class Graveyard:
    """One dead-letter table and the means to write it."""

    ident: str
    lake: Lake
    deadline_ms: int
    table: LoadedTable | None = None
    """As the last burial left it."""

    async def bury(self, letters: Sequence[DeadLetter], burial: Burial, check: Check | None = None) -> int:
        """Makes sure that every letter is in the table now; how many had to be added. Raises RetryLater when that cannot be seen.

        ``check`` is told how many letters are there and which would be added, and may raise before they are.
        """
        return sum([await self._bury_chunk(chunk, burial, check) for chunk in chunks(letters)])

    async def count(self) -> int:
        """Letters in the table now, of all attempts. Raises RetryLater."""
        try:
            table = await self._load()
        except Missing:
            return 0
        return _rows(table)

    async def _bury_chunk(self, letters: Sequence[DeadLetter], burial: Burial, check: Check | None) -> int:
        added = 0
        for _ in range(_TRIES_MAX):
            table = await self._open()
            missing = await self._missing(table, letters, burial.target_uuid)
            if not missing:
                return added
            if check is not None:
                check(_rows(table), missing)
            rows = await self.lake.offload.run(partial(letter_rows, missing, burial))
            change = plan_schema(table, rows.schema)  # dead-letter tables of older versions have fewer columns
            files = await within(self.lake.writer.write(table, rows, change=change), self.deadline_ms, "writing dead letters")
            # rebase=False: if anybody moved the table meanwhile, the letters are looked for again before a second try.
            outcome = await self.lake.committer.commit(
                Landed(base=table, files=files, change=change, summary={"frazil.attempt": burial.attempt}, rebase=False)
            )
            if isinstance(outcome, Committed):
                self.table = outcome.table
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
        return await self.lake.offload.run(lambda: _not_in(found, letters, uuid))


def _rows(table: LoadedTable) -> int:
    head = snapshot_by_id(table.metadata, ref_snapshot(table.metadata, MAIN))
    return 0 if head is None else int(head.get("summary", {}).get("total-records", "0"))


def _not_in(found: pa.Table, letters: Sequence[DeadLetter], uuid: str) -> list[DeadLetter]:
    known: set[LetterKey] = set(zip(*(found.column(name).to_pylist() for name in _KEY_COLUMNS), strict=True))
    return [letter for letter in letters if letter_key(letter, uuid) not in known]


def letter_key(letter: DeadLetter, target_uuid: str) -> LetterKey:
    """What a letter is known by."""
    return letter.target_uuid or target_uuid, letter.key.topic_id.hex(), int(letter.key.partition), letter.offset


def chunks(letters: Sequence[DeadLetter]) -> Iterator[Sequence[DeadLetter]]:
    """Letters in order, in parts of at most CHUNK_LETTERS letters and about CHUNK_BYTES bytes."""
    start = size = 0
    for at, letter in enumerate(letters):
        size += len(letter.value or b"") + len(letter.record_key or b"")
        if at + 1 - start >= CHUNK_LETTERS or size >= CHUNK_BYTES:
            yield letters[start : at + 1]
            start, size = at + 1, 0
    if start < len(letters):
        yield letters[start:]


def letter_rows(letters: Sequence[DeadLetter], burial: Burial) -> pa.Table:
    """Letters as rows of ``DEAD_SCHEMA``."""
    count = len(letters)
    columns: dict[str, Sequence[object]] = {
        "target_table": [letter.target_uuid or burial.target_uuid for letter in letters],
        "topic": [letter.topic for letter in letters],
        "topic_id": [letter.key.topic_id.hex() for letter in letters],
        "partition": [int(letter.key.partition) for letter in letters],
        "offset": [letter.offset for letter in letters],
        "last_offset": [letter.last_offset for letter in letters],
        "timestamp": [None if letter.timestamp_ms == -1 else letter.timestamp_ms * 1000 for letter in letters],
        "key": [letter.record_key for letter in letters],
        "value": [letter.value for letter in letters],
        "headers": [[{"key": name, "value": value} for name, value in letter.headers] for letter in letters],
        "code": [letter.code for letter in letters],
        "reason": [letter.why for letter in letters],
        "failed_at": [burial.now_ms * 1000] * count,
        "attempt": [burial.attempt] * count,
        "target_name": [letter.target_name or burial.target_name for letter in letters],
    }
    return pa.Table.from_pydict(columns, schema=DEAD_SCHEMA)
