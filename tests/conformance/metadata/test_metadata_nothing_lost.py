"""Truths that hold on every back-end in any weather: with lost answers, late commits, dropped and doubled hints."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Coroutine, Mapping
from typing import Any

import pytest
from tests.conformance.metadata.backends import ALL, Backend
from tests.simulation.loop import run_virtual

from frazil.kit.clock import LoopClock
from frazil.kit.errors import RetryLater
from frazil.metadata import prefix_end
from frazil.metadata.change import settle
from frazil.metadata.port import START, Entry, MetadataStore, Range, Write

pytestmark = pytest.mark.parametrize("backend", ALL, ids=str)


def run(backend: Backend, main: Coroutine[Any, Any, None]) -> None:
    if backend.virtual:
        run_virtual(main)
    else:
        asyncio.run(main)


async def patient_range(store: MetadataStore, start: str, end: str, after: int = START) -> Range:
    while True:
        try:
            return await store.range(start, end, after=after)  # type: ignore[arg-type] # a plain int is a revision here
        except RetryLater:
            await asyncio.sleep(0.005)


async def increment(store: MetadataStore, operation: str) -> None:
    """One increment, exactly once: its own key is written with it (R02)."""
    done = f"done/{operation}"

    def decide(entries: Mapping[str, Entry]) -> list[Write]:
        if entries[done].version:
            return []
        count = int(entries["counter"].value or b"0") + 1
        return [Write(key="counter", value=str(count).encode()), Write(key=done, value=b"")]

    await settle(store, ("counter", done), decide)


def test_r02_increments_by_many_tasks_and_two_handles_count_once_each(backend: Backend, tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        handle = backend.opener(tmp_path, LoopClock())
        stores = [handle(), handle()]

        async def work(task: int) -> None:
            for n in range(8):
                await increment(stores[task % 2], f"{task}-{n}")

        await asyncio.gather(*(work(task) for task in range(8)))
        await asyncio.sleep(0.1 if backend.virtual else 0)  # late commits
        found = await patient_range(stores[0], "counter", "counter\0")
        assert found.entries[0].value == b"64"
        for store in stores:
            await store.close()

    run(backend, main())


def test_r20_a_follower_by_hints_misses_nothing(backend: Backend, tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        handle = backend.opener(tmp_path, LoopClock())
        writer, reader = handle(), handle()
        view: dict[str, bytes] = {}

        async def follow() -> None:
            seen = START
            async for _ in reader.watch("feed/"):
                found = await patient_range(reader, "feed/", prefix_end("feed/"), seen)
                view.update({entry.key: entry.value for entry in found.entries})
                seen = found.revision
                if len(view) == 60 and b"old" not in view.values():
                    return

        async def write(key: str, value: bytes) -> None:
            await settle(writer, (key,), lambda entries: [] if entries[key].value == value else [Write(key=key, value=value)])

        following = asyncio.ensure_future(follow())
        for n in range(60):
            await write(f"feed/{n:02d}", b"old")
        for n in range(60):
            await write(f"feed/{n:02d}", b"new")
        await asyncio.wait_for(following, 60 if backend.virtual else 5)
        assert view == {f"feed/{n:02d}": b"new" for n in range(60)}
        for store in (writer, reader):
            await store.close()

    run(backend, main())


def test_a_range_is_one_revision(backend: Backend, tmp_path: pathlib.Path) -> None:
    """A writer moves a token between keys; whoever reads the range sees exactly one, however the calls interleave."""

    async def main() -> None:
        handle = backend.opener(tmp_path, LoopClock())
        writer, reader = handle(), handle()
        stop = asyncio.Event()
        await settle(writer, ("token/0",), lambda entries: [] if entries["token/0"].version else [Write(key="token/0", value=b"")])

        async def move() -> None:
            for n in range(60):
                old, new = f"token/{n * 7 % 10}", f"token/{(n + 1) * 7 % 10}"
                await settle(
                    writer,
                    (old, new),
                    lambda entries, old=old, new=new: (  # type: ignore[misc] # bound now
                        [Write(key=old, value=None), Write(key=new, value=b"")] if entries[old].version else []
                    ),
                )
            stop.set()

        async def look() -> None:
            last = 0
            while not stop.is_set():
                found = await patient_range(reader, "token/", "token0")
                assert len(found.entries) == 1
                assert found.entries[0].version <= found.revision
                assert found.revision >= last
                last = found.revision
                await asyncio.sleep(0)

        await asyncio.gather(move(), look())
        for store in (writer, reader):
            await store.close()

    run(backend, main())


def test_f82_topics_of_eight_clients_are_what_was_acknowledged(backend: Backend, tmp_path: pathlib.Path) -> None:
    """200 creates and deletes; the final set equals the acknowledged operations."""
    import random

    from frazil.metadata.topics import Topics, list_deleted_topics

    async def main() -> None:
        clock = LoopClock()
        handle = backend.opener(tmp_path, clock)
        chance = random.Random(7)
        alive: set[str] = set()
        created: set[bytes] = set()

        async def client(number: int) -> None:
            store = handle()
            topics = Topics(store, clock, chance)
            for n in range(20):
                name = f"t{number}-{n % 5}"
                while True:
                    try:
                        await topics.refresh()
                        break
                    except RetryLater:
                        await asyncio.sleep(0.01)
                if topics.get(name) is None:
                    record = await topics.create(name, 3)
                    alive.add(name)
                    created.add(record.topic_id)
                else:
                    await topics.delete(name)
                    alive.discard(name)
            await store.close()

        await asyncio.gather(*(client(number) for number in range(8)))
        store = handle()
        while True:
            try:
                view = Topics(store, clock, chance)
                await view.refresh()
                gone = await list_deleted_topics(store)
                break
            except RetryLater:
                await asyncio.sleep(0.01)
        assert {record.name for record in view.all()} == alive
        ids = [record.topic_id for record in view.all()] + [deleted.topic_id for deleted in gone]
        assert len(set(ids)) == len(ids)
        assert created <= set(ids)
        await store.close()

    run(backend, main())
