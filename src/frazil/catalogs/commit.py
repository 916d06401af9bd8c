"""The committer: rows and progress of a table become visible in one catalog commit, exactly once (R06, R16).

    read progress of the base ─► write manifests ─► send ─► answered yes, refused, cut, late, unknown ─► look at the table
                     ▲                                              │  (F24: a yes alone is not believed)
                     │                                              ├─ our commit id is in the head's ancestry ─► Committed
                     │                                              ├─ head has not moved ─► send the very same request again
                     └── progress is as it was: same files ◄────────┴─ head has moved ─► progress has moved too ─► Lost

A request asserts the head on which its progress was read, so of any number of copies of it, and of rivals with the same idea, at most one
is ever applied. While the head stands still an unknown outcome stays open; files are reported as deletable only when no copy can land.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, TypeVar

from frazil.catalogs.files import DataFile
from frazil.catalogs.lists import ManifestLists
from frazil.catalogs.locations import Locations
from frazil.catalogs.manifests import Manifest
from frazil.catalogs.metadata_json import MAIN, check_requirements, ref_snapshot, snapshot_by_id
from frazil.catalogs.port import Catalog, CatalogDeps, LoadedTable
from frazil.catalogs.progress import COMMIT_ID, Move, Progress, SourcePartition, ancestry, hides_history, progress_value, read_progress
from frazil.catalogs.schema import SchemaChange
from frazil.catalogs.snapshots import Draft, Prepared, Snapshots
from frazil.kit.errors import Conflict, Missing, OutcomeUnknown, Refused, RetryLater

T = TypeVar("T")
_APPEND: Final = "append"
_OVERWRITE: Final = "overwrite"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPolicy:
    """Times of the committer, in milliseconds."""

    request_timeout_ms: int = 60_000
    """A catalog that has not answered by then is treated as one whose answer was lost."""
    backoff_min_ms: int = 100
    backoff_max_ms: int = 10_000


class Removing(Protocol):
    """Files to remove and the manifests without them (``catalogs.removal.Removal``)."""

    @property
    def snapshot_id(self) -> int:
        """Of the snapshot that removes."""
        ...

    @property
    def files(self) -> tuple[DataFile, ...]:
        """What goes."""
        ...

    @property
    def rewritten(self) -> tuple[Manifest, ...]:
        """Manifests that say so."""
        ...

    @property
    def replaced(self) -> frozenset[str]:
        """Those they stand for."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """What to commit: files already stored, and the progress they stand for."""

    base: LoadedTable
    """The table as loaded when its progress was read."""
    files: Sequence[DataFile] = ()
    """None is an empty append: progress without rows (R06)."""
    moves: Mapping[SourcePartition, Move] = field(default_factory=dict)
    """None is rows without progress: dead letters, whose identity is their key (R15)."""
    change: SchemaChange | None = None
    summary: Mapping[str, str] = field(default_factory=dict)
    """More summary entries; keys of ``frazil.`` that this room writes are its own."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Table properties that change with it."""
    removal: Removing | None = None
    """Files that go with this commit; only without ``rebase``, as they are those of ``base``."""
    rebase: bool = True
    """Whether the same files may go on top of a foreign commit that did not touch this progress. False: a moved head is Lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """It is in the table."""

    table: LoadedTable
    progress: Progress
    snapshot_id: int
    commit_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """It is not in the table and never will be; plan again from ``progress``."""

    table: LoadedTable
    progress: Progress
    orphans: tuple[str, ...]
    """Keys of files that surely nobody refers to; empty while that is not sure."""
    why: str


CommitOutcome = Committed | Lost


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    """What the table says about a request: applied, still open, or passed by."""

    applied: bool = False
    open: bool = False
    certain: bool = False
    """Passed by, and no copy of the request can land any more."""


class Committer:
    """Commits to any number of tables; one at a time per table. Never gives up on an unknown outcome: cancel it to stop."""

    def __init__(self, catalog: Catalog, deps: CatalogDeps, policy: CommitPolicy | None = None) -> None:
        self.catalog = catalog
        self.deps = deps
        self.locations = Locations(deps.objects)
        self.lists = ManifestLists(deps.objects, self.locations)
        self._policy = policy or CommitPolicy()
        self._snapshots = Snapshots(deps, self.lists, self.locations)
        self._locks: dict[str, asyncio.Lock] = {}
        self._trouble: dict[str, str] = {}
        self._held: dict[str, tuple[str, ...]] = {}
        self._known: dict[str, tuple[str, Progress]] = {}

    def held(self, ident: str) -> frozenset[str]:
        """Keys of files whose commit is under way: not yet in the table, and nobody's to delete (F56)."""
        return frozenset(self._held.get(ident, ()))

    def trouble(self, ident: str) -> str | None:
        """Why a commit of that table is not through yet, None when nothing is in the way."""
        return self._trouble.get(ident)

    def note(self, ident: str, why: str | None) -> None:
        """Says why the next commit of a table is not asked for yet; None: nothing is in its way."""
        if why is None:
            self._trouble.pop(ident, None)
        else:
            self._trouble[ident] = why

    async def commit(self, landed: Landed) -> CommitOutcome:
        """Commits ``landed`` or learns that it is lost; returns only when that is decided (R16).

        Raises Refused when the catalog calls the request wrong, the table is another one by now or its progress cannot be
        established; Missing when there is no table; Corrupt naming a data file that is not whole: write it again.
        """
        ident = landed.base.ident
        async with self._locks.setdefault(ident, asyncio.Lock()):
            self._held[ident] = tuple(self.locations.key_of(file.path) for file in landed.files)
            try:
                return await self._commit(landed)
            finally:
                del self._held[ident]
                self._trouble.pop(ident, None)

    async def replace(self, ident: str, plan: Callable[[LoadedTable], Awaitable[Draft | None]]) -> LoadedTable | None:
        """Commits a rewrite that moves no progress; None when there is nothing to do any more, it was passed by, or is not known.

        ``plan`` sees the newest table while nobody else of this process commits to it, so it must be quick (R24): what takes long is
        done before. An unknown outcome needs no settling: the request asserts its head, and a later look shows what became of it.
        """
        async with self._locks.setdefault(ident, asyncio.Lock()):
            base = await self._within(self.catalog.load(ident))
            draft = await plan(base)
            if draft is None:
                return None
            progress = await self._progress(base)
            prepared = await self._snapshots.prepare(base, progress, draft)
            try:
                return await self._request(prepared)
            except (Conflict, RetryLater, TimeoutError):
                return None

    # --- one commit, top to bottom -----------------------------------------------------------------------------------

    async def _commit(self, landed: Landed) -> CommitOutcome:
        base = landed.base
        certain = True
        draft = _draft(landed)
        while True:
            progress = await self._retrying(base.ident, lambda base=base: self._progress(base))  # type: ignore[misc]  # bound now
            why = _passed(progress, landed.moves)
            if why:
                return self._lost(landed, base, progress, why=why, certain=certain)
            prepared = await self._retrying(
                base.ident,
                lambda base=base, progress=progress: self._snapshots.prepare(base, progress, draft),  # type: ignore[misc]  # bound now
            )
            applied, table, sure = await self._settle(prepared)
            if applied:
                return self._committed(prepared, table)
            certain = certain and sure
            if not landed.rebase or (landed.change is not None and not _holds(landed.change, table)):
                progress = await self._retrying(base.ident, lambda table=table: self._progress(table))  # type: ignore[misc]  # bound now
                return self._lost(landed, table, progress, why="the table was changed meanwhile", certain=certain)
            base = table

    def _committed(self, prepared: Prepared, table: LoadedTable) -> Committed:
        text = progress_value(table.metadata, where=table.ident) or ""
        if int(table.metadata["current-snapshot-id"]) == prepared.snapshot_id:
            self._known[table.ident] = (f"{table.uuid} {text}", prepared.progress)
        return Committed(table=table, progress=prepared.progress, snapshot_id=prepared.snapshot_id, commit_id=prepared.commit_id)

    def _lost(self, landed: Landed, table: LoadedTable, progress: Progress, *, why: str, certain: bool) -> Lost:
        orphans = tuple(self.locations.key_of(file.path) for file in landed.files) if certain else ()
        return Lost(table=table, progress=progress, orphans=orphans, why=why)

    async def _settle(self, prepared: Prepared) -> tuple[bool, LoadedTable, bool]:
        """Sends until decided: (applied, the table then, no copy can land any more)."""
        ident = prepared.base.ident
        pause_ms = self._policy.backoff_min_ms
        unknown = False
        while True:
            refusal: Refused | None = None
            hint_ms = 0
            try:
                await self._request(prepared)
            except (OutcomeUnknown, TimeoutError) as error:
                unknown = True
                self._trouble[ident] = f"the catalog's answer to a commit was lost: {error or 'no answer in time'}"
            except RetryLater as error:
                hint_ms = error.after_ms
                self._trouble[ident] = f"the catalog cannot commit now: {error}"
            except Conflict as error:
                self._trouble[ident] = f"the catalog reports a conflict: {error}"
            except Refused as error:
                refusal = error
            except Missing as error:
                self._trouble[ident] = f"the catalog does not find the table: {error}"
            else:
                self.deps.faults.reach("P6")
                unknown = True  # of a catalog that says yes nobody knows what it did before its table shows it (F24)
                self._trouble[ident] = "the catalog said yes to a commit that its table does not show"
            fresh = await self._retrying(ident, lambda: self._within(self.catalog.load(ident)))
            verdict = _judge(prepared, fresh, unknown=unknown)
            if not verdict.open:
                return verdict.applied, fresh, verdict.certain
            if refusal is not None:
                raise refusal
            pause_ms = await self._pause(pause_ms, hint_ms)

    async def _request(self, prepared: Prepared) -> LoadedTable:
        base = prepared.base
        return await self._within(self.catalog.commit(base.ident, base, prepared.requirements, prepared.updates))

    # --- waiting -----------------------------------------------------------------------------------------------------

    async def _within(self, call: Awaitable[T]) -> T:
        async with asyncio.timeout(self._policy.request_timeout_ms / 1000):  # wait_for of Python 3.11 can lose a cancellation
            return await call

    async def _retrying(self, ident: str, work: Callable[[], Awaitable[T]]) -> T:
        pause_ms = self._policy.backoff_min_ms
        while True:
            try:
                return await work()
            except RetryLater as error:
                self._trouble[ident] = str(error)
                hint_ms = error.after_ms
            except TimeoutError:
                self._trouble[ident] = "no answer in time"
                hint_ms = 0
            pause_ms = await self._pause(pause_ms, hint_ms)

    async def _pause(self, pause_ms: int, hint_ms: int) -> int:
        jitter = 0.5 + self.deps.chance.random() / 2
        await asyncio.sleep(max(pause_ms * jitter, min(hint_ms, self._policy.backoff_max_ms)) / 1000)
        return min(pause_ms * 2, self._policy.backoff_max_ms)

    async def _progress(self, table: LoadedTable) -> Progress:
        """Progress of the table's head; the text that names it is compared, so a big one is read once."""
        text = progress_value(table.metadata, where=table.ident) or ""
        known = self._known.get(table.ident)
        if known is None or known[0] != f"{table.uuid} {text}":
            known = (f"{table.uuid} {text}", await read_progress(self.deps.objects, table))
            self._known[table.ident] = known
        return known[1]


def _draft(landed: Landed) -> Draft:
    removal = landed.removal
    changes_rows = removal is not None or any(file.content for file in landed.files)
    draft = Draft(
        operation=_OVERWRITE if changes_rows else _APPEND,
        files=landed.files,
        moves=landed.moves,
        change=landed.change,
        summary=landed.summary,
        properties=landed.properties,
    )
    if removal is None:
        return draft
    return replace(
        draft, removed=removal.files, rewritten=removal.rewritten, replaced=removal.replaced, snapshot_id=removal.snapshot_id
    )


def _passed(progress: Progress, moves: Mapping[SourcePartition, Move]) -> str:
    for key, move in moves.items():
        found = progress.get(key)
        if found != move.before:
            return f"progress of partition {key.partition} is {found}, not {move.before}"
    return ""


def _holds(change: SchemaChange, table: LoadedTable) -> bool:
    try:
        check_requirements(table.metadata, change.requirements())
    except Conflict:
        return False
    return True


def _judge(prepared: Prepared, fresh: LoadedTable, *, unknown: bool) -> _Verdict:
    """What became of a request, from a fresh look at the table. ``unknown``: some copy of it may still be on its way."""
    if fresh.uuid != prepared.base.uuid:
        raise Refused(
            f"table {fresh.ident} was re-created (uuid {fresh.uuid}, was {prepared.base.uuid}); "
            "decide whether to fill it from the log's start or to go on from here"
        )
    metadata = fresh.metadata
    head = ref_snapshot(metadata, MAIN)
    descends = prepared.asserted_head is None and not hides_history(metadata)
    for snapshot in ancestry(metadata, head):
        if snapshot.get("summary", {}).get(COMMIT_ID) == prepared.commit_id:
            return _Verdict(applied=True)
        if snapshot["snapshot-id"] == prepared.asserted_head:
            descends = True
            break
    if snapshot_by_id(metadata, prepared.snapshot_id) is not None:
        return _Verdict()  # applied, then rolled back by somebody: its files are still referred to
    if head == prepared.asserted_head and int(metadata["last-sequence-number"]) < prepared.sequence:
        try:
            check_requirements(metadata, prepared.requirements)
        except Conflict:
            return _Verdict(certain=not unknown)
        return _Verdict(open=True)
    # The head moved; or it went and came back, and the sequence number this request claims was given to another snapshot.
    # A history that does not reach back to our base may hide our own snapshot: nothing is certain then.
    return _Verdict(certain=descends and (head != prepared.asserted_head or not unknown))
