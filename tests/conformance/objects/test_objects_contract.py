"""What the object store port promises, on every back-end."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from tests.conformance.objects.backends import ALL, CALM, Backend, Opener, s3
from tests.simulation.loop import run_virtual

from frazil.kit.clock import LoopClock
from frazil.kit.errors import Conflict, Missing, Refused, RetryLater
from frazil.objects import ObjectStore


def run(backend: Backend, main: Coroutine[Any, Any, None]) -> None:
    if backend.virtual:
        run_virtual(main)
    else:
        asyncio.run(main)


class Bench:
    def __init__(self, backend: Backend, directory: pathlib.Path) -> None:
        self.backend = backend
        self.open: Opener = backend.opener(directory, LoopClock())

    def run(self, body: Callable[[ObjectStore], Awaitable[None]]) -> None:
        async def main() -> None:
            await body(self.open())

        run(self.backend, main())


@pytest.fixture(params=[*CALM, pytest.param(None, id="s3", marks=pytest.mark.server)], ids=str)
def bench(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Bench:
    backend = request.param or Backend("s3", s3(request.getfixturevalue("seaweedfs")), False)
    return Bench(backend, tmp_path)


async def keys(store: ObjectStore, prefix: str) -> list[str]:
    return [info.key async for info in store.list(prefix)]


def test_what_is_put_can_be_read_by_any_handle(bench: Bench) -> None:
    async def body(store: ObjectStore) -> None:
        await store.put_if_absent("a/b", b"hello")
        assert await store.get("a/b") == b"hello"
        assert await bench.open().get("a/b") == b"hello"

    bench.run(body)


def test_data_may_be_one_buffer_or_many(bench: Bench) -> None:
    async def body(store: ObjectStore) -> None:
        whole = bytes(range(256)) * 20
        parts = [whole[:1], b"", memoryview(whole)[1:100], memoryview(whole)[100:]]
        many = [bytes([n % 256]) for n in range(3000)]  # more than one writev takes
        for key, data in {
            "bytes": whole,
            "bytearray": bytearray(whole),
            "view": memoryview(whole),
            "parts": parts,
            "none": b"",
            "no-parts": [],
            "many": many,
        }.items():
            await store.put_if_absent(key, data)
        for key in ("bytes", "bytearray", "view", "parts"):
            assert await store.get(key) == whole
        assert await store.get("none") == await store.get("no-parts") == b""
        assert await store.get("many") == b"".join(many)

    bench.run(body)


def test_an_object_is_never_overwritten(bench: Bench) -> None:
    async def body(store: ObjectStore) -> None:
        await store.put_if_absent("a", b"first")
        for other in (store, bench.open()):
            with pytest.raises(Conflict):
                await other.put_if_absent("a", b"second")
        assert await store.get("a") == b"first"

    bench.run(body)


def test_of_many_writers_exactly_one_wins(bench: Bench) -> None:
    async def body(store: ObjectStore) -> None:
        async def put(n: int) -> int:
            await bench.open().put_if_absent("contested/key", b"%d" % n * 1000)
            return n

        results = await asyncio.gather(*(put(n) for n in range(12)), return_exceptions=True)
        winners = [result for result in results if isinstance(result, int)]
        assert len(winners) == 1
        assert all(isinstance(result, int | Conflict) for result in results)
        assert await store.get("contested/key") == b"%d" % winners[0] * 1000

    bench.run(body)


def test_ranges_are_cut_at_the_end(bench: Bench) -> None:
    async def body(store: ObjectStore) -> None:
        await store.put_if_absent("a", b"0123456789")
        assert await store.get("a", start=3) == b"3456789"
        assert await store.get("a", start=3, end=5) == b"34"
        assert await store.get("a", start=3, end=3) == b""
        assert await store.get("a", start=8, end=100) == b"89"
        assert await store.get("a", start=10, end=100) == b""
        assert await store.get("a", start=50) == b""
        for start, end in ((-1, None), (5, 4)):
            with pytest.raises(Refused):
                await store.get("a", start=start, end=end)

    bench.run(body)


def test_what_is_not_there_is_missing(bench: Bench) -> None:
    async def body(store: ObjectStore) -> None:
        await store.put_if_absent("a/b/c", b"")
        for key in ("x", "a", "a/b", "a/b/c/d", "a/b/cc"):
            with pytest.raises(Missing):
                await store.get(key)

    bench.run(body)


def test_list_is_in_key_order_whatever_the_directories(bench: Bench) -> None:
    async def body(store: ObjectStore) -> None:
        names = sorted(
            ["a", "b-", "b.a", "b/a/c", "b/a.c", "b/z", "b0", "c/é", "c/\U0001f600", "c/\uffee", "t!2/0/s.kfs", "t/0/s.kfs", "B"]
        )
        for name in reversed(names):
            await store.put_if_absent(name, name.encode())
        assert await keys(store, "") == names
        for prefix in ("b", "b/", "b/a", "b/a/", "b/a/c", "b/a/cc", "c/", "t", "t/", "t!", "zz", "b//", "b-/x"):
            if "//" in prefix:
                with pytest.raises(Refused):
                    await keys(store, prefix)
                continue
            assert await keys(store, prefix) == [name for name in names if name.startswith(prefix)]
        sizes = {info.key: info.size_bytes async for info in store.list("")}
        assert sizes == {name: len(name.encode()) for name in names}
        assert all([info.modified_ms > 1_600_000_000_000 async for info in store.list("")])

    bench.run(body)


def test_list_can_be_left_early(bench: Bench) -> None:
    async def body(store: ObjectStore) -> None:
        for n in range(20):
            await store.put_if_absent(f"d{n % 3}/{n:02d}", b"")
        found = store.list("")
        assert (await anext(found)).key == "d0/00"
        await found.aclose()  # type: ignore[attr-defined] # every back-end gives a generator

    bench.run(body)


def test_delete_is_idempotent(bench: Bench) -> None:
    async def body(store: ObjectStore) -> None:
        for key in ("a/1", "a/2", "b"):
            await store.put_if_absent(key, b"x")
        await store.delete(["a/1", "never", "a/1", "b", "a/2/below"])
        await store.delete([])
        await store.delete(["a/1"])
        assert await keys(store, "") == ["a/2"]
        with pytest.raises(Missing):
            await store.get("b")
        await store.put_if_absent("a/1", b"again")
        assert await store.get("a/1") == b"again"

    bench.run(body)


HOSTILE = [
    "", "/", "/etc/passwd", "a/", "a//b", "..", "../x", "a/../../x", "a/./b", ".", "a\0b", "\ud800", "x" * 256, "é" * 128,
    "/".join(["x" * 100] * 11), ".frazil/half-written/x", ".frazil",
]  # fmt: skip


@pytest.mark.parametrize("key", HOSTILE, ids=range(len(HOSTILE)))
def test_keys_that_could_leave_the_store_or_hurt_it_are_refused(bench: Bench, key: str) -> None:
    async def body(store: ObjectStore) -> None:
        await store.put_if_absent("good", b"x")
        with pytest.raises(Refused):
            await store.put_if_absent(key, b"x")
        with pytest.raises(Refused):
            await store.get(key)
        with pytest.raises(Refused):
            await store.delete(["good", key])
        with pytest.raises(Refused):
            store.uri(key)
        assert await keys(store, "") == ["good"]

    bench.run(body)


def test_uri_tells_keys_apart(bench: Bench) -> None:
    async def body(store: ObjectStore) -> None:
        uris = [store.uri(key) for key in ("a", "a b", "a%20b", "t!2/x")]
        assert len(set(uris)) == 4
        assert all("://" in uri for uri in uris)

    bench.run(body)


@pytest.mark.parametrize("backend", ALL, ids=str)
def test_f87_a_patient_writer_stores_each_object_once_in_any_weather(backend: Backend, tmp_path: pathlib.Path) -> None:
    """After a lost answer or a conflict the object is read and compared; ours is success."""

    async def main() -> None:
        opener = backend.opener(tmp_path, LoopClock())

        async def put(store: ObjectStore, key: str, data: bytes) -> None:
            for _ in range(100):
                try:
                    return await store.put_if_absent(key, data)
                except (RetryLater, Conflict):
                    pass
                try:
                    assert await store.get(key) == data
                    return None
                except (RetryLater, Missing):
                    await asyncio.sleep(0.01)
            raise AssertionError(f"{key} could not be stored")

        async def read(store: ObjectStore, key: str) -> bytes:
            for _ in range(100):
                try:
                    return await store.get(key)
                except (RetryLater, Missing):
                    await asyncio.sleep(0.01)
            raise AssertionError(f"{key} could not be read")

        stores = [opener() for _ in range(3)]
        await asyncio.gather(*(put(stores[n % 3], f"k/{n:03d}", b"%d" % n * 100) for n in range(60)))
        for n in range(60):
            assert await read(stores[0], f"k/{n:03d}") == b"%d" % n * 100
        await asyncio.sleep(1 if backend.virtual else 0)  # late puts find their object there
        while True:
            try:
                assert await keys(stores[1], "k/") == [f"k/{n:03d}" for n in range(60)]
                break
            except RetryLater:
                continue
        with pytest.raises((Conflict, RetryLater)):
            await stores[2].put_if_absent("k/000", b"other")

    run(backend, main())
