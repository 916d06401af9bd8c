"""Questions and orders about whole groups: describe, list, delete, drop offsets, expire old ones."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from frazil.broker.groups.coordinator import Groups, NotHere
from frazil.broker.groups.machine import GroupMachine
from frazil.broker.groups.offsets import drop_offsets, read_offsets
from frazil.broker.groups.record import GroupRecord, decode_record, group_key, group_of
from frazil.broker.groups.values import GroupState
from frazil.broker.topic_view import TopicView
from frazil.kit.clock import Clock
from frazil.kit.errors import Corrupt, FrazilError, RetryLater
from frazil.kit.names import PartitionKey
from frazil.metadata import prefix_end
from frazil.metadata.port import Check, Committed, MetadataStore, Write
from frazil.wire.errors import ErrorCode
from frazil.wire.messages.consumer_protocol_subscription import DATA, ConsumerProtocolSubscription

log = logging.getLogger(__name__)

_GROUPS = "groups/"


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    """One member as DescribeGroups shows it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """One group as DescribeGroups shows it."""

    state: GroupState
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One group as ListGroups shows it."""

    group: str
    protocol_type: str
    state: GroupState


async def describe_group(groups: Groups, group: str) -> Description | None:
    """The group as it stands; None when there is no such group. Raises NotHere."""

    def describe(machine: GroupMachine, _: Check) -> Description:
        return Description(
            state=machine.state,
            protocol_type=machine.protocol_type or "",
            protocol_name=machine.protocol_name or "",
            members=tuple(
                DescribedMember(
                    member_id=m.member_id,
                    instance_id=m.instance_id,
                    client_id=m.client_id,
                    client_host=m.client_host,
                    metadata=m.metadata_for(machine.protocol_name),
                    assignment=m.assignment,
                )
                for m in machine.members.values()
            ),
        )

    return await groups.look(group, describe)


async def list_groups(groups: Groups, store: MetadataStore) -> tuple[Listed, ...]:
    """Every group this broker coordinates, by name. Raises RetryLater."""
    found = await store.range(_GROUPS, prefix_end(_GROUPS))
    listed = []
    for entry in found.entries:
        name = group_of(entry.key)
        if not groups.coordinates(name):
            continue
        machine = groups.loaded(name)
        if machine is not None:
            listed.append(Listed(group=name, protocol_type=machine.protocol_type or "", state=machine.state))
            continue
        try:
            listed.append(_listed(name, decode_record(entry.value, where=entry.key)))
        except Corrupt as error:
            log.error("group %r is not listed: %s", name, error)  # one bad record must not hide the others
    return tuple(listed)


def _listed(name: str, record: GroupRecord) -> Listed:
    state = GroupState.STABLE if record.assigned else GroupState.COMPLETING
    return Listed(group=name, protocol_type=record.protocol_type or "", state=state if record.members else GroupState.EMPTY)


async def delete_group(groups: Groups, store: MetadataStore, group: str) -> ErrorCode:
    """Deletes an empty group with its offsets. Raises RetryLater."""
    try:
        guard = await groups.look(group, _guard_if_empty)
        if guard is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if not isinstance(guard, Check):
            return ErrorCode.NON_EMPTY_GROUP
        if not await drop_offsets(store, group, guard, tuple(await read_offsets(store, group))):
            return ErrorCode.NOT_COORDINATOR
        result = await store.commit([guard], [Write(key=group_key(group), value=None)])
        groups.forget(group)
        return ErrorCode.NONE if isinstance(result, Committed) else ErrorCode.NOT_COORDINATOR
    except NotHere as error:
        return error.code


def _guard_if_empty(machine: GroupMachine, guard: Check) -> Check | bool:
    return guard if machine.state is GroupState.EMPTY else False


async def delete_offsets(
    groups: Groups, store: MetadataStore, group: str, keys: Mapping[PartitionKey, str]
) -> ErrorCode | dict[PartitionKey, ErrorCode]:
    """Drops the offsets of ``keys`` (with their topics' names); those of subscribed topics stay (KIP-496). Raises RetryLater."""

    def question(machine: GroupMachine, guard: Check) -> tuple[Check, bool, set[str]]:
        consumer = machine.protocol_type == "consumer" or machine.state is GroupState.EMPTY
        return guard, consumer, subscribed_topics(machine)

    try:
        found = await groups.look(group, question)
    except NotHere as error:
        return error.code
    if found is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    guard, consumer, topics = found
    if not consumer:
        return ErrorCode.NON_EMPTY_GROUP
    free = [key for key, name in keys.items() if name not in topics]
    if not await drop_offsets(store, group, guard, free):
        return ErrorCode.NOT_COORDINATOR
    return {key: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if name in topics else ErrorCode.NONE for key, name in keys.items()}


def subscribed_topics(machine: GroupMachine) -> set[str]:
    """Topics any member of a consumer group subscribes to; metadata that cannot be read names none."""
    topics: set[str] = set()
    if machine.protocol_type != "consumer":
        return topics
    for member in machine.members.values():
        for protocol in member.protocols:
            topics.update(_topics_in(memoryview(protocol.metadata)))
    return topics


def _topics_in(metadata: memoryview) -> Sequence[str]:
    version = int.from_bytes(metadata[:2], "big", signed=True)
    reader = DATA.readers.get(max(0, min(version, 3)))
    if reader is None or len(metadata) < 2:
        return ()
    try:
        subscription, _ = reader(metadata, 2, len(metadata))
    except Corrupt:
        return ()
    return subscription.topics if isinstance(subscription, ConsumerProtocolSubscription) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSweep:
    """Drops offsets of groups that have been empty too long and of topics that are gone, then the groups nothing is left of."""

    groups: Groups
    store: MetadataStore
    topics: TopicView
    clock: Clock
    retention_ms: int

    async def pass_once(self) -> int:
        """One pass over the groups coordinated here; the number of offsets dropped. Raises RetryLater."""
        await self.topics.refresh()
        dropped = 0
        for listed in await list_groups(self.groups, self.store):
            try:
                dropped += await self._sweep(listed)
            except NotHere:
                continue  # moved to another broker meanwhile; it sweeps there
            except FrazilError as error:
                if not isinstance(error, RetryLater):
                    log.error("offsets of group %r not swept: %s", listed.group, error)
                else:
                    raise
        return dropped

    async def _sweep(self, listed: Listed) -> int:
        def question(machine: GroupMachine, guard: Check) -> tuple[Check, bool]:
            return guard, machine.state is GroupState.EMPTY and not machine.pending

        found = await self.groups.look(listed.group, question)
        if found is None:
            return 0
        guard, empty = found
        oldest_ms = self.clock.now_ms() - self.retention_ms
        emptied_ms = self.groups.emptied_ms(listed.group)
        offsets = await read_offsets(self.store, listed.group)
        old = [
            key
            for key, stored in offsets.items()
            if self.topics.topics.by_id(key.topic_id) is None or (empty and max(stored.committed_ms, emptied_ms) < oldest_ms)
        ]
        if old and not await drop_offsets(self.store, listed.group, guard, old):
            return 0
        if empty and len(old) == len(offsets) and emptied_ms < oldest_ms:
            await delete_group(self.groups, self.store, listed.group)
        return len(old)
