"""The files of tables whose catalog decides where they are: one store over all locations, each with the access that its table came with.

Keys are whole locations (``s3://bucket/lake/t/data/x.parquet``), so everything that works on a table's files works here unchanged. Access
that ends is renewed before it does, and when a store refuses it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, TypeVar

from frazil.catalogs.locations import canonical
from frazil.kit.clock import Clock
from frazil.kit.errors import Conflict, FrazilError, Missing, Refused, RetryLater
from frazil.objects.port import ObjectInfo, ObjectStore

T = TypeVar("T")
_MARGIN_MS: Final = 60_000
_STORES_MAX: Final = 256
_SUSPECT_MS: Final = 10_000
VENDED_KEYS: Final = ("s3.access-key-id", "s3.secret-access-key", "s3.session-token")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How the locations under a prefix are reached."""

    prefix: str
    options: Mapping[str, str] = field(repr=False)
    """``s3.*`` names."""
    vended: bool = False
    """The catalog gave keys with the table, so it can give new ones."""
    ends_ms: int | None = None
    """Wall clock; None: no end is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    ident: str
    locations: tuple[str, ...]
    accesses: tuple[Access, ...]
    learned_ms: int
    renew_at_ms: float


class OpenStore(Protocol):
    """Opens the store of a bucket or directory (``s3://bucket``, ``file:///dir``) with options; no input or output."""

    def __call__(self, url: str, options: Mapping[str, str]) -> ObjectStore:
        """The store. Raises Refused."""
        ...


Renew = Callable[[str], Awaitable[None]]
"""Asks the catalog for new access of a table, by its ident; it tells ``TableObjects.learn``. Raises Missing, Refused, RetryLater."""


class TableObjects(ObjectStore):
    """See the module. ``learn`` is called with every load."""

    def __init__(self, open_store: OpenStore, clock: Clock, renew: Renew) -> None:
        self._open = open_store
        self._clock = clock
        self._renew = renew
        self._tables: dict[str, _Table] = {}
        self._stores: dict[tuple[str, tuple[tuple[str, str], ...]], ObjectStore] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._wanted: set[str] = set()

    def learn(self, ident: str, locations: Sequence[str], accesses: Sequence[Access]) -> bool:
        """What a load of ``ident`` said about its files: the table's own location, then others it keeps files in.

        False: not taken up. Many catalogs vend new keys with every load; while those in use are good they stay, and with them the
        connections that are open under them.
        """
        now_ms = self._clock.now_ms()
        ends = [access.ends_ms for access in accesses if access.ends_ms is not None]
        left_ms = min(ends) - now_ms if ends else float("inf")
        renew_at_ms = now_ms + max(left_ms - _MARGIN_MS, left_ms * 0.75)
        known = tuple(Access(prefix=canonical(a.prefix), options=a.options, vended=a.vended, ends_ms=a.ends_ms) for a in accesses)
        table = _Table(ident=ident, locations=tuple(map(canonical, locations)), accesses=known, learned_ms=now_ms, renew_at_ms=renew_at_ms)
        before = self._tables.get(ident)
        if before is not None and ident not in self._wanted and now_ms < before.renew_at_ms and _same_but_keys(before, table):
            return False
        self._tables[ident] = table
        return True

    def forget(self, ident: str) -> None:
        """The table is gone."""
        self._tables.pop(ident, None)

    async def reading(self, location: str) -> Mapping[str, str]:
        """``s3.*`` options with which another engine reads ``location`` now. Raises Refused, RetryLater."""
        _, access = await self._fresh(canonical(location))
        return access.options

    # --- the port ----------------------------------------------------------------------------------------------------

    def uri(self, key: str) -> str:
        """The key itself."""
        return key

    async def put_if_absent(self, key: str, data: bytes | bytearray | memoryview | Sequence[bytes | memoryview]) -> None:
        """See ``ObjectStore.put_if_absent``."""
        await self._with(key, lambda store, inner: store.put_if_absent(inner, data))

    async def get(self, key: str, *, start: int = 0, end: int | None = None) -> bytes:
        """See ``ObjectStore.get``."""
        return await self._with(key, lambda store, inner: store.get(inner, start=start, end=end))

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        """See ``ObjectStore.list``. New access is asked for only before the first object."""

        async def first(store: ObjectStore, inner: str) -> tuple[AsyncIterator[ObjectInfo], ObjectInfo | None]:
            found = store.list(inner)
            return found, await anext(found, None)

        found, info = await self._with(prefix, first)
        root, _ = _split(prefix, self._root(prefix))
        while info is not None:
            yield ObjectInfo(key=f"{root}/{info.key}", size_bytes=info.size_bytes, modified_ms=info.modified_ms)
            info = await anext(found, None)

    async def delete(self, keys: Sequence[str]) -> None:
        """See ``ObjectStore.delete``: one call per table."""
        groups: dict[tuple[str, str], list[str]] = {}
        for key in keys:
            table, _ = self._find(key)
            groups.setdefault((table.ident, self._root(key)), []).append(key)
        for (_, root), group in groups.items():
            inner = [_split(key, root)[1] for key in group]
            await self._with(group[0], lambda store, _, inner=inner: store.delete(inner))  # type: ignore[misc]  # bound now

    # --- access ------------------------------------------------------------------------------------------------------

    async def _with(self, key: str, work: Callable[[ObjectStore, str], Awaitable[T]]) -> T:
        """``work`` with the key's store; once more with new access when the store refuses the old one."""
        table, access = await self._fresh(key)
        root, inner = _split(key, self._root(key))
        try:
            return await work(self._store(root, access), inner)
        except Conflict:
            raise
        except RetryLater:
            if access.vended:
                self._suspect(table)
            raise
        except Refused:
            if not access.vended:
                raise
        await self._renew_once(table)
        _, access = self._find(key)
        return await work(self._store(root, access), inner)

    async def _fresh(self, key: str) -> tuple[_Table, Access]:
        table, access = self._find(key)
        if self._clock.now_ms() < table.renew_at_ms:
            return table, access
        try:
            await self._renew_once(table)
        except (RetryLater, Refused, Missing) as error:
            # Until it has really ended the old access is as good.
            if access.ends_ms is not None and self._clock.now_ms() >= access.ends_ms:
                raise _cannot(table, error) from error
            return table, access
        return self._find(key)

    async def _renew_once(self, table: _Table) -> None:
        async with self._turns.setdefault(table.ident, asyncio.Lock()):
            if self._tables.get(table.ident) is not table:
                return  # somebody else did meanwhile
            self._wanted.add(table.ident)
            try:
                await self._renew(table.ident)
            finally:
                self._wanted.discard(table.ident)

    def _suspect(self, table: _Table) -> None:
        """A store that says "later" may mean that access has ended before its time: the next call asks for new, but not all the time."""
        now_ms = self._clock.now_ms()
        if self._tables.get(table.ident) is table and now_ms - table.learned_ms > _SUSPECT_MS:
            self._tables[table.ident] = replace(table, renew_at_ms=now_ms)

    def _find(self, key: str) -> tuple[_Table, Access]:
        """The table whose location holds the key, else one whose access covers it; and its access with the longest prefix."""
        inside = [(len(place), table) for table in self._tables.values() for place in table.locations if _within(key, place)]
        tables = [max(inside, key=lambda item: item[0])[1]] if inside else [*self._tables.values()]
        fitting = [(len(access.prefix), found, access) for found in tables for access in found.accesses if key.startswith(access.prefix)]
        if not fitting:
            raise Refused(f"location {key[:200]} is not inside any table that was loaded, nor covered by access that came with one")
        _, found, access = max(fitting, key=lambda item: item[0])
        return found, access

    def _root(self, key: str) -> str:
        """What a store is opened for: the bucket, or on a disk the table's directory."""
        scheme, _, rest = key.partition("://")
        if scheme == "file":
            places = self._find(key)[0].locations
            return next((place for place in places if _within(key, place)), places[0])
        return f"{scheme}://{rest.partition('/')[0]}"

    def _store(self, root: str, access: Access) -> ObjectStore:
        name = (root, tuple(sorted(access.options.items())))
        store = self._stores.get(name)
        if store is None:
            if len(self._stores) >= _STORES_MAX:
                self._stores.pop(next(iter(self._stores)))  # the oldest: most likely access that has ended
            store = self._stores[name] = self._open(root, access.options)
        return store


def _same_but_keys(one: _Table, other: _Table) -> bool:
    def shape(table: _Table) -> object:
        return table.locations, [
            (
                access.prefix,
                access.vended,
                sorted(item for item in access.options.items() if not (access.vended and item[0] in VENDED_KEYS)),
            )
            for access in table.accesses
        ]

    return shape(one) == shape(other)


def _split(key: str, root: str) -> tuple[str, str]:
    return root, key[len(root) :].lstrip("/")


def _within(key: str, location: str) -> bool:
    return key.startswith(location.rstrip("/") + "/") or key == location


def _cannot(table: _Table, error: FrazilError) -> FrazilError:
    why = f"access to the files of {table.ident} has ended and cannot be renewed: {error}"
    return RetryLater(why, after_ms=error.after_ms) if isinstance(error, RetryLater) else Refused(why)
