"""F86: a store that does not answer at the start is waited for; a command is told at once."""

from __future__ import annotations

import asyncio
import itertools
import logging
import pathlib
import random
from typing import Any

import pytest
from tests.simulation.loop import run_virtual

from frazil.assembly import stores
from frazil.assembly.settings import FrazilSettings, StoreSettings
from frazil.assembly.starting import patiently
from frazil.assembly.stores import open_stores
from frazil.kit.clock import SystemClock
from frazil.kit.errors import Refused, RetryLater
from frazil.objects.faulty import FaultyObjects, ObjectFault
from frazil.objects.stores.memory import MemoryBucket, MemoryObjects


def settings(directory: pathlib.Path) -> FrazilSettings:
    return FrazilSettings(data_dir=str(directory), store=StoreSettings(objects="memory:"))


@pytest.fixture
def throttled(monkeypatch: pytest.MonkeyPatch) -> FaultyObjects:
    """An object store whose first listing and first put are throttled."""
    objects = FaultyObjects(MemoryObjects(MemoryBucket(), SystemClock()), random.Random(1))
    objects.force("list", ObjectFault.S_503)
    objects.force("put", ObjectFault.S_503)
    monkeypatch.setattr(stores, "open_objects", lambda *_, **__: objects)
    return objects


def test_f86_a_process_waits_and_says_so(throttled: FaultyObjects, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with open_stores(settings(tmp_path), stop=asyncio.Event()) as opened:
            assert opened.instance.marked

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert caplog.text.count("claiming the bucket: injected: 503") == 2


def test_f86_a_command_is_told_at_once(throttled: FaultyObjects, tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        async with open_stores(settings(tmp_path)):
            raise AssertionError("opened")

    with pytest.raises(RetryLater, match="503"):
        asyncio.run(main())


def test_waits_get_longer_and_end_with_the_stop() -> None:
    async def main() -> None:
        stop, tries = asyncio.Event(), list[float]()
        loop = asyncio.get_running_loop()

        async def never() -> None:
            tries.append(loop.time())
            raise RetryLater("not yet")

        loop.call_later(60, stop.set)
        with pytest.raises(RetryLater):
            await patiently("trying", never, stop)
        assert loop.time() == pytest.approx(60)
        gaps = [after - before for before, after in itertools.pairwise(tries)]
        assert gaps[:5] == pytest.approx([0.5, 1, 2, 4, 8])
        assert max(gaps) == pytest.approx(10)

    run_virtual(main())


def test_what_is_refused_is_not_tried_again() -> None:
    async def main() -> None:
        tries: list[Any] = []

        async def refused() -> None:
            tries.append(1)
            raise Refused("no")

        with pytest.raises(Refused):
            await patiently("trying", refused, asyncio.Event())
        assert len(tries) == 1

    run_virtual(main())
