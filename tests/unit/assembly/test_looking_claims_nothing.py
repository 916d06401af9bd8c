"""Verbs that only look (doctor, table list, land status) must not bind a bucket to their metadata; a broker does."""

from __future__ import annotations

import asyncio
import pathlib

import pytest

from frazil.assembly.settings import FrazilSettings, StoreSettings
from frazil.assembly.stores import open_stores
from frazil.kit.errors import Refused


def settings(directory: pathlib.Path, bucket: pathlib.Path) -> FrazilSettings:
    return FrazilSettings(data_dir=str(directory), store=StoreSettings(objects=f"file://{bucket}"))


def markers(bucket: pathlib.Path) -> list[str]:
    return [str(path.relative_to(bucket)) for path in bucket.rglob("*") if path.is_file()]


async def look(given: FrazilSettings) -> None:
    async with open_stores(given, create=False):
        return


async def serve(given: FrazilSettings) -> None:
    async with open_stores(given):
        return


def test_a_look_at_an_unclaimed_bucket_leaves_it_unclaimed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "one").mkdir()
    first = settings(tmp_path / "one", tmp_path / "bucket")
    asyncio.run(look(first))
    assert markers(tmp_path / "bucket") == []
    asyncio.run(serve(first))
    assert len(markers(tmp_path / "bucket")) == 1
    asyncio.run(look(first))


def test_a_look_at_the_bucket_of_another_cluster_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "two").mkdir()
    asyncio.run(serve(settings(tmp_path / "one", tmp_path / "bucket")))
    with pytest.raises(Refused):
        asyncio.run(look(settings(tmp_path / "two", tmp_path / "bucket")))
