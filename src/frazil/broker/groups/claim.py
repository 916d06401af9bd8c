"""Claiming a group's record and writing it under that claim: the compare-and-swap that keeps coordination safe (R19)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from frazil.broker.groups.record import GroupRecord, decode_record, encode_record, group_key
from frazil.kit.errors import Conflict, RetryLater
from frazil.metadata import read_one
from frazil.metadata.port import Check, Committed, Entry, MetadataStore, Revision, Write

_TRIES = 6
_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A group record that is ours as long as its version stands."""

    group: str
    record: GroupRecord
    version: Revision

    def guard(self) -> Check:
        """Holds while nobody else has claimed or changed the group."""
        return Check(key=group_key(self.group), version=self.version)


async def claim_group(store: MetadataStore, group: str, *, coordinator: int, create: bool, now_ms: int) -> Claim | None:
    """Makes ``coordinator`` the owner of the group; None when there is no such group and ``create`` is False.

    Raises RetryLater when others keep changing the record or the store is in trouble.
    """
    key = group_key(group)
    for _ in range(_TRIES):
        entry = await read_one(store, key)
        if not entry.version and not create:
            return None
        fresh = GroupRecord(coordinator=coordinator, epoch=0, emptied_ms=now_ms)
        before = decode_record(entry.value, where=key) if entry.version else fresh
        record = replace(before, coordinator=coordinator, epoch=before.epoch + 1)
        version = await put_record(store, key, entry.version, encode_record(record))
        if version is not None:
            return Claim(group=group, record=record, version=version)
    raise RetryLater(f"group {group!r} is being claimed by another broker")


async def store_record(store: MetadataStore, claim: Claim, record: GroupRecord) -> Claim:
    """Writes the group's new state under the claim. Raises Conflict when the claim is lost, RetryLater after several tries."""
    version = await put_record(store, group_key(claim.group), claim.version, encode_record(record))
    if version is None:
        raise Conflict(f"group {claim.group!r} has been claimed by another broker")
    return replace(claim, record=record, version=version)


async def put_record(store: MetadataStore, key: str, version: Revision, value: bytes) -> Revision | None:
    """Compare-and-swap of one key; None when it has moved. A lost answer is looked up: our bytes there mean success (R02)."""
    trouble: RetryLater | None = None
    for attempt in range(_TRIES):
        try:
            result = await store.commit([Check(key=key, version=version)], [Write(key=key, value=value)])
        except RetryLater as error:
            trouble = error
            await asyncio.sleep(_PAUSE_S * 2**attempt)
            continue
        if isinstance(result, Committed):
            return result.revision
        return _ours(result.entries, key, value)
    raise trouble or RetryLater(f"{key} could not be written")


def _ours(entries: tuple[Entry, ...], key: str, value: bytes) -> Revision | None:
    # No two writers write the same bytes: a record names its coordinator and the number of its claim.
    return next((entry.version for entry in entries if entry.key == key and entry.version and entry.value == value), None)
