"""One classic consumer group as a pure state machine: events and time in, answers and "store me" out.

States and what ends them (time is the caller's monotonic milliseconds; ``expire`` is called at ``next_deadline``)::

    EMPTY ──join──► PREPARING ──all joined or deadline──► COMPLETING ──leader's sync──► STABLE
      ▲                 ▲  │ nobody left                       │ join, leave, expiry        │
      └─────────────────┼──┘◄──────────────────────────────────┴────────────────────────────┘

Covers KIP-134 (initial delay), KIP-345 (static members), KIP-394 (member id required), KIP-559 (protocol in SyncGroup),
KIP-814 (static leader skips assignment). Cooperative assignment (KIP-429) lives in the clients and needs nothing here.
Invariants: a reply leaves only through a ``Step``; a step that changed what must survive a restart says ``persist``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from frazil.broker.groups.members import Member, choose_protocol, common_protocols, member_of
from frazil.broker.groups.values import (
    GroupLimits,
    GroupState,
    JoinAnswer,
    JoinedMember,
    JoinRequest,
    Leaver,
    Step,
    SyncAnswer,
    SyncRequest,
    Waiter,
)
from frazil.wire.errors import ErrorCode

_REBALANCING = (GroupState.COMPLETING, GroupState.STABLE)


@dataclass(slots=True)
class _InitialDelay:
    """KIP-134: the first rebalance waits for latecomers, at most until ``limit_ms``."""

    until_ms: float
    limit_ms: float
    grew: bool = False


class GroupMachine:
    """See the module's docstring. Not safe for concurrent use: one caller at a time."""

    def __init__(self, limits: GroupLimits) -> None:
        self.limits = limits
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.pending: dict[str, float] = {}
        """Member ids handed out by KIP-394 and not used yet, with the time they lapse."""
        self.statics: dict[str, str] = {}
        """Instance id → member id."""
        self._unanswered: set[str] = set()
        """Members that never got a JoinGroup answer; their session is ``new_member_timeout_ms``."""
        self._join_deadline_ms: float | None = None
        self._sync_deadline_ms: float | None = None
        self._initial: _InitialDelay | None = None

    def resume(
        self,
        *,
        members: Sequence[Member],
        generation: int,
        protocol: tuple[str | None, str | None],
        leader: str | None,
        assigned: bool,
        now_ms: float,
    ) -> None:
        """Takes over a stored group (R19). ``assigned``: the generation had its assignment, so the group is stable."""
        self.generation = generation
        self.protocol_type, self.protocol_name = protocol
        self.leader = leader
        for member in members:
            self.members[member.member_id] = member
            member.synced = assigned
            member.touch(now_ms)
            if member.instance_id is not None:
                self.statics[member.instance_id] = member.member_id
        if self.members:
            self.state = GroupState.STABLE if assigned else GroupState.COMPLETING
            self._sync_deadline_ms = None if assigned else now_ms + self._rebalance_timeout_ms()

    # ── events ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def join(self, request: JoinRequest, waiter: Waiter, *, new_id: str, now_ms: float) -> Step:
        """JoinGroup. ``new_id`` is the member id to give out if this member has none."""
        step = Step()
        error = self._join_error(request)
        if error is not ErrorCode.NONE:
            step.add(waiter, JoinAnswer(error=error, member_id=request.member_id))
        elif request.member_id:
            self._rejoin(request, waiter, step, now_ms)
        elif request.instance_id is not None and request.instance_id in self.statics:
            self._replace_static(request, waiter, step, new_id=new_id, now_ms=now_ms)
        elif request.instance_id is None and request.member_id_required:
            self.pending[new_id] = now_ms + request.session_timeout_ms
            step.add(waiter, JoinAnswer(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=new_id))
        else:
            self._add(request, new_id, waiter, step, now_ms)
        return step

    def sync(self, request: SyncRequest, waiter: Waiter, *, now_ms: float) -> Step:
        """SyncGroup. The leader's request carries every member's assignment."""
        step = Step()
        error = self._sync_error(request)
        if error is not ErrorCode.NONE:
            step.add(waiter, SyncAnswer(error=error))
            return step
        member = self.members[request.member_id]
        member.synced = True
        member.touch(now_ms)
        if self.state is GroupState.STABLE:
            step.add(waiter, self._sync_answer(member))
        else:
            if member.syncing is not None:
                step.add(member.syncing, SyncAnswer(error=ErrorCode.REBALANCE_IN_PROGRESS))
            member.syncing = waiter
            if member.member_id == self.leader:
                self._assign(dict(request.assignments), step, now_ms)
        self._close_sync_window()
        return step

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int, *, now_ms: float) -> ErrorCode:
        """Heartbeat: keeps the session, and tells the member when to join again."""
        error = self.member_error(member_id, instance_id)
        if error is not ErrorCode.NONE:
            return error
        if generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self.members[member_id].touch(now_ms)
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state is GroupState.PREPARING else ErrorCode.NONE

    def leave(self, leavers: Sequence[Leaver], *, now_ms: float) -> tuple[Step, list[ErrorCode]]:
        """LeaveGroup; one code per leaver, in order."""
        step = Step()
        codes: list[ErrorCode] = []
        removed = False
        for leaver in leavers:
            member_id = leaver.member_id
            if leaver.instance_id is not None and not member_id:
                member_id = self.statics.get(leaver.instance_id, "")
            if leaver.instance_id is None and self.pending.pop(member_id, None) is not None:
                codes.append(ErrorCode.NONE)
                continue
            error = self.member_error(member_id, leaver.instance_id)
            codes.append(error)
            if error is ErrorCode.NONE:
                self._remove(member_id, step)
                removed = True
        if removed:
            self._rebalance(step, now_ms)
        else:
            self._try_complete_join(step, now_ms)
        return step, codes

    def expire(self, *, now_ms: float) -> Step:
        """Ends whatever ended by ``now_ms``: handed-out ids, sessions, the joining and the syncing phase."""
        step = Step()
        for member_id in [m for m, until in self.pending.items() if until <= now_ms]:
            del self.pending[member_id]
        gone = [m.member_id for m in self.members.values() if m.expires_ms <= now_ms and self._session_runs(m)]
        if self._sync_deadline_ms is not None and self._sync_deadline_ms <= now_ms:
            self._sync_deadline_ms = None
            gone += [m.member_id for m in self.members.values() if not m.synced and m.member_id not in gone]
        for member_id in gone:
            self._remove(member_id, step)
        if gone:
            self._rebalance(step, now_ms)
        self._expire_initial(now_ms)
        if self._join_deadline_ms is not None and self._join_deadline_ms <= now_ms:
            self._complete_join(step, now_ms)
        else:
            self._try_complete_join(step, now_ms)
        return step

    def next_deadline_ms(self) -> float | None:
        """When ``expire`` has something to do next; None when it never has."""
        times = [*self.pending.values(), *(m.expires_ms for m in self.members.values() if self._session_runs(m))]
        times += [t for t in (self._join_deadline_ms, self._sync_deadline_ms) if t is not None]
        return min(times, default=None)

    # ── questions ───────────────────────────────────────────────────────────────────────────────────────────────────

    def member_error(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether this member id is a member, and whether a static member still owns its instance id (KIP-345)."""
        if instance_id is not None:
            owner = self.statics.get(instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def commit_error(self, member_id: str, instance_id: str | None, generation: int, *, now_ms: float) -> ErrorCode:
        """Whether OffsetCommit may be applied; a commit also keeps the member's session (F80: stale generations are refused)."""
        if generation < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE
        if generation < 0 and not member_id and instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not self.members and generation >= 0:
            return ErrorCode.ILLEGAL_GENERATION
        error = self.member_error(member_id, instance_id)
        if error is not ErrorCode.NONE:
            return error
        if generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if self.state is GroupState.COMPLETING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self.members[member_id].touch(now_ms)
        return ErrorCode.NONE

    def _join_error(self, request: JoinRequest) -> ErrorCode:
        limits = self.limits
        if not limits.session_timeout_min_ms <= request.session_timeout_ms <= limits.session_timeout_max_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if not request.protocols or not request.protocol_type:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        static_id = self.statics.get(request.instance_id) if request.instance_id is not None else None
        others = [m for m in self.members.values() if m.member_id not in (request.member_id, static_id)]
        if others:
            offered = {p.name for p in request.protocols}
            if request.protocol_type != self.protocol_type or not offered & common_protocols(others):
                return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        is_new = static_id is None and request.member_id not in self.members
        # Ids handed out count too, or asking for them would take memory without bound.
        others_coming = len(self.pending) - (request.member_id in self.pending)
        if is_new and len(self.members) + others_coming >= limits.members_max:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        return ErrorCode.NONE

    def _sync_error(self, request: SyncRequest) -> ErrorCode:
        error = self.member_error(request.member_id, request.instance_id)
        if error is not ErrorCode.NONE:
            return error
        if request.generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        for asked, have in ((request.protocol_type, self.protocol_type), (request.protocol_name, self.protocol_name)):
            if asked is not None and asked != have:
                return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state is GroupState.PREPARING else ErrorCode.NONE

    def _session_runs(self, member: Member) -> bool:
        return not member.waits or member.member_id in self._unanswered

    # ── joining ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _add(self, request: JoinRequest, member_id: str, waiter: Waiter, step: Step, now_ms: float) -> None:
        member = member_of(request, member_id)
        member.joining = waiter
        member.expires_ms = now_ms + self.limits.new_member_timeout_ms
        self._unanswered.add(member_id)
        self.members[member_id] = member
        if request.instance_id is not None:
            self.statics[request.instance_id] = member_id
        self.protocol_type = request.protocol_type
        if self._initial is not None:
            self._initial.grew = True
        self._rebalance(step, now_ms)

    def _rejoin(self, request: JoinRequest, waiter: Waiter, step: Step, now_ms: float) -> None:
        if request.instance_id is None and self.pending.pop(request.member_id, None) is not None:
            self._add(request, request.member_id, waiter, step, now_ms)
            return
        error = self.member_error(request.member_id, request.instance_id)
        if error is not ErrorCode.NONE:
            step.add(waiter, JoinAnswer(error=error, member_id=request.member_id))
            return
        member = self.members[request.member_id]
        unchanged = member.protocols == request.protocols
        asks_anew = self.state is GroupState.STABLE and member.member_id == self.leader
        if self.state in _REBALANCING and unchanged and not asks_anew:
            # A lost answer is given again; a follower that joins a stable group without news gets what holds.
            member.touch(now_ms)
            step.add(waiter, self._join_answer(member))
            return
        member.update(request)
        if member.joining is not None:
            step.add(member.joining, JoinAnswer(error=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id))
        member.joining = waiter
        self._rebalance(step, now_ms)

    def _replace_static(self, request: JoinRequest, waiter: Waiter, step: Step, *, new_id: str, now_ms: float) -> None:
        """KIP-345: a static member came back with no member id; its predecessor is fenced, its assignment goes on."""
        instance_id = request.instance_id or ""
        old_id = self.statics[instance_id]
        old = self.members.pop(old_id)
        self._unanswered.discard(old_id)
        self._answer_waits(old, ErrorCode.FENCED_INSTANCE_ID, step)
        member = member_of(request, new_id)
        member.assignment = old.assignment
        member.synced = old.synced
        self.members[new_id] = member
        self.statics[instance_id] = new_id
        was_leader = self.leader == old_id
        if was_leader:
            self.leader = new_id
        member.touch(now_ms)
        if self.state is GroupState.STABLE and choose_protocol(self.members.values()) == self.protocol_name:
            step.persist = True
            # Before KIP-814 a returning leader must believe that another leads, or it would assign anew.
            leader_id = old_id if was_leader and not request.may_skip_assignment else self.leader or ""
            step.add(waiter, self._join_answer(member, leader_id=leader_id, skip_assignment=was_leader and leader_id == new_id))
            return
        member.joining = waiter
        self._rebalance(step, now_ms)

    def _rebalance(self, step: Step, now_ms: float) -> None:
        """Starts the joining phase, or sees whether the one that runs can end."""
        if self.state is not GroupState.PREPARING:
            delay = self.limits.initial_delay_ms if self.state is GroupState.EMPTY else 0
            self._sync_deadline_ms = None
            for member in self.members.values():
                member.synced = False
                if member.syncing is not None:
                    step.add(member.syncing, SyncAnswer(error=ErrorCode.REBALANCE_IN_PROGRESS))
                    member.syncing = None
                    member.touch(now_ms)
            self.state = GroupState.PREPARING
            limit_ms = now_ms + self._rebalance_timeout_ms()
            self._join_deadline_ms = limit_ms
            if delay > 0:
                self._initial = _InitialDelay(until_ms=min(now_ms + delay, limit_ms), limit_ms=limit_ms)
                self._join_deadline_ms = self._initial.until_ms
        self._try_complete_join(step, now_ms)

    def _expire_initial(self, now_ms: float) -> None:
        initial = self._initial
        if initial is None or initial.until_ms > now_ms:
            return
        if initial.grew and initial.until_ms < initial.limit_ms:
            initial.grew = False
            initial.until_ms = min(now_ms + self.limits.initial_delay_ms, initial.limit_ms)
            self._join_deadline_ms = initial.until_ms
        else:
            self._initial = None

    def _try_complete_join(self, step: Step, now_ms: float) -> None:
        if self.state is not GroupState.PREPARING or self._initial is not None or self.pending:
            return
        if all(member.joining is not None for member in self.members.values()):
            self._complete_join(step, now_ms)

    def _complete_join(self, step: Step, now_ms: float) -> None:
        for member in list(self.members.values()):
            if member.joining is None and not member.is_static:
                self._remove(member.member_id, step)
        joined = [m for m in self.members.values() if m.joining is not None]
        if self.members and not joined:
            # Only static members that have not come back: they keep their place until their sessions end (KIP-345).
            self._join_deadline_ms = now_ms + self._rebalance_timeout_ms()
            return
        self._initial = None
        self._join_deadline_ms = None
        self.generation += 1
        step.persist = True
        if not self.members:
            self.state, self.leader, self.protocol_name = GroupState.EMPTY, None, None
            return
        if self.leader not in self.members or self.members[self.leader].joining is None:
            self.leader = joined[0].member_id
        self.protocol_name = choose_protocol(self.members.values())
        self.state = GroupState.COMPLETING
        self._sync_deadline_ms = now_ms + self._rebalance_timeout_ms()
        for member in self.members.values():
            member.assignment = b""
            member.synced = False
        for member in joined:
            if member.joining is not None:
                step.add(member.joining, self._join_answer(member))
            member.joining = None
            self._unanswered.discard(member.member_id)
            member.touch(now_ms)

    # ── syncing and leaving ─────────────────────────────────────────────────────────────────────────────────────────

    def _assign(self, assignments: dict[str, bytes], step: Step, now_ms: float) -> None:
        self.state = GroupState.STABLE
        step.persist = True
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            if member.syncing is not None:
                step.add(member.syncing, self._sync_answer(member))
                member.syncing = None
                member.touch(now_ms)

    def _close_sync_window(self) -> None:
        if self.state is GroupState.STABLE and all(m.synced for m in self.members.values()):
            self._sync_deadline_ms = None

    def _remove(self, member_id: str, step: Step) -> None:
        member = self.members.pop(member_id)
        self._unanswered.discard(member_id)
        if member.instance_id is not None:
            self.statics.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = None
        self._answer_waits(member, ErrorCode.UNKNOWN_MEMBER_ID, step)

    def _answer_waits(self, member: Member, error: ErrorCode, step: Step) -> None:
        if member.joining is not None:
            step.add(member.joining, JoinAnswer(error=error, member_id=member.member_id))
        if member.syncing is not None:
            step.add(member.syncing, SyncAnswer(error=error))
        member.joining = member.syncing = None

    def _rebalance_timeout_ms(self) -> int:
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    # ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _join_answer(self, member: Member, *, leader_id: str | None = None, skip_assignment: bool = False) -> JoinAnswer:
        leader = self.leader or "" if leader_id is None else leader_id
        members: tuple[JoinedMember, ...] = ()
        if leader == member.member_id:
            members = tuple(m.as_joined(self.protocol_name) for m in self.members.values())
        return JoinAnswer(
            error=ErrorCode.NONE,
            member_id=member.member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader_id=leader,
            skip_assignment=skip_assignment,
            members=members,
        )

    def _sync_answer(self, member: Member) -> SyncAnswer:
        return SyncAnswer(
            error=ErrorCode.NONE,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            assignment=member.assignment,
        )
