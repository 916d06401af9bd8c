"""What the metadata port promises, on every back-end."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from tests.conformance.metadata.backends import CALM, Backend, Opener

from frazil.kit.errors import Bug, Conflict, Refused
from frazil.metadata import read_one
from frazil.metadata.port import Check, Committed, MetadataStore, Moved, RangeDelete, Revision, Write


class HandClock:
    def __init__(self) -> None:
        self.at_ms = 1_000_000

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_ms(self) -> float:
        return float(self.at_ms)


class Bench:
    def __init__(self, backend: Backend, directory: pathlib.Path) -> None:
        self.clock = HandClock()
        self.open: Opener = backend.opener(directory, self.clock)  # type: ignore[arg-type] # a test clock

    def run(self, body: Callable[[MetadataStore], Awaitable[None]]) -> None:
        async def main() -> None:
            store = self.open()
            try:
                await body(store)
            finally:
                await store.close()

        asyncio.run(main())


@pytest.fixture(params=CALM, ids=str)
def bench(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Bench:
    return Bench(request.param, tmp_path)


async def put(store: MetadataStore, **values: str) -> Revision:
    answer = await store.commit([], [Write(key=key, value=value.encode()) for key, value in values.items()])
    assert isinstance(answer, Committed)
    return answer.revision


def test_an_empty_store_reads_as_nothing(bench: Bench) -> None:
    async def body(store: MetadataStore) -> None:
        assert (await store.range("", "\U0010ffff")).entries == ()
        assert (await read_one(store, "a")).version == 0

    bench.run(body)


def test_range_is_in_key_order_and_half_open(bench: Bench) -> None:
    async def body(store: MetadataStore) -> None:
        keys = ["a", "a/", "a/b", "a0", "b", "z", "é", "\uffee", "\U0001f600"]
        for key in reversed(keys):
            await put(store, **{key: key})
        found = await store.range("a", "\U0010ffff")
        assert [entry.key for entry in found.entries] == keys
        assert [entry.value.decode() for entry in found.entries] == keys
        assert [entry.key for entry in (await store.range("a/", "a0")).entries] == ["a/", "a/b"]
        assert [entry.key for entry in (await store.range("a", "a\0")).entries] == ["a"]
        assert (await store.range("b", "a")).entries == ()

    bench.run(body)


def test_every_commit_has_a_greater_revision_and_gives_it_to_what_it_writes(bench: Bench) -> None:
    async def body(store: MetadataStore) -> None:
        first = await put(store, a="1", b="1")
        second = await put(store, b="2")
        assert second > first > 0
        found = await store.range("a", "c")
        assert [(entry.key, entry.version) for entry in found.entries] == [("a", first), ("b", second)]
        assert found.revision == second

    bench.run(body)


def test_after_gives_only_what_is_newer(bench: Bench) -> None:
    async def body(store: MetadataStore) -> None:
        first = await put(store, a="1", b="1", c="1")
        await put(store, b="2", x="2")
        third = await put(store, c="3")
        await store.commit([], [Write(key="a", value=None)])
        newer = await store.range("a", "d", after=first)
        assert [(entry.key, entry.value) for entry in newer.entries] == [("b", b"2"), ("c", b"3")]
        assert newer.revision > third  # a deletion has a revision too, though it is not reported
        assert (await store.range("a", "z", after=third)).entries == ()
        assert (await store.range("a", "z", after=newer.revision)).entries == ()
        # rewritten and deleted again: gone
        await put(store, b="4")
        await store.commit([], [Write(key="b", value=None)])
        assert [entry.key for entry in (await store.range("a", "d", after=first)).entries] == ["c"]

    bench.run(body)


def test_a_long_history_can_still_be_read_by_after(bench: Bench) -> None:
    async def body(store: MetadataStore) -> None:
        middle = Revision(0)
        for round_ in range(30):
            writes = [Write(key=f"k/{n:03d}", value=str(round_).encode()) for n in range(90)]
            answer = await store.commit([], writes)
            assert isinstance(answer, Committed)
            middle = answer.revision if round_ == 20 else middle
            await store.commit([], [Write(key=f"k/{round_:03d}", value=None)])
        newer = await store.range("k/", "k0", after=middle)
        assert len(newer.entries) == 89
        assert {entry.value for entry in newer.entries} == {b"29"}

    bench.run(body)


def test_checks_guard_the_whole_transaction_and_report_what_moved(bench: Bench) -> None:
    async def body(store: MetadataStore) -> None:
        version = await put(store, a="1")
        await put(store, b="1")
        answer = await store.commit(
            [Check(key="a", version=version), Check(key="b", version=version), Check(key="none", version=Revision(7))],
            [Write(key="a", value=b"2"), Write(key="c", value=b"2")],
            [RangeDelete(start="b", end="c")],
        )
        assert isinstance(answer, Moved)  # R11: only what moved comes back
        assert [(entry.key, entry.value) for entry in answer.entries] == [("b", b"1"), ("none", b"")]
        assert answer.entries[1].version == 0
        assert [entry.value for entry in (await store.range("a", "z")).entries] == [b"1", b"1"]
        good = await store.commit([Check(key="a", version=version), Check(key="none", version=Revision(0))], [Write(key="a", value=b"2")])
        assert isinstance(good, Committed)

    bench.run(body)


def test_version_zero_means_create_only(bench: Bench) -> None:
    async def body(store: MetadataStore) -> None:
        create = ([Check(key="a", version=Revision(0))], [Write(key="a", value=b"")])
        assert isinstance(await store.commit(*create), Committed)
        assert isinstance(await store.commit(*create), Moved)
        assert (await read_one(store, "a")).version > 0  # an empty value is not "missing"
        await store.commit([], [Write(key="a", value=None)])
        assert isinstance(await store.commit(*create), Committed)

    bench.run(body)


def test_a_recreated_key_has_another_version(bench: Bench) -> None:
    async def body(store: MetadataStore) -> None:
        old = await put(store, a="1")
        await store.commit([], [Write(key="a", value=None)])
        assert await put(store, a="1") > old
        assert isinstance(await store.commit([Check(key="a", version=old)], [Write(key="a", value=b"2")]), Moved)

    bench.run(body)


def test_range_delete(bench: Bench) -> None:
    async def body(store: MetadataStore) -> None:
        await put(store, a="1", b="1", bb="1", c="1")
        await store.commit([], [Write(key="new", value=b"1")], [RangeDelete(start="b", end="c"), RangeDelete(start="x", end="y")])
        assert [entry.key for entry in (await store.range("", "zz")).entries] == ["a", "c", "new"]

    bench.run(body)


def test_checks_alone_make_no_revision(bench: Bench) -> None:
    async def body(store: MetadataStore) -> None:
        version = await put(store, a="1")
        assert await store.commit([Check(key="a", version=version)], []) == Committed(revision=version)
        assert isinstance(await store.commit([Check(key="a", version=Revision(0))], []), Moved)

    bench.run(body)


def test_r10_a_transaction_is_limited_by_operations_and_bytes(bench: Bench) -> None:
    async def body(store: MetadataStore) -> None:
        hundred = [Write(key=f"k{n}", value=b"") for n in range(100)]
        checks = [Check(key=f"k{n}", version=Revision(0)) for n in range(100)]
        assert isinstance(await store.commit(checks, hundred), Committed)
        for bad in (
            ([], [*hundred, Write(key="more", value=b"")], []),
            ([*checks, Check(key="more", version=Revision(0))], [], []),
            ([], hundred, [RangeDelete(start="x", end="y")]),
        ):
            with pytest.raises(Bug):
                await store.commit(*bad)
        assert isinstance(await store.commit([], [Write(key="big", value=bytes(512 * 1024 - 3))]), Committed)
        with pytest.raises(Refused):
            await store.commit([], [Write(key="big", value=bytes(512 * 1024 - 2))])

    bench.run(body)


def test_malformed_transactions_are_bugs(bench: Bench) -> None:
    async def body(store: MetadataStore) -> None:
        for writes, deletes in (
            ([Write(key="", value=b"")], []),
            ([Write(key="a\0", value=b"")], []),
            ([Write(key="\ud800", value=b"")], []),
            ([Write(key="a", value=b""), Write(key="a", value=None)], []),
            ([Write(key="b", value=b"")], [RangeDelete(start="a", end="c")]),
        ):
            with pytest.raises(Bug):
                await store.commit([], writes, deletes)
        assert (await store.range("", "z")).entries == ()

    bench.run(body)


def test_keys_under_a_lease_vanish_with_it(bench: Bench) -> None:
    async def body(store: MetadataStore) -> None:
        lease = await store.grant_lease(1000)
        other = await store.grant_lease(1000)
        assert lease != other
        await store.commit([], [Write(key="a", value=b"1", lease=lease), Write(key="b", value=b"1", lease=other)])
        before = await put(store, c="1")
        bench.clock.at_ms += 900
        assert await store.renew_lease(lease)
        bench.clock.at_ms += 900
        found = await store.range("a", "z")
        assert [entry.key for entry in found.entries] == ["a", "c"]
        assert found.revision > before
        assert not await store.renew_lease(other)
        bench.clock.at_ms -= 900  # a clock set back brings nothing back
        assert (await read_one(store, "b")).version == 0
        bench.clock.at_ms += 2000
        assert isinstance(await store.commit([Check(key="a", version=Revision(0))], [Write(key="a", value=b"2")]), Committed)

    bench.run(body)


def test_a_write_under_an_ended_lease_is_refused(bench: Bench) -> None:
    async def body(store: MetadataStore) -> None:
        lease = await store.grant_lease(1000)
        bench.clock.at_ms += 1000
        with pytest.raises(Conflict):
            await store.commit([], [Write(key="a", value=b"1"), Write(key="b", value=b"1", lease=lease)])
        assert (await store.range("a", "z")).entries == ()

    bench.run(body)


def test_a_write_without_lease_takes_the_key_out_of_it(bench: Bench) -> None:
    async def body(store: MetadataStore) -> None:
        lease = await store.grant_lease(1000)
        await store.commit([], [Write(key="a", value=b"1", lease=lease)])
        await put(store, a="2")
        bench.clock.at_ms += 5000
        assert (await read_one(store, "a")).value == b"2"

    bench.run(body)


def test_two_handles_see_each_other(bench: Bench) -> None:
    async def body(store: MetadataStore) -> None:
        other = bench.open()
        try:
            for n in range(20):
                writer, reader = (store, other) if n % 2 else (other, store)
                version = await put(writer, a=str(n))
                found = await read_one(reader, "a")
                assert (found.value, found.version) == (str(n).encode(), version)
            lease = await other.grant_lease(1000)
            assert await store.renew_lease(lease)
        finally:
            await other.close()

    bench.run(body)


async def next_hint(hints: AsyncIterator[None]) -> asyncio.Future[None]:
    """Waits until it is quiet (hints may come twice or for nothing), then gives the hint that is still to come."""
    while True:
        waiting = asyncio.ensure_future(anext(hints))
        await asyncio.wait([waiting], timeout=0.05)
        if not waiting.done():
            return waiting


def test_r20_watch_hints_at_once_on_change_and_every_second(bench: Bench) -> None:
    async def body(store: MetadataStore) -> None:
        other = bench.open()
        hints = store.watch("a/")
        try:
            await asyncio.wait_for(anext(hints), 0.5)  # the first
            for writer in (store, other):
                waiting = await next_hint(hints)
                await put(writer, **{"a/x": "1"})
                await asyncio.wait_for(waiting, 0.5)
            waiting = await next_hint(hints)
            await store.commit([], [], [RangeDelete(start="", end="b")])
            await asyncio.wait_for(waiting, 0.5)
            waiting = await next_hint(hints)
            await asyncio.wait_for(waiting, 1.5)  # nothing changes, a hint comes all the same
        finally:
            await hints.aclose()  # type: ignore[attr-defined] # every back-end gives a generator
            await other.close()

    bench.run(body)


def test_r20_a_watch_survives_a_timeout(bench: Bench) -> None:
    async def body(store: MetadataStore) -> None:
        hints = store.watch("a")
        await anext(hints)
        for _ in range(3):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(anext(hints), 0.03)
        waiting = await next_hint(hints)
        await put(store, a="1")
        await asyncio.wait_for(waiting, 0.5)

    bench.run(body)
