"""The one flow that every client goes through, and how it is judged.

Record ``i`` goes to partition ``i % partitions`` with the value ``i`` padded to 100 bytes, so that per partition the right
content is known: ``p, p + partitions, …``, each number once, rising.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tests.faults import readers

STEPS = ("create", "produce", "group consume", "commit", "resume")
_PAD = b"." * 90


@dataclass(frozen=True)
class Plan:
    """What one client is asked to do."""

    bootstrap: str
    topic: str
    group: str
    records: int = 20_000
    partitions: int = 4

    @property
    def first_part(self) -> int:
        """Records the first session of the group takes at least before it commits and leaves."""
        return self.records * 2 // 5

    def numbers(self) -> Iterator[tuple[int, bytes]]:
        """(partition, value) of every record in order."""
        for number in range(self.records):
            yield number % self.partitions, b"%010d" % number + _PAD


@dataclass
class Outcome:
    """What a client has done: seconds and counts by step."""

    client: str
    steps: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    produced: int = 0
    first_session: int = 0
    second_session: int = 0
    lost: int = 0
    doubled: int = 0
    disordered: int = 0

    @property
    def good(self) -> bool:
        return all(self.steps.get(step, "").startswith("ok") for step in STEPS)


@dataclass(frozen=True)
class Client:
    """A client by its four verbs. ``consume`` reads as a member of the group until ``enough`` records were seen (or nothing more
    comes), commits exactly what it has read, leaves, and returns (partition, value) in the order read."""

    name: str
    create: Callable[[Plan], None]
    produce: Callable[[Plan], int]
    consume: Callable[[Plan, int], list[tuple[int, bytes]]]
    committed: Callable[[Plan], int]
    """Sum of the offsets committed by the group."""


def run(client: Client, plan: Plan, outcome: Outcome) -> None:
    """Takes ``client`` through every step. Raises AssertionError where a record is lost, doubled or out of order."""
    began = time.monotonic()
    client.create(plan)
    outcome.steps["create"] = "ok"
    mark = time.monotonic()
    outcome.produced = client.produce(plan)
    assert outcome.produced == plan.records, f"{client.name}: {outcome.produced} of {plan.records} acknowledged"
    outcome.steps["produce"] = f"ok {outcome.produced} in {time.monotonic() - mark:.1f} s"
    mark = time.monotonic()
    first = client.consume(plan, plan.first_part)
    outcome.first_session = len(first)
    assert len(first) >= plan.first_part, f"{client.name}: the first session read {len(first)} of at least {plan.first_part}"
    outcome.steps["group consume"] = f"ok {len(first)} in {time.monotonic() - mark:.1f} s"
    committed = client.committed(plan)
    assert committed == len(first), f"{client.name}: committed {committed}, read {len(first)}"
    outcome.steps["commit"] = f"ok {committed}"
    mark = time.monotonic()
    second = client.consume(plan, plan.records - len(first))
    outcome.second_session = len(second)
    judge([*first, *second], plan, outcome)
    assert client.committed(plan) == plan.records
    outcome.steps["resume"] = f"ok {len(second)} in {time.monotonic() - mark:.1f} s"
    judge_log(plan)
    outcome.seconds = time.monotonic() - began


def judge(read: Iterable[tuple[int, bytes]], plan: Plan, outcome: Outcome) -> None:
    """None lost, none doubled, in order."""
    lanes: dict[int, list[int]] = {partition: [] for partition in range(plan.partitions)}
    for partition, value in read:
        lanes[partition].append(int(value[:10]))
    for partition, got in lanes.items():
        want = range(partition, plan.records, plan.partitions)
        outcome.lost += len(set(want) - set(got))
        outcome.doubled += len(got) - len(set(got))
        outcome.disordered += sum(a >= b for a, b in itertools.pairwise(got))
    assert (outcome.lost, outcome.doubled, outcome.disordered) == (0, 0, 0), (
        f"{outcome.client}: {outcome.lost} lost, {outcome.doubled} doubled, {outcome.disordered} out of order"
    )


def judge_log(plan: Plan) -> None:
    """Whoever produced: librdkafka reads the log and finds the plan's records and nothing else."""
    content = readers.read_log(plan.bootstrap, plan.topic)
    got = [value for _, value in sorted(content.values.items())]
    want = [value for _, value in sorted(plan.numbers(), key=lambda record: record[0])]
    assert got == want, f"{plan.topic}: the log holds {len(got)} records, not the {len(want)} produced"
