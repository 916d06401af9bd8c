"""Putting immutable objects so that it is known what the store holds afterwards (F61)."""

from __future__ import annotations

from collections.abc import Awaitable

from frazil.catalogs.files import DataFile
from frazil.catalogs.locations import Locations
from frazil.kit.errors import Conflict, Corrupt, Missing, OutcomeUnknown, RetryLater
from frazil.objects.port import ObjectStore

_TAIL: int = 16
_PARQUET_MAGIC = b"PAR1"


async def put_checked(objects: ObjectStore, key: str, data: bytes) -> None:
    """Stores ``data`` under a name never used before, then reads its end back.

    Raises RetryLater when the object is not there whole: try again under another name. A lost answer is settled by looking.
    """
    lost = await _settled(objects.put_if_absent(key, data))
    if lost is not None and await _whole(objects, key, data):
        return
    if lost is not None:
        raise RetryLater(f"{key}: {lost}")
    start = max(0, len(data) - _TAIL)
    if await _slice(objects, key, start, len(data) + 1) != data[start:]:
        raise RetryLater(f"{key}: the store kept other bytes than were sent")


async def _settled(put: Awaitable[None]) -> Exception | None:
    try:
        await put
    except (OutcomeUnknown, Conflict) as error:  # a store that replays a put by itself meets its own object (F87)
        return error
    return None


async def _whole(objects: ObjectStore, key: str, data: bytes) -> bool:
    return await _slice(objects, key, 0, len(data) + 1) == data


async def _slice(objects: ObjectStore, key: str, start: int, end: int) -> bytes | None:
    try:
        return await objects.get(key, start=start, end=end)
    except Missing:
        return None


async def check_data_file(objects: ObjectStore, locations: Locations, file: DataFile) -> None:
    """Raises Corrupt naming the file when the object is missing, has another size or does not end as Parquet does."""
    key = locations.key_of(file.path)
    start = max(0, file.size_bytes - len(_PARQUET_MAGIC))
    tail = await _slice(objects, key, start, file.size_bytes + 1)
    if tail is None:
        raise Corrupt("the data file does not exist", where=file.path)
    if tail != _PARQUET_MAGIC:
        raise Corrupt(f"the data file does not have its {file.size_bytes} bytes", where=file.path)
