"""What goes into and comes out of the group machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from frazil.wire.errors import ErrorCode

Waiter = NewType("Waiter", int)
"""Names one request whose answer the machine may give later."""


class GroupState(StrEnum):
    """States of a classic group, spelled as Kafka's admin answers spell them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """One way of assigning that a member offers, with its own metadata bytes."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """A JoinGroup request after decoding, whatever its version."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    protocol_type: str
    protocols: tuple[Protocol, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id_required: bool
    """KIP-394 (version ≥ 4): a dynamic member must come back with the id it was given."""
    may_skip_assignment: bool
    """KIP-814 (version ≥ 9): a returning static leader can be told not to assign anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """One member as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAnswer:
    """What JoinGroup answers."""

    error: ErrorCode
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """A SyncGroup request after decoding."""

    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncAnswer:
    """What SyncGroup answers."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaver:
    """One member that LeaveGroup names; static members may come with an empty member id."""

    member_id: str
    instance_id: str | None


Answer = JoinAnswer | SyncAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answer to one waiting request."""

    waiter: Waiter
    answer: Answer


@dataclass(slots=True, kw_only=True)
class Step:
    """What one event led to. ``persist``: the record changed and must be stored before any reply leaves (R19)."""

    replies: list[Reply] = field(default_factory=list)
    persist: bool = False

    def add(self, waiter: Waiter, answer: Answer) -> None:
        """Appends one reply."""
        self.replies.append(Reply(waiter=waiter, answer=answer))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """Bounds of every group."""

    session_timeout_min_ms: int = 6_000
    session_timeout_max_ms: int = 1_800_000
    members_max: int = 1_000
    initial_delay_ms: int = 200
    """How long the first rebalance of an empty group waits for more members; Kafka's own default is 3,000."""
    new_member_timeout_ms: int = 300_000
    """A member that never got its first JoinGroup answer is dropped after this long (KIP-394's companion fix)."""
