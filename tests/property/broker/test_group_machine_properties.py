"""Any sequence of events leaves the group machine consistent, and every waiting request is answered exactly once."""

from __future__ import annotations

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.broker.groups.machine import GroupMachine
from frazil.broker.groups.record import GroupRecord, decode_record, encode_record, record_of, restore
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

LIMITS = GroupLimits(initial_delay_ms=200, members_max=6)
PROTOCOLS = ("range", "sticky", "other")

actions = st.lists(
    st.one_of(
        st.tuples(
            st.just("join"), st.integers(0, 7), st.sampled_from((None, "i0", "i1")), st.booleans(), st.sets(st.sampled_from(PROTOCOLS))
        ),
        st.tuples(st.just("sync"), st.integers(0, 7), st.booleans()),
        st.tuples(st.just("heartbeat"), st.integers(0, 7), st.integers(-1, 1)),
        st.tuples(st.just("leave"), st.integers(0, 7), st.sampled_from((None, "i0"))),
        st.tuples(st.just("commit"), st.integers(0, 7), st.integers(-1, 1)),
        st.tuples(st.just("time"), st.sampled_from((1, 150, 250, 5_000, 12_000, 70_000))),
        st.tuples(st.just("restart")),
    ),
    max_size=60,
)


class Judge:
    """Plays actions and checks what must always hold."""

    def __init__(self) -> None:
        self.machine = GroupMachine(LIMITS)
        self.record = GroupRecord(coordinator=1, epoch=1)
        self.now = 0.0
        self.open: dict[int, str] = {}
        self.waiters = 0
        self.ids: list[str] = []
        self.generations: dict[int, tuple[str | None, str]] = {}

    def member(self, number: int) -> str:
        return self.ids[number % len(self.ids)] if self.ids and number < 7 else ""

    def waiter(self, kind: str) -> Waiter:
        self.waiters += 1
        self.open[self.waiters] = kind
        return Waiter(self.waiters)

    def take(self, step: Step, before: int) -> None:
        assert self.machine.generation == before or step.persist, "a new generation is stored before anybody hears of it (R19)"
        if step.persist:
            self.record = decode_record(encode_record(record_of(self.machine, self.record, now_ms=1)), where="test")
        for reply in step.replies:
            kind = self.open.pop(reply.waiter)
            answer = reply.answer
            assert isinstance(answer, JoinAnswer if kind == "join" else SyncAnswer)
            if isinstance(answer, JoinAnswer):
                if answer.member_id and answer.member_id not in self.ids:
                    self.ids.append(answer.member_id)
                if answer.error is ErrorCode.NONE:
                    self.see_generation(answer)

    def see_generation(self, answer: JoinAnswer) -> None:
        assert answer.generation == self.machine.generation
        assert answer.member_id in self.machine.members
        known = self.generations.setdefault(answer.generation, (answer.protocol_name, answer.protocol_type or ""))
        assert known == (answer.protocol_name, answer.protocol_type or ""), "one generation, one protocol"
        assert bool(answer.members) == (answer.leader_id == answer.member_id)

    def play(self, action: tuple[object, ...]) -> None:
        getattr(self, f"do_{action[0]}")(*action[1:])
        self.check()

    def do_join(self, number: int, instance: str | None, required: bool, names: set[str]) -> None:
        before = self.machine.generation
        asked = JoinRequest(
            member_id=self.member(number),
            instance_id=instance,
            client_id="c",
            client_host="h",
            protocol_type="consumer",
            protocols=tuple(Protocol(name=n, metadata=n.encode()) for n in sorted(names)),
            session_timeout_ms=10_000,
            rebalance_timeout_ms=20_000,
            member_id_required=required,
            may_skip_assignment=required,
        )
        self.take(self.machine.join(asked, self.waiter("join"), new_id=f"m{self.waiters}", now_ms=self.now), before)

    def do_sync(self, number: int, complete: bool) -> None:
        member_id = self.member(number)
        member = self.machine.members.get(member_id)
        assignments = tuple((m, b"x") for m in self.machine.members) if complete else ()
        asked = SyncRequest(
            member_id=member_id,
            instance_id=member.instance_id if member else None,
            generation=self.machine.generation,
            protocol_type=None,
            protocol_name=None,
            assignments=assignments,
        )
        self.take(self.machine.sync(asked, self.waiter("sync"), now_ms=self.now), self.machine.generation)

    def do_heartbeat(self, number: int, step: int) -> None:
        code = self.machine.heartbeat(self.member(number), None, self.machine.generation + step, now_ms=self.now)
        assert step == 0 or code is not ErrorCode.NONE

    def do_leave(self, number: int, instance: str | None) -> None:
        before = self.machine.generation
        step, codes = self.machine.leave([Leaver(member_id=self.member(number), instance_id=instance)], now_ms=self.now)
        assert len(codes) == 1
        self.take(step, before)

    def do_commit(self, number: int, step: int) -> None:
        code = self.machine.commit_error(self.member(number), None, self.machine.generation + step, now_ms=self.now)
        if step and self.machine.members:
            assert code is not ErrorCode.NONE, "F80: a stale generation never commits"

    def do_time(self, ms: int) -> None:
        end = self.now + ms
        for _ in range(200):
            deadline = self.machine.next_deadline_ms()
            if deadline is None or deadline > end:
                break
            self.now = max(self.now, deadline)
            before = self.machine.generation
            self.take(self.machine.expire(now_ms=self.now), before)
        else:
            raise AssertionError("expire does not get on")
        self.now = end

    def do_restart(self) -> None:
        """Another broker takes over from the record: nobody's request survives, the stored group does."""
        self.open.clear()
        assert self.record.generation == self.machine.generation
        self.machine = restore(dataclasses.replace(self.record, epoch=self.record.epoch + 1), LIMITS, now_ms=self.now)

    def check(self) -> None:
        machine = self.machine
        assert len(machine.members) <= LIMITS.members_max
        assert (machine.state is GroupState.EMPTY) <= (not machine.members)
        if machine.state in (GroupState.COMPLETING, GroupState.STABLE):
            assert machine.members
            assert machine.leader in machine.members
            assert not any(m.joining for m in machine.members.values())
        if machine.state is GroupState.STABLE:
            assert not any(m.syncing for m in machine.members.values())
        waiting = {m.joining for m in machine.members.values()} | {m.syncing for m in machine.members.values()}
        assert {w for w in waiting if w is not None} == set(self.open)
        for instance, member_id in machine.statics.items():
            assert machine.members[member_id].instance_id == instance
        assert sum(m.is_static for m in machine.members.values()) == len(machine.statics)


@settings(max_examples=300, deadline=None)
@given(actions)
def test_machine_stays_consistent_and_answers_everybody_once(sequence: list[tuple[object, ...]]) -> None:
    judge = Judge()
    for action in sequence:
        judge.play(action)
    for _ in range(8):
        judge.do_time(1_000_000)
        judge.check()
    assert not judge.open, "time alone ends every wait"
    assert judge.machine.state is GroupState.EMPTY, "silent members do not stay"
