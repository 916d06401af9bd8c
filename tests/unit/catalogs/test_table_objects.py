"""The store over table locations: whose keys are used where, and what happens when they end. Virtual time, scripted stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import pytest
from tests.simulation.loop import run_virtual

from frazil.catalogs.locations import Locations, canonical
from frazil.catalogs.rest.vended import accesses_of
from frazil.catalogs.tablestore import Access, TableObjects
from frazil.kit.clock import LoopClock
from frazil.kit.errors import Conflict, Missing, Refused, RetryLater
from frazil.objects.port import ObjectInfo, ObjectStore


class Bucket(ObjectStore):
    """One bucket for all keys; says which were used and takes only those that are good now."""

    def __init__(self, world: World, root: str, options: Mapping[str, str]) -> None:
        self._world, self._root, self._key = world, root, options.get("s3.access-key-id", "none")

    def _use(self, verb: str, key: str) -> str:
        self._world.calls.append((verb, f"{self._root}/{key}", self._key))
        if self._world.trouble is not None:
            raise self._world.trouble
        if not self._world.good(self._key):
            raise Refused(f"403 ExpiredToken {self._key}")
        return f"{self._root}/{key}"

    def uri(self, key: str) -> str:
        return f"{self._root}/{key}"

    async def put_if_absent(self, key: str, data: bytes | bytearray | memoryview | Sequence[bytes | memoryview]) -> None:
        place = self._use("put", key)
        if place in self._world.objects:
            raise Conflict(f"{place} exists")
        self._world.objects[place] = bytes(data) if isinstance(data, bytes | bytearray | memoryview) else b"".join(data)

    async def get(self, key: str, *, start: int = 0, end: int | None = None) -> bytes:
        place = self._use("get", key)
        if place not in self._world.objects:
            raise Missing(place)
        return self._world.objects[place][start:end]

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        place = self._use("list", prefix)
        for found in sorted(self._world.objects):
            if found.startswith(place):
                yield ObjectInfo(key=found.removeprefix(f"{self._root}/"), size_bytes=1, modified_ms=0)

    async def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._world.objects.pop(self._use("delete", key), None)


class World:
    """A catalog that vends numbered keys of ``life_s`` seconds."""

    def __init__(self, *, life_s: float = 600.0) -> None:
        self.clock = LoopClock()
        self.life_s = life_s
        self.calls: list[tuple[str, str, str]] = []
        self.objects: dict[str, bytes] = {}
        self.opened: list[str] = []
        self.renewed: list[str] = []
        self.revoked: set[str] = set()
        self.trouble: Exception | None = None
        self.away: Exception | None = None
        """What the catalog says when it is asked for new keys."""
        self._ends: dict[str, int] = {}
        self.store = TableObjects(self._open, self.clock, self.renew)

    def _open(self, url: str, options: Mapping[str, str]) -> ObjectStore:
        self.opened.append(url)
        return Bucket(self, url, options)

    def good(self, key: str) -> bool:
        return key not in self.revoked and (key not in self._ends or self.clock.now_ms() < self._ends[key])

    def vend(self, ident: str) -> None:
        key = f"{ident}-{sum(name == ident for name in self.renewed)}"
        self._ends[key] = self.clock.now_ms() + int(self.life_s * 1000)
        location = f"s3://lake/{ident.replace('.', '/')}"
        options = {"s3.access-key-id": key}
        access = Access(prefix=f"{location}/", options=options, vended=True, ends_ms=self._ends[key])
        self.store.learn(ident, (location,), (access,))

    async def renew(self, ident: str) -> None:
        await asyncio.sleep(0.5)
        if self.away is not None:
            raise self.away
        self.renewed.append(ident)
        self.vend(ident)

    @property
    def last_key(self) -> str:
        return self.calls[-1][2]


def in_world(work: Callable[[World], object], **more: float) -> None:
    async def run() -> None:
        await work(World(**more))  # type: ignore[misc]  # a coroutine

    run_virtual(run())


def test_each_table_has_its_own_keys_and_keys_are_locations() -> None:
    async def work(world: World) -> None:
        for ident in ("a.t", "a.t2"):
            world.vend(ident)
            await world.store.put_if_absent(f"s3://lake/{ident.replace('.', '/')}/data/x.parquet", [b"1", memoryview(b"2")])
            assert world.calls[-1] == ("put", f"s3://lake/{ident.replace('.', '/')}/data/x.parquet", f"{ident}-0")
        assert await world.store.get("s3://lake/a/t/data/x.parquet", start=1) == b"2"
        assert [info.key async for info in world.store.list("s3://lake/a/t/")] == ["s3://lake/a/t/data/x.parquet"]
        await world.store.delete(["s3://lake/a/t/data/x.parquet", "s3://lake/a/t2/data/x.parquet"])
        assert not world.objects
        assert [key for verb, _, key in world.calls if verb == "delete"] == ["a.t-0", "a.t2-0"]
        with pytest.raises(Refused, match="not inside any table"):
            await world.store.get("s3://elsewhere/x")

    in_world(work)


def test_keys_are_renewed_before_they_end() -> None:
    """All day long, nobody ever sends a key that has ended, and one asks for the new one."""

    async def work(world: World) -> None:
        world.vend("a.t")
        for number in range(60):
            await asyncio.sleep(47)
            puts = (world.store.put_if_absent(f"s3://lake/a/t/data/{number}-{n}", b"x") for n in range(3))
            await asyncio.gather(*puts)
        assert len(world.objects) == 180
        assert 4 <= len(world.renewed) <= 6  # 60 × 47 s of keys that live 600 s

    in_world(work)


def test_new_keys_with_every_load_do_not_change_the_store() -> None:
    """The connections under the old keys stay in use; what else changes is taken up at once."""

    async def work(world: World) -> None:
        world.vend("a.t")
        await world.store.put_if_absent("s3://lake/a/t/x", b"x")
        for number in range(1, 20):
            access = Access(prefix="s3://lake/a/t/", options={"s3.access-key-id": f"other-{number}"}, vended=True, ends_ms=10**15)
            assert world.store.learn("a.t", ("s3://lake/a/t",), (access,)) is False
            await world.store.get("s3://lake/a/t/x")
        assert world.opened == ["s3://lake"]
        assert world.last_key == "a.t-0"
        moved = Access(prefix="s3://lake/a/t/", options={"s3.access-key-id": "k", "s3.endpoint": "http://new"}, vended=True)
        assert world.store.learn("a.t", ("s3://lake/a/t",), (moved,)) is True
        await world.store.get("s3://lake/a/t/x")
        assert world.last_key == "k"

    in_world(work)


def test_keys_that_a_store_refuses_are_replaced_once() -> None:
    async def work(world: World) -> None:
        world.vend("a.t")
        world.revoked.add("a.t-0")
        await world.store.put_if_absent("s3://lake/a/t/data/x", b"x")
        assert world.last_key == "a.t-1"
        world.revoked |= {"a.t-1", "a.t-2"}
        with pytest.raises(Refused):
            await world.store.get("s3://lake/a/t/data/x")
        assert world.renewed == ["a.t", "a.t"], "not for ever"
        await world.store.get("s3://lake/a/t/data/x")
        world.revoked.add(world.last_key)
        assert [info.key async for info in world.store.list("s3://lake/a/t/")] == ["s3://lake/a/t/data/x"]

    in_world(work)


def test_a_conflict_is_no_matter_of_keys() -> None:
    async def work(world: World) -> None:
        world.vend("a.t")
        await world.store.put_if_absent("s3://lake/a/t/x", b"x")
        with pytest.raises(Conflict):
            await world.store.put_if_absent("s3://lake/a/t/x", b"y")
        assert world.renewed == []

    in_world(work)


def test_a_store_that_is_away_leads_to_new_keys_but_not_all_the_time() -> None:
    """Stores say of keys that have ended also "later"."""

    async def work(world: World) -> None:
        world.vend("a.t")
        world.trouble = RetryLater("503")
        for _ in range(40):
            await asyncio.sleep(1)
            with pytest.raises(RetryLater):
                await world.store.get("s3://lake/a/t/x")
        assert 2 <= len(world.renewed) <= 4

    in_world(work)


def test_a_catalog_that_is_away_while_keys_still_hold() -> None:
    async def work(world: World) -> None:
        world.vend("a.t")
        world.away = RetryLater("the catalog is away")
        await asyncio.sleep(world.life_s - 20)
        await world.store.put_if_absent("s3://lake/a/t/x", b"x")
        await asyncio.sleep(30)
        with pytest.raises(RetryLater, match="has ended and cannot be renewed: the catalog is away"):
            await world.store.get("s3://lake/a/t/x")
        world.away = Missing("no table")
        with pytest.raises(Refused, match="has ended"):
            await world.store.get("s3://lake/a/t/x")
        world.away = None
        assert await world.store.get("s3://lake/a/t/x") == b"x"

    in_world(work)


def test_stores_of_old_keys_do_not_pile_up() -> None:
    async def work(world: World) -> None:
        world.vend("a.t")
        await world.store.put_if_absent("s3://lake/a/t/x", b"x")
        for _ in range(600):
            await world.renew("a.t")
            await world.store.get("s3://lake/a/t/x")
        assert len(world.store._stores) <= 256
        opened = len(world.opened)
        for _ in range(10):
            await world.store.get("s3://lake/a/t/x")
        assert len(world.opened) == opened, "same keys, same store"

    in_world(work)


def test_of_credentials_the_longest_prefix_counts() -> None:
    result = {
        "config": {"s3.endpoint": "http://s3", "s3.region": "r", "token": "not for storage"},
        "storage-credentials": [
            {"prefix": "s3://lake/", "config": {"s3.access-key-id": "wide", "s3.secret-access-key": "w"}},
            {"prefix": "s3://lake/a/t/data/", "config": {"s3.access-key-id": "narrow", "s3.secret-access-key": "n"}},
        ],
    }
    catalog = {"s3.access-key-id": "static", "s3.secret-access-key": "s", "s3.session-token": "of static", "s3.path-style-access": "false"}

    async def work(world: World) -> None:
        world.store.learn("a.t", ("s3://lake/a/t",), accesses_of(result, "s3://lake/a/t", catalog))
        narrow = await world.store.reading("s3://lake/a/t/data/x.parquet")
        assert narrow["s3.access-key-id"] == "narrow"
        wide = await world.store.reading("s3a://lake/a/t/metadata/1.json")
        assert wide == {
            "s3.endpoint": "http://s3",
            "s3.region": "r",
            "s3.path-style-access": "false",
            "s3.access-key-id": "wide",
            "s3.secret-access-key": "w",
        }, "never the session token of other keys, never what is not for storage"

    in_world(work)


@pytest.mark.parametrize(
    ("config", "used", "vended"),
    [
        ({}, "static", False),
        ({"s3.endpoint": "http://s3"}, "static", False),
        ({"s3.access-key-id": "vended", "s3.secret-access-key": "v", "s3.session-token-expires-at-ms": "1234"}, "vended", True),
    ],
)
def test_keys_in_the_config_of_a_load(config: Mapping[str, str], used: str, vended: bool) -> None:
    (found,) = accesses_of({"config": config}, "s3://lake/a/t", {"s3.access-key-id": "static", "s3.secret-access-key": "s"})
    assert (found.options["s3.access-key-id"], found.vended, found.ends_ms) == (used, vended, 1234 if vended else None)
    assert "s3.session-token-expires-at-ms" not in found.options
    assert "vended" not in repr(found) or "'v'" not in repr(found)


def test_files_outside_the_location_belong_to_the_table_that_says_so() -> None:
    async def work(world: World) -> None:
        for ident, place in (("a.t", "s3://other/t"), ("a.u", "s3://other/u")):
            access = Access(prefix="", options={"s3.access-key-id": ident}, vended=False)
            world.store.learn(ident, (f"s3://lake/{ident}", place), (access,))
        await world.store.put_if_absent("s3://other/u/data/x", b"x")
        assert world.last_key == "a.u"

    in_world(work)


def test_one_file_has_one_name() -> None:
    """Hadoop writes s3a, others file:/p or a path: none of these may look unreachable to care (F56)."""
    for given, wanted in (
        ("s3a://b/k", "s3://b/k"),
        ("s3n://b/k%20x", "s3://b/k%20x"),
        ("s3://b/k", "s3://b/k"),
        ("file:/p/q", "file:///p/q"),
        ("file:///p/q", "file:///p/q"),
        ("file://p/q", "file:///p/q"),
        ("/p/q", "file:///p/q"),
        ("gs://b/k", "gs://b/k"),
    ):
        assert canonical(given) == wanted
        assert canonical(wanted) == wanted
    locations = Locations(World().store)
    assert locations.key_of("s3a://lake/a/t/x") == "s3://lake/a/t/x"
    assert locations.location("s3://lake/a/t/x") == "s3://lake/a/t/x"
