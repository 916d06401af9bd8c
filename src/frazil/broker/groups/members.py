"""One member of a group, and the vote on the protocol."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from frazil.broker.groups.values import JoinedMember, JoinRequest, Protocol, Waiter


@dataclass(slots=True, kw_only=True)
class Member:
    """A member as the coordinator remembers it. ``expires_ms`` is on the caller's clock."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    expires_ms: float = 0.0
    joining: Waiter | None = None
    """The JoinGroup request that waits for the end of this rebalance."""
    syncing: Waiter | None = None
    """The SyncGroup request that waits for the leader's assignment."""
    synced: bool = False
    """This member has sent SyncGroup in this generation."""

    @property
    def is_static(self) -> bool:
        """KIP-345."""
        return self.instance_id is not None

    @property
    def waits(self) -> bool:
        """A waiting member cannot send heartbeats, so its session stands still."""
        return self.joining is not None or self.syncing is not None

    def touch(self, now_ms: float) -> None:
        """The member was heard of."""
        self.expires_ms = now_ms + self.session_timeout_ms

    def metadata_for(self, protocol_name: str | None) -> bytes:
        """The member's metadata under the protocol chosen."""
        return next((p.metadata for p in self.protocols if p.name == protocol_name), b"")

    def as_joined(self, protocol_name: str | None) -> JoinedMember:
        """The line the leader gets."""
        return JoinedMember(member_id=self.member_id, instance_id=self.instance_id, metadata=self.metadata_for(protocol_name))

    def update(self, request: JoinRequest) -> None:
        """Takes over what a repeated JoinGroup says."""
        self.protocols = request.protocols
        self.session_timeout_ms = request.session_timeout_ms
        self.rebalance_timeout_ms = request.rebalance_timeout_ms
        self.client_id = request.client_id
        self.client_host = request.client_host


def member_of(request: JoinRequest, member_id: str) -> Member:
    """A new member made from its first JoinGroup."""
    return Member(
        member_id=member_id,
        instance_id=request.instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        protocols=request.protocols,
    )


def common_protocols(members: Iterable[Member]) -> set[str]:
    """Names that every member offers."""
    sets = [{p.name for p in member.protocols} for member in members]
    return set.intersection(*sets) if sets else set()


def choose_protocol(members: Iterable[Member]) -> str | None:
    """Each member votes for the first common name of its own list; most votes win, ties go to the earlier vote."""
    everyone = list(members)
    common = common_protocols(everyone)
    votes: Counter[str] = Counter()
    for member in everyone:
        first = next((p.name for p in member.protocols if p.name in common), None)
        if first is not None:
            votes[first] += 1
    return votes.most_common(1)[0][0] if votes else None
