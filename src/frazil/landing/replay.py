"""Replays dead letters: decodes them again as their table takes values now; good ones become rows, once, and their letters go.

    1. letters that decode now are marked with the replay's id, in their column ``attempt``       (the same letters)
    2. their rows are appended to the table; the same commit notes the id in ``frazil.replayed``   (the point of no return)
    3. the marked letters go

A crash after 1 leaves letters like any other. One after 2 is seen by the next replay: the id is noted, so its letters only go. The note is
one commit with the rows and asserts the head it was read from, so of two replays of the same letters one comes through.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from frazil.catalogs.commit import Committed, Landed
from frazil.catalogs.port import LoadedTable
from frazil.kit.chance import UlidSource
from frazil.kit.errors import Corrupt, Missing, Refused, RetryLater
from frazil.kit.names import PartitionId, PartitionKey, TopicId
from frazil.landing.convert import BATCH_CODE_PREFIX, DeadLetter, convert
from frazil.landing.decode import Decoded, Origin, Rows
from frazil.landing.discover import dead_table
from frazil.landing.lake import Lake
from frazil.landing.letterbox import LetterBox, Which, chosen
from frazil.landing.prepare import Bench, prepare
from frazil.landing.settings import LandingDeps, LandingSettings
from frazil.landing.target import Target
from frazil.metadata.landings import LandingSpec
from frazil.records.tables import RECORD_SCHEMA

REPLAYED: Final = "frazil.replayed"
"""Table property: ids of replays whose letters are rows of the table now (JSON list)."""
ATTEMPT_PREFIX: Final = "replay-"
_TRIES_MAX: Final = 20
_PAUSE_S: Final = 0.2
_OUT_OF_TIME: Final = "(timestamp "
_compute: Any = pc
AnyArray: TypeAlias = "pa.Array[Any]"


@dataclass(slots=True, kw_only=True)
class Replayed:
    """What a replay did, or would do. ``refused``: by (code, reason)."""

    chosen: int = 0
    landed: int = 0
    there_already: int = 0
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    """Letters of one file: which decode now, and why the others do not."""

    good: AnyArray
    refused: Counter[tuple[str, str]]
    chosen: int


class Replayer:
    """Replays for one landing. It may run beside landing."""

    def __init__(self, spec: LandingSpec, lake: Lake, deps: LandingDeps, settings: LandingSettings) -> None:
        """Raises Refused for landings whose letters cannot be replayed."""
        _check(spec)
        self._spec, self._lake, self._deps = spec, lake, deps
        self._target = Target(spec, lake, deps, settings)
        self._bench = Bench(lake=lake, deps=deps, settings=settings, enter=lambda _: None)
        self._ids = UlidSource(deps.chance)
        self._served: frozenset[str] = frozenset()
        """Noted ids that no letter has any more."""
        self._box = LetterBox(dead_table(spec.table), lake, deadline_ms=settings.call_deadline_ms)

    async def run(self, which: Which, *, execute: bool) -> Replayed:
        """Raises Missing when there is no table or none of its letters, Refused, Corrupt, RetryLater: what is done is done."""
        main = await self._main()
        which = replace(which, target_uuid=main.uuid)
        done = Replayed()
        noted = frozenset(_noted(main))
        await self._tidy(noted, done, execute=execute)
        table, live = await self._box.open()
        for entry in live.data:
            letters = await self._box.letters(table, live, entry)
            if not execute:
                letters = letters.filter(_compute.invert(_is_in(letters, noted)))
            await self._replay_file(entry.file.path, letters, which, done, execute=execute)
        return done

    async def _main(self) -> LoadedTable:
        table = await self._target.load()
        if table is None:
            raise Missing(f"there is no table {self._spec.table} yet")
        return table

    async def _tidy(self, noted: frozenset[str], done: Replayed, *, execute: bool) -> None:
        """Letters that are rows already go: an earlier replay did not come to its end. Notes that no letter has any more have served."""
        if not noted:
            return
        table, live = await self._box.open()
        seen: set[str] = set()
        for entry in live.data:
            letters = await self._box.letters(table, live, entry)
            seen.update(_compute.unique(letters.column("attempt")).to_pylist())
            mask = _is_in(letters, noted)
            count = int(_compute.sum(mask).as_py() or 0)
            if count and execute:
                await self._box.exchange(entry.file.path, (letters.filter(_compute.invert(mask)),))
            done.there_already += count
        self._served = noted - seen

    async def _replay_file(self, path: str, letters: pa.Table, which: Which, done: Replayed, *, execute: bool) -> None:
        """Until the file's good letters are rows, whatever others do meanwhile."""
        for _ in range(_TRIES_MAX):
            main = await self._main()
            verdict = await self._judge(main, letters, which)
            good = int(_compute.sum(verdict.good).as_py() or 0)
            if not execute or not good:
                _add(done, verdict, good)
                return
            replay = ATTEMPT_PREFIX + self._ids.next(self._deps.clock.now_ms())
            split = _marked(letters.filter(verdict.good), replay)
            rest = letters.filter(_compute.invert(verdict.good))
            places = await self._box.exchange(path, (split, rest))
            if places is None or places[0] is None:
                return  # somebody else works on these letters
            if await self._land(main, replay, split):
                await self._box.exchange(places[0], ())
                _add(done, verdict, good)
                return
            path, letters = places[0], split
            await asyncio.sleep(_PAUSE_S)  # the table was changed under our hands: look at it anew, but not all the time
        raise RetryLater(f"{self._spec.table} is changed all the time; try again")

    async def _judge(self, main: LoadedTable, letters: pa.Table, which: Which) -> _Verdict:
        """Decodes the chosen letters against the table as it is."""
        mask = chosen(letters, which)
        total = int(_compute.sum(mask).as_py() or 0)
        refused: Counter[tuple[str, str]] = Counter()
        usable = _compute.and_(mask, _records(letters))
        for row in letters.filter(_compute.and_(mask, _compute.invert(usable))).to_pylist():
            refused[row["code"], "a whole batch, or a record whose time no column holds: it cannot be decoded again"] += 1
        order, decoded = _decoded(letters, usable)
        if not len(decoded.rows):
            return _Verdict(good=_compute.and_(usable, pa.scalar(value=False)), refused=refused, chosen=total)
        if self._target.asks_registry:
            await self._target.learn(decoded.rows.records)
        shape = self._target.shape(main)
        converted = await self._deps.offload.run(lambda: convert(decoded, shape))
        for letter in converted.letters:
            refused[letter.code, letter.why] += 1
        return _Verdict(good=_without(letters, usable, order, converted.letters), refused=refused, chosen=total)

    async def _land(self, main: LoadedTable, replay: str, letters: pa.Table) -> bool:
        """Their rows and the note of the replay are one commit. False: the table moved, or some are refused now."""
        _, decoded = _decoded(letters, _records(letters))
        ready = await prepare(self._target, main, decoded, self._bench)
        if ready.letters:
            return False
        main = ready.table
        for _ in range(_TRIES_MAX):
            notes = [*(note for note in _noted(main) if note not in self._served), replay]
            landed = Landed(
                base=main,
                files=ready.written.files,
                change=ready.written.change,
                summary={REPLAYED: replay},
                properties={REPLAYED: json.dumps(notes)},
                rebase=False,
            )
            try:
                outcome = await self._lake.committer.commit(landed)
            except Corrupt:
                return False  # a file is not what was written: write it again
            if isinstance(outcome, Committed) or replay in _noted(outcome.table):
                return True
            if ready.written.change is not None or _changed(main, outcome.table):
                return False
            main = outcome.table  # landing came in between: the same files on top of it
        return False


def _check(spec: LandingSpec) -> None:
    if spec.options.get("mode") == "upsert":
        raise Refused(
            f"table {spec.table} has one row per key: an old event would take the place of newer ones; produce it to the topic again"
        )
    if "route" in spec.options:
        raise Refused(f"{spec.table} is a route, and its letters are of many tables (`target_name`): produce them to the topic again")


def _noted(table: LoadedTable) -> tuple[str, ...]:
    text = table.metadata.get("properties", {}).get(REPLAYED, "[]")
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Corrupt(f"the property {REPLAYED} is no JSON list: {text[:100]!r}", where=table.ident) from error
    return tuple(str(path) for path in found)


def _is_in(letters: pa.Table, replays: frozenset[str]) -> Any:  # noqa: ANN401 - an Arrow array
    return _compute.is_in(letters.column("attempt"), value_set=pa.array(sorted(replays), pa.string()))


def _marked(letters: pa.Table, replay: str) -> pa.Table:
    at = letters.schema.get_field_index("attempt")
    return letters.set_column(at, letters.schema.field(at), pa.array([replay] * letters.num_rows, pa.string()))


def _changed(before: LoadedTable, after: LoadedTable) -> bool:
    names = ("table-uuid", "current-schema-id", "default-spec-id", "default-sort-order-id")
    return any(before.metadata.get(name) != after.metadata.get(name) for name in names)


def _add(done: Replayed, verdict: _Verdict, good: int) -> None:
    done.chosen += verdict.chosen
    done.landed += good
    done.refused.update(verdict.refused)


def _records(letters: pa.Table) -> Any:  # noqa: ANN401 - an Arrow array
    """Letters that are single records with a time that a column can hold."""
    batches = _compute.starts_with(letters.column("code"), BATCH_CODE_PREFIX)
    timeless = _compute.match_substring(letters.column("reason"), _OUT_OF_TIME)
    mask = _compute.invert(_compute.or_(batches, timeless))
    return mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask


def _decoded(letters: pa.Table, mask: Any) -> tuple[Any, Decoded]:  # noqa: ANN401 - Arrow arrays
    """The letters of ``mask`` as if they had just been read, in order of their place in the log, and which rows of ``letters`` they are."""
    numbered = letters.append_column("row", pa.array(range(letters.num_rows), pa.int64())).filter(mask)
    keys: Any = [(name, "ascending") for name in ("topic", "topic_id", "partition", "offset")]
    ordered = numbered.sort_by(keys).combine_chunks()
    times = _compute.divide(_compute.cast(ordered.column("timestamp"), pa.int64()), 1000)
    columns = {
        "offset": ordered.column("offset"),
        "timestamp_ms": _compute.fill_null(times, -1),
        "key": ordered.column("key"),
        "value": ordered.column("value"),
        "headers": ordered.column("headers"),
    }
    table = pa.table({name: columns[name] for name in RECORD_SCHEMA.names}).cast(RECORD_SCHEMA)
    batches = table.combine_chunks().to_batches()
    records = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=RECORD_SCHEMA)
    rows = Rows(origins=tuple(_origins(ordered)), records=records)
    decoded = Decoded(rows=rows, consumed=(), bad_batches=(), bad_partitions=(), bytes_read=0, bytes_held=records.nbytes, cut=False)
    return ordered.column("row"), decoded


def _origins(ordered: pa.Table) -> list[Origin]:
    found: list[Origin] = []
    places = zip(*(ordered.column(name).to_pylist() for name in ("topic", "topic_id", "partition")), strict=True)
    last: tuple[str, str, int] | None = None
    count = 0
    for place in places:
        if place != last and last is not None:
            found.append(_origin(last, count))
            count = 0
        last, count = place, count + 1
    return [*found, _origin(last, count)] if last is not None else []


def _origin(place: tuple[str, str, int], rows: int) -> Origin:
    topic, topic_id, partition = place
    return Origin(key=PartitionKey(TopicId(bytes.fromhex(topic_id)), PartitionId(partition)), topic=topic, rows=rows)


def _without(letters: pa.Table, usable: Any, order: Any, refused: Sequence[DeadLetter]) -> Any:  # noqa: ANN401 - Arrow arrays
    """``usable`` less the letters that are refused again."""
    if not refused:
        return usable
    bad = {(letter.key.topic_id.hex(), int(letter.key.partition), letter.offset) for letter in refused}
    keys = zip(*(letters.column(name).to_pylist() for name in ("topic_id", "partition", "offset")), strict=True)
    keep = pa.array([key not in bad for key in keys], pa.bool_())
    return _compute.and_(usable, keep)
