"""The group state machine: each sentence of the classic protocol, with time as an argument."""

from __future__ import annotations

import dataclasses

from frazil.broker.groups.machine import GroupMachine
from frazil.broker.groups.values import (
    GroupLimits,
    GroupState,
    JoinAnswer,
    JoinRequest,
    Leaver,
    Protocol,
    Step,
    SyncAnswer,
    SyncRequest,
    Waiter,
)
from frazil.wire.errors import ErrorCode

LIMITS = GroupLimits(initial_delay_ms=200, members_max=5)


def request(member_id: str = "", **changes: object) -> JoinRequest:
    plain = JoinRequest(
        member_id=member_id,
        instance_id=None,
        client_id="c",
        client_host="/127.0.0.1",
        protocol_type="consumer",
        protocols=(Protocol(name="range", metadata=b"m"),),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id_required=False,
        may_skip_assignment=False,
    )
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


def sync_of(answer: JoinAnswer, assignments: dict[str, bytes] | None = None, **changes: object) -> SyncRequest:
    plain = SyncRequest(
        member_id=answer.member_id,
        instance_id=None,
        generation=answer.generation,
        protocol_type=None,
        protocol_name=None,
        assignments=tuple((assignments or {}).items()),
    )
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


class Play:
    """Drives one machine and collects every answer by waiter."""

    def __init__(self, limits: GroupLimits = LIMITS) -> None:
        self.machine = GroupMachine(limits)
        self.now = 0.0
        self.answers: dict[int, JoinAnswer | SyncAnswer] = {}
        self.waiters = 0
        self.persisted = 0

    def take(self, step: Step) -> None:
        self.persisted += step.persist
        for reply in step.replies:
            assert reply.waiter not in self.answers, "a request is answered once"
            self.answers[reply.waiter] = reply.answer

    def join(self, asked: JoinRequest, new_id: str = "") -> int:
        self.waiters += 1
        self.take(self.machine.join(asked, Waiter(self.waiters), new_id=new_id or f"m{self.waiters}", now_ms=self.now))
        return self.waiters

    def sync(self, asked: SyncRequest) -> int:
        self.waiters += 1
        self.take(self.machine.sync(asked, Waiter(self.waiters), now_ms=self.now))
        return self.waiters

    def leave(self, *leavers: Leaver) -> list[ErrorCode]:
        step, codes = self.machine.leave(leavers, now_ms=self.now)
        self.take(step)
        return codes

    def pass_ms(self, ms: float) -> None:
        end = self.now + ms
        while (deadline := self.machine.next_deadline_ms()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.take(self.machine.expire(now_ms=self.now))
        self.now = end

    def joined(self, waiter: int) -> JoinAnswer:
        answer = self.answers[waiter]
        assert isinstance(answer, JoinAnswer)
        return answer

    def synced(self, waiter: int) -> SyncAnswer:
        answer = self.answers[waiter]
        assert isinstance(answer, SyncAnswer)
        return answer

    def stable(self, count: int = 1, **changes: object) -> list[JoinAnswer]:
        """A stable group of ``count`` members, the leader first."""
        waiters = [self.join(request(**changes)) for _ in range(count)]
        self.pass_ms(400)
        answers = sorted((self.joined(w) for w in waiters), key=lambda a: a.member_id != a.leader_id)
        leader = answers[0]
        for follower in answers[1:]:
            self.sync(sync_of(follower))
        self.sync(sync_of(leader, {m.member_id: m.member_id.encode() for m in leader.members}))
        assert self.machine.state is GroupState.STABLE
        return answers


def test_first_member_joins_after_the_initial_delay_and_leads() -> None:
    play = Play()
    waiter = play.join(request())
    assert waiter not in play.answers
    play.pass_ms(199)
    assert waiter not in play.answers
    play.pass_ms(1)
    answer = play.joined(waiter)
    assert (answer.error, answer.generation, answer.protocol_name) == (ErrorCode.NONE, 1, "range")
    assert answer.leader_id == answer.member_id
    assert [m.member_id for m in answer.members] == [answer.member_id]
    assert play.machine.state is GroupState.COMPLETING
    assert play.persisted == 1


def test_initial_delay_is_extended_while_members_come() -> None:
    play = Play()
    first = play.join(request())
    play.pass_ms(150)
    second = play.join(request())
    play.pass_ms(100)
    assert first not in play.answers, "the newcomer extended the delay"
    play.pass_ms(200)
    assert play.joined(first).generation == play.joined(second).generation == 1
    assert len(play.joined(first).members) == 2
    assert play.joined(second).members == ()


def test_without_initial_delay_a_single_member_joins_at_once() -> None:
    play = Play(GroupLimits(initial_delay_ms=0))
    assert play.joined(play.join(request())).generation == 1


def test_member_id_required_is_answered_once_and_the_id_then_works() -> None:
    play = Play()
    asked = play.joined(play.join(request(member_id_required=True), new_id="given"))
    assert (asked.error, asked.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "given")
    assert play.machine.members == {}
    waiter = play.join(request("given", member_id_required=True))
    play.pass_ms(200)
    assert play.joined(waiter).member_id == "given"
    assert play.machine.pending == {}


def test_a_given_id_that_is_not_used_lapses() -> None:
    play = Play()
    play.join(request(member_id_required=True), new_id="given")
    play.pass_ms(10_001)
    assert play.machine.pending == {}
    assert play.joined(play.join(request("given"))).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_unknown_member_id_is_refused() -> None:
    assert Play().machine.heartbeat("nobody", None, 0, now_ms=0) is ErrorCode.UNKNOWN_MEMBER_ID
    play = Play()
    assert play.joined(play.join(request("nobody"))).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_leaders_sync_gives_every_member_its_assignment() -> None:
    play = Play()
    first, second = play.join(request()), play.join(request())
    play.pass_ms(400)
    leader, follower = play.joined(first), play.joined(second)
    waiting = play.sync(sync_of(follower))
    assert waiting not in play.answers
    mine = play.sync(sync_of(leader, {leader.member_id: b"A", follower.member_id: b"B"}))
    assert play.synced(mine).assignment == b"A"
    assert play.synced(waiting).assignment == b"B"
    assert play.synced(play.sync(sync_of(follower))).assignment == b"B", "a repeated SyncGroup gets the same"
    assert play.persisted == 2


def test_stale_generation_is_refused_everywhere_f80() -> None:
    play = Play()
    (leader,) = play.stable()
    old = leader.generation - 1
    assert play.machine.heartbeat(leader.member_id, None, old, now_ms=play.now) is ErrorCode.ILLEGAL_GENERATION
    assert play.machine.commit_error(leader.member_id, None, old, now_ms=play.now) is ErrorCode.ILLEGAL_GENERATION
    assert play.synced(play.sync(sync_of(leader, generation=old))).error is ErrorCode.ILLEGAL_GENERATION


def test_a_new_member_rebalances_and_others_hear_it_by_heartbeat() -> None:
    play = Play()
    (leader,) = play.stable()
    newcomer = play.join(request())
    assert play.machine.heartbeat(leader.member_id, None, leader.generation, now_ms=play.now) is ErrorCode.REBALANCE_IN_PROGRESS
    again = play.join(request(leader.member_id))
    assert play.joined(again).generation == leader.generation + 1
    assert play.joined(newcomer).generation == leader.generation + 1
    assert play.joined(again).leader_id == leader.member_id, "the leader stays"


def test_who_does_not_rejoin_in_time_is_dropped() -> None:
    play = Play()
    answers = play.stable(2)
    newcomer = play.join(request(session_timeout_ms=30_000, rebalance_timeout_ms=5_000))
    play.join(request(answers[0].member_id, rebalance_timeout_ms=5_000))
    play.pass_ms(60_001)
    assert play.joined(newcomer).generation == 2
    assert answers[1].member_id not in play.machine.members


def test_session_end_removes_and_rebalances() -> None:
    play = Play()
    answers = play.stable(2)
    play.pass_ms(9_000)
    assert play.machine.heartbeat(answers[0].member_id, None, 1, now_ms=play.now) is ErrorCode.NONE
    play.pass_ms(2_000)
    assert set(play.machine.members) == {answers[0].member_id}
    assert play.machine.heartbeat(answers[1].member_id, None, 1, now_ms=play.now) is ErrorCode.UNKNOWN_MEMBER_ID
    assert play.machine.heartbeat(answers[0].member_id, None, 1, now_ms=play.now) is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_last_member_leaves_an_empty_group_with_a_new_generation() -> None:
    play = Play()
    (leader,) = play.stable()
    assert play.leave(Leaver(member_id=leader.member_id, instance_id=None)) == [ErrorCode.NONE]
    assert play.machine.state is GroupState.EMPTY
    assert play.machine.generation == 2
    assert play.machine.protocol_type == "consumer"
    assert play.machine.next_deadline_ms() is None


def test_leave_by_an_unknown_member_changes_nothing() -> None:
    play = Play()
    play.stable()
    persisted = play.persisted
    assert play.leave(Leaver(member_id="nobody", instance_id=None)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert (play.machine.state, play.persisted) == (GroupState.STABLE, persisted)


def test_sync_waits_are_ended_by_a_rebalance() -> None:
    play = Play()
    first, second = play.join(request()), play.join(request())
    play.pass_ms(400)
    waiting = play.sync(sync_of(play.joined(second)))
    play.join(request(play.joined(first).member_id, protocols=(Protocol(name="range", metadata=b"new"),)))
    assert play.synced(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_never_syncs_is_dropped() -> None:
    play = Play()
    first, second = play.join(request(session_timeout_ms=1_000_000)), play.join(request(session_timeout_ms=1_000_000))
    play.pass_ms(400)
    leader = play.joined(first)
    play.sync(sync_of(leader, {}))
    play.pass_ms(60_001)
    assert play.joined(second).member_id not in play.machine.members


def test_protocol_is_what_all_have_and_most_prefer() -> None:
    play = Play()
    a, b = Protocol(name="a", metadata=b"A"), Protocol(name="b", metadata=b"B")
    first = play.join(request(protocols=(a, b)))
    play.join(request(protocols=(b, a)))
    play.join(request(protocols=(b,)))
    play.pass_ms(600)
    assert play.joined(first).protocol_name == "b"
    assert {m.metadata for m in play.joined(first).members} == {b"B"}
    stranger = play.joined(play.join(request(protocols=(Protocol(name="z", metadata=b""),))))
    assert stranger.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    other_kind = play.joined(play.join(request(protocol_type="connect", protocols=(b,))))
    assert other_kind.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_bounds_are_kept() -> None:
    play = Play()
    assert play.joined(play.join(request(session_timeout_ms=5_999))).error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert play.joined(play.join(request(protocols=()))).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    for _ in range(5):
        play.join(request())
    assert play.joined(play.join(request())).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    asking = Play()
    for n in range(5):
        asking.join(request(member_id_required=True), new_id=f"id{n}")
    assert asking.joined(asking.join(request(member_id_required=True))).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    asking.join(request("id0", member_id_required=True))
    assert "id0" in asking.machine.members


def test_commit_without_membership_needs_an_empty_group() -> None:
    play = Play()
    assert play.machine.commit_error("", None, -1, now_ms=0) is ErrorCode.NONE
    (leader,) = play.stable()
    assert play.machine.commit_error("", None, -1, now_ms=play.now) is ErrorCode.UNKNOWN_MEMBER_ID
    assert play.machine.commit_error(leader.member_id, None, 1, now_ms=play.now) is ErrorCode.NONE
    assert play.machine.commit_error("nobody", None, 1, now_ms=play.now) is ErrorCode.UNKNOWN_MEMBER_ID


def test_commit_waits_for_the_assignment() -> None:
    play = Play(GroupLimits(initial_delay_ms=0))
    answer = play.joined(play.join(request()))
    assert play.machine.commit_error(answer.member_id, None, 1, now_ms=0) is ErrorCode.REBALANCE_IN_PROGRESS


def test_static_member_comes_back_without_a_rebalance_kip345() -> None:
    play = Play()
    (leader,) = play.stable(instance_id="i1", may_skip_assignment=True)
    back = play.joined(play.join(request(instance_id="i1", may_skip_assignment=True), new_id="fresh"))
    assert (back.member_id, back.generation, back.leader_id, back.skip_assignment) == ("fresh", 1, "fresh", True)
    assert play.machine.state is GroupState.STABLE
    assert play.machine.heartbeat(leader.member_id, "i1", 1, now_ms=play.now) is ErrorCode.FENCED_INSTANCE_ID
    assert play.machine.heartbeat("fresh", "i1", 1, now_ms=play.now) is ErrorCode.NONE
    assignment = play.synced(play.sync(sync_of(back, instance_id="i1"))).assignment
    assert assignment == leader.member_id.encode(), "it keeps its predecessor's partitions"


def test_returning_static_leader_of_old_clients_does_not_assign_anew() -> None:
    play = Play()
    (leader,) = play.stable(instance_id="i1")
    back = play.joined(play.join(request(instance_id="i1"), new_id="fresh"))
    assert back.leader_id == leader.member_id != back.member_id
    assert back.members == ()
    assert play.machine.leader == "fresh"


def test_static_member_survives_a_missed_rebalance_but_not_its_session() -> None:
    play = Play()
    waiters = [
        play.join(request(instance_id=f"i{n}", session_timeout_ms=200_000, rebalance_timeout_ms=10_000)) for n in range(2)
    ]
    play.pass_ms(400)
    answers = [play.joined(w) for w in waiters]
    for answer in answers:
        play.sync(sync_of(answer, {}))
    news = (Protocol(name="range", metadata=b"n"),)
    play.join(request(answers[0].member_id, instance_id="i0", session_timeout_ms=200_000, protocols=news))
    play.pass_ms(60_001)
    assert play.machine.generation == 2
    assert answers[1].member_id in play.machine.members
    play.pass_ms(200_000)
    assert answers[1].member_id not in play.machine.members


def test_static_leave_by_instance_id_alone() -> None:
    play = Play()
    play.stable(instance_id="i1")
    assert play.leave(Leaver(member_id="", instance_id="i1"), Leaver(member_id="", instance_id="i2")) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert play.machine.state is GroupState.EMPTY


def test_a_join_on_a_new_connection_releases_the_old_one() -> None:
    play = Play()
    play.join(request(member_id_required=True), new_id="given")
    old = play.join(request("given"))
    new = play.join(request("given"))
    assert play.joined(old).error is ErrorCode.REBALANCE_IN_PROGRESS
    play.pass_ms(400)
    assert play.joined(new).error is ErrorCode.NONE
