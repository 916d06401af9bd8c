"""Which bytes a slice asks for: bounded, fair, from the right offset, and losses are named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from frazil.kit.errors import Refused
from frazil.kit.names import PartitionId, PartitionKey, TopicId
from frazil.landing.plan import Budget, Loss, PartitionState, check_ends, plan_slice
from frazil.log.refs import Bounds

MIB = 1024 * 1024


def key(partition: int, topic: int = 1) -> PartitionKey:
    return PartitionKey(TopicId(bytes([topic]) * 16), PartitionId(partition))


def state(partition: int, next_offset: int | None, start: int, end: int, topic: int = 1) -> PartitionState:
    return PartitionState(key=key(partition, topic), topic=f"t{topic}", next_offset=next_offset, bounds=Bounds(start=start, end=end))


def test_nothing_new_means_nothing_to_read() -> None:
    plan = plan_slice([state(0, 10, 0, 10), state(1, None, 0, 0)], Budget(bytes_max=MIB))
    assert plan.wants == ()
    assert plan.lag_records == 0


def test_f09_a_partition_without_progress_starts_at_the_log_start_never_at_its_end() -> None:
    plan = plan_slice([state(0, None, 7, 100)], Budget(bytes_max=MIB))
    assert [(want.key, want.offset) for want in plan.wants] == [(key(0), 7)]
    assert plan.losses == ()


def test_f10_progress_below_the_log_start_is_a_named_loss_and_reading_goes_on_at_the_start() -> None:
    plan = plan_slice([state(0, 0, 500, 1000)], Budget(bytes_max=MIB))
    assert plan.losses == (Loss(key=key(0), topic="t1", first=0, end=500),)
    assert plan.wants[0].offset == 500


def test_f10_a_loss_up_to_the_log_end_is_still_named() -> None:
    plan = plan_slice([state(0, 3, 9, 9)], Budget(bytes_max=MIB))
    assert plan.wants == ()
    assert plan.losses == (Loss(key=key(0), topic="t1", first=3, end=9),)


def test_r22_a_lost_range_is_a_named_loss_and_reading_goes_on_behind_it() -> None:
    found = replace(state(0, 230, 0, 300), lost_to=250)
    plan = plan_slice([found], Budget(bytes_max=MIB))
    assert plan.losses == (Loss(key=key(0), topic="t1", first=230, end=250),)
    assert plan.wants[0].offset == 250
    assert plan.lag_records == 50
    plan = plan_slice([replace(state(0, None, 0, 250), lost_to=250)], Budget(bytes_max=MIB))
    assert (plan.wants, plan.losses) == ((), (Loss(key=key(0), topic="t1", first=0, end=250),))


def test_progress_beyond_the_log_end_is_refused_with_the_partition_named() -> None:
    with pytest.raises(Refused, match=r"t1\[3\].*beyond the log end 40"):
        check_ends([state(3, 50, 0, 40)])


def test_budget_bounds_the_sum_and_a_quiet_partition_keeps_a_fair_share() -> None:
    plan = plan_slice([state(0, 0, 0, 1_000_000), state(1, 0, 0, 3)], Budget(bytes_max=8 * MIB, want_bytes_min=1024))
    asked = {want.key.partition: want.bytes_max for want in plan.wants}
    assert sum(asked.values()) <= 8 * MIB
    assert asked[0] > 5 * MIB
    assert asked[1] >= 2 * MIB


def test_f30_more_partitions_than_budget_are_all_served_in_turn() -> None:
    states = [state(number, 0, 0, 10) for number in range(10)]
    budget = Budget(bytes_max=3 * 1024, want_bytes_min=1024)
    seen: list[int] = []
    after = None
    for _ in range(4):
        plan = plan_slice(states, budget, after=after)
        assert len(plan.wants) == 3
        seen += [want.key.partition for want in plan.wants]
        after = plan.wants[-1].key
    assert set(seen) == set(range(10))


def test_plan_does_not_depend_on_the_order_of_states() -> None:
    states = [state(number, 0, 0, 10 + number) for number in range(5)]
    assert plan_slice(states, Budget(bytes_max=MIB)) == plan_slice(states[::-1], Budget(bytes_max=MIB))
