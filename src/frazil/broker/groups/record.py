"""The stored form of a group: ``groups/{group}`` holds who coordinates it, its generation, its members and assignments (R19).

Bytes: one format byte, then zlib-packed JSON with member metadata and assignments in base64. Format 1.
Committed offsets are keys of their own (``group-offsets/{group}/{topic id}/{partition}``): format byte, then JSON.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, unquote

from frazil.broker.groups.machine import GroupMachine
from frazil.broker.groups.members import Member
from frazil.broker.groups.values import GroupLimits, GroupState, Protocol
from frazil.kit.errors import Corrupt
from frazil.kit.names import PartitionId, TopicId

_FORMAT = 1
_RECORD_BYTES_MAX = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """What metadata remembers of one group. ``epoch`` counts claims; ``emptied_ms`` is Unix time, 0 while there are members."""

    coordinator: int
    epoch: int
    generation: int = 0
    assigned: bool = True
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    emptied_ms: int = 0
    members: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOffset:
    """One committed offset."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int


def group_key(group: str) -> str:
    """Where the group's record lives. Names are percent-encoded: Kafka allows any character in them."""
    return f"groups/{quote(group, safe='')}"


def group_of(key: str) -> str:
    """The group a record key names."""
    return unquote(key.removeprefix("groups/"))


def offsets_prefix(group: str) -> str:
    """Prefix of the group's committed offsets."""
    return f"group-offsets/{quote(group, safe='')}/"


def offset_key(group: str, topic_id: TopicId, partition: int) -> str:
    """Where one committed offset lives: by topic id, so that a re-created topic starts without (R19)."""
    return f"{offsets_prefix(group)}{topic_id.hex()}/{partition:010d}"


def parse_offset_key(key: str) -> tuple[TopicId, PartitionId]:
    """Topic id and partition of an offset key."""
    _, topic, partition = key.rsplit("/", 2)
    return TopicId(bytes.fromhex(topic)), PartitionId(int(partition))


def encode_offset(value: StoredOffset) -> bytes:
    """Bytes of one committed offset."""
    body = [value.offset, value.leader_epoch, value.metadata, value.committed_ms]
    return bytes([_FORMAT]) + json.dumps(body, separators=(",", ":")).encode()


def decode_offset(data: bytes, *, where: str) -> StoredOffset:
    """The committed offset in ``data``. Raises Corrupt."""
    _check_format(data, where)
    try:
        offset, epoch, metadata, committed_ms = json.loads(data[1:])
        return StoredOffset(offset=int(offset), leader_epoch=int(epoch), metadata=str(metadata), committed_ms=int(committed_ms))
    except ValueError as error:
        raise Corrupt(f"committed offset does not decode: {error}", where=where) from error


def record_of(machine: GroupMachine, before: GroupRecord, *, now_ms: int) -> GroupRecord:
    """The record that holds ``machine`` as it is, under the claim of ``before``. ``now_ms`` is Unix time."""
    emptied_ms = 0 if machine.members else (before.emptied_ms or now_ms)
    return replace(
        before,
        generation=machine.generation,
        assigned=machine.state is not GroupState.COMPLETING,
        protocol_type=machine.protocol_type,
        protocol_name=machine.protocol_name,
        leader=machine.leader,
        emptied_ms=emptied_ms,
        members=tuple(machine.members.values()),
    )


def restore(record: GroupRecord, limits: GroupLimits, *, now_ms: float) -> GroupMachine:
    """A machine that goes on where the record stands; every member's session starts anew, so heartbeats simply continue."""
    machine = GroupMachine(limits)
    machine.resume(
        members=record.members,
        generation=record.generation,
        protocol=(record.protocol_type, record.protocol_name),
        leader=record.leader,
        assigned=record.assigned,
        now_ms=now_ms,
    )
    return machine


def encode_record(record: GroupRecord) -> bytes:
    """Bytes of a group record."""
    body = {
        "coordinator": record.coordinator,
        "epoch": record.epoch,
        "generation": record.generation,
        "assigned": record.assigned,
        "protocol_type": record.protocol_type,
        "protocol_name": record.protocol_name,
        "leader": record.leader,
        "emptied_ms": record.emptied_ms,
        "members": [_member_fields(member) for member in record.members],
    }
    return bytes([_FORMAT]) + zlib.compress(json.dumps(body, separators=(",", ":")).encode(), 1)


def decode_record(data: bytes, *, where: str) -> GroupRecord:
    """The group record in ``data``. Raises Corrupt."""
    _check_format(data, where)
    try:
        unpacker = zlib.decompressobj()
        body: dict[str, Any] = json.loads(unpacker.decompress(data[1:], _RECORD_BYTES_MAX))
        return GroupRecord(
            coordinator=body["coordinator"],
            epoch=body["epoch"],
            generation=body["generation"],
            assigned=body["assigned"],
            protocol_type=body["protocol_type"],
            protocol_name=body["protocol_name"],
            leader=body["leader"],
            emptied_ms=body["emptied_ms"],
            members=tuple(_member_from(fields) for fields in body["members"]),
        )
    except (ValueError, KeyError, TypeError, zlib.error) as error:
        raise Corrupt(f"group record does not decode: {error}", where=where) from error


def _check_format(data: bytes, where: str) -> None:
    if not data or data[0] != _FORMAT:
        raise Corrupt(f"format {data[:1].hex() or 'missing'}; this version reads {_FORMAT}", where=where)


def _member_fields(member: Member) -> dict[str, Any]:
    return {
        "id": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": member.client_host,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "protocols": [[p.name, base64.b64encode(p.metadata).decode()] for p in member.protocols],
        "assignment": base64.b64encode(member.assignment).decode(),
    }


def _member_from(fields: dict[str, Any]) -> Member:
    return Member(
        member_id=fields["id"],
        instance_id=fields["instance"],
        client_id=fields["client"],
        client_host=fields["host"],
        session_timeout_ms=fields["session_timeout_ms"],
        rebalance_timeout_ms=fields["rebalance_timeout_ms"],
        protocols=tuple(Protocol(name=name, metadata=base64.b64decode(data)) for name, data in fields["protocols"]),
        assignment=base64.b64decode(fields["assignment"]),
    )
