"""Consumer groups under change: members come, go and are killed, the broker is killed, a producer goes on all the while."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator

import confluent_kafka
import pytest
from tests.compat import mixed
from tests.compat.clients import librdkafka
from tests.compat.flow import Plan
from tests.compat.process import Processes
from tests.faults import readers

pytestmark = [pytest.mark.server, pytest.mark.slow]
PARTITIONS = 6
MEMBER = pathlib.Path(__file__).parent / "member.py"


@pytest.fixture
def broker(tmp_path: pathlib.Path) -> Iterator[Processes]:
    with Processes(tmp_path) as processes:
        processes.start("broker")
        yield processes
        assert "Traceback" not in processes.log("broker"), processes.log("broker")[-6000:]


class Stream:
    """An idempotent producer on a thread; numbers rise per partition."""

    def __init__(self, plan: Plan, *, per_second: int = 2000) -> None:
        self.plan = plan
        self.acknowledged = 0
        self.sent = 0
        self.failures: list[str] = []
        self._pause = 0.01
        self._burst = max(1, int(per_second * self._pause))
        self._stop = threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": plan.bootstrap, "enable.idempotence": True, "linger.ms": 2, "message.timeout.ms": 60000,
                "reconnect.backoff.max.ms": 200, "log_level": 0,
            }
        )  # fmt: skip
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._pause):
            for _ in range(self._burst):
                partition = self.sent % self.plan.partitions
                self._producer.produce(self.plan.topic, b"%010d" % self.sent, partition=partition, on_delivery=self._done)
                self.sent += 1
            self._producer.poll(0)

    def _done(self, error: confluent_kafka.KafkaError | None, _: confluent_kafka.Message) -> None:
        if error is not None:
            self.failures.append(str(error))
        else:
            self.acknowledged += 1

    def finish(self) -> int:
        """Stops and settles; the number of records sent, all acknowledged."""
        self._stop.set()
        self._thread.join(30)
        assert self._producer.flush(60) == 0
        assert not self.failures, self.failures[:3]
        assert self.acknowledged == self.sent
        return self.sent


class Members:
    """Consumer processes of one group; each prints what it read before it commits it."""

    def __init__(self, plan: Plan, folder: pathlib.Path) -> None:
        self.plan = plan
        self.folder = folder
        self.all: list[subprocess.Popen[bytes]] = []

    def join(self, **settings: str) -> subprocess.Popen[bytes]:
        path = self.folder / f"member-{len(self.all)}.txt"
        arguments = [self.plan.bootstrap, self.plan.topic, self.plan.group, str(path), json.dumps(settings)]
        self.all.append(subprocess.Popen([sys.executable, str(MEMBER), *arguments]))
        return self.all[-1]

    def close(self) -> None:
        for process in self.all:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.all:
            process.wait(30)

    def lines(self) -> list[list[str]]:
        return [path.read_text().splitlines() for path in sorted(self.folder.glob("member-*.txt"))]

    def read(self) -> Counter[int]:
        """How often each number was read by any member."""
        return Counter(int(line.split()[2]) for lines in self.lines() for line in lines if line.startswith("read "))

    def await_numbers(self, count: int, *, within_s: float = 60) -> Counter[int]:
        """Waits until numbers 0 … count-1 were all read."""
        end = time.monotonic() + within_s
        while len(seen := self.read()) < count and time.monotonic() < end:
            time.sleep(0.2)
        assert not (lost := sorted(set(range(count)) - set(seen))), f"{len(lost)} of {count} never read, first {lost[:5]}"
        return seen

    def await_assigned(self, members: int, *, within_s: float = 30) -> None:
        """Waits until ``members`` living members share all partitions."""
        end = time.monotonic() + within_s
        shares: list[list[int]] = []
        while time.monotonic() < end:
            living = [lines for process, lines in zip(self.all, self.lines(), strict=False) if process.poll() is None]
            last = [next((line for line in reversed(lines) if line.startswith("assigned")), "assigned") for lines in living]
            shares = [[int(word) for word in line.split()[1:]] for line in last]
            if len(shares) == members and all(shares) and sorted(p for share in shares for p in share) == list(range(self.plan.partitions)):
                return
            time.sleep(0.1)
        raise AssertionError(f"{members} members do not share {self.plan.partitions} partitions within {within_s} s: {shares}")


@pytest.fixture
def plan(broker: Processes) -> Plan:
    made = Plan(broker.bootstrap, "stream", "watchers", partitions=PARTITIONS)
    librdkafka.create(made)
    return made


def settle(plan: Plan, sent: int) -> None:
    """The log holds every number once and in order; the group has committed all of them."""
    content = readers.read_log(plan.bootstrap, plan.topic)
    for partition in range(plan.partitions):
        lane = [int(value) for (p, _), value in sorted(content.values.items()) if p == partition]
        want = list(range(partition, sent, plan.partitions))
        assert lane == want, f"partition {partition} holds {len(lane)} records, not {len(want)}, each once and in order"
    assert librdkafka.committed(plan) == sent


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_members_come_and_go_while_producing(plan: Plan, tmp_path: pathlib.Path, strategy: str):
    members = Members(plan, tmp_path)
    stream = Stream(plan)
    try:
        for count in (1, 2, 3):
            members.join(**{"partition.assignment.strategy": strategy})
            members.await_assigned(count)
        members.all[1].send_signal(signal.SIGTERM)
        members.all[1].wait(20)
        members.await_assigned(2)
        sent = stream.finish()
        seen = members.await_numbers(sent)
    finally:
        members.close()
    # A clean hand-over commits before it gives a partition away: nothing is read twice.
    assert {n for n, times in seen.items() if times > 1} == set()
    settle(plan, sent)


def test_a_killed_consumer_is_replaced_and_only_its_uncommitted_records_come_again(plan: Plan, tmp_path: pathlib.Path):
    members = Members(plan, tmp_path)
    stream = Stream(plan)
    try:
        for _ in range(3):
            members.join(**{"session.timeout.ms": "6000"})
        members.await_assigned(3)
        time.sleep(1)
        members.all[0].kill()
        members.await_assigned(2, within_s=20)
        sent = stream.finish()
        seen = members.await_numbers(sent)
    finally:
        members.close()
    assert max(seen.values()) <= 2
    assert sum(times > 1 for times in seen.values()) < 2000, "far more than one uncommitted poll came again"
    settle(plan, sent)


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_restarted_broker_forgets_nothing(broker: Processes, plan: Plan, tmp_path: pathlib.Path, how: str):
    """Three times in the middle: the idempotent producer loses and doubles nothing, consumers go on from their commits."""
    members = Members(plan, tmp_path)
    stream = Stream(plan)
    try:
        members.join()
        members.join()
        members.await_assigned(2)
        for _ in range(3):
            time.sleep(1.5)
            if how == "kill":
                broker.kill("broker")
            else:
                assert broker.stop("broker") == 0
            broker.start("broker")
        time.sleep(1)
        sent = stream.finish()
        seen = members.await_numbers(sent)
    finally:
        members.close()
    assert sum(times > 1 for times in seen.values()) < 6000, "commits were forgotten"
    settle(plan, sent)


def test_static_members_keep_their_share_over_a_restart(plan: Plan, tmp_path: pathlib.Path):
    members = Members(plan, tmp_path)
    stream = Stream(plan, per_second=500)
    try:
        for name in ("a", "b"):
            members.join(**{"group.instance.id": name, "session.timeout.ms": "20000"})
        members.await_assigned(2)
        before = [line for line in members.lines()[1] if line.startswith("assigned")]
        share = [line for line in members.lines()[0] if line.startswith("assigned")][-1]
        members.all[0].kill()
        members.all[0].wait()
        members.join(**{"group.instance.id": "a", "session.timeout.ms": "20000"})
        end = time.monotonic() + 15
        while not (again := [line for line in members.lines()[2:3] for line in line if line.startswith("assigned")]):
            assert time.monotonic() < end, "the member that came back got no partitions within 15 s"
            time.sleep(0.1)
        assert again[-1] == share, "KIP-345: the same partitions as before"
        assert [line for line in members.lines()[1] if line.startswith("assigned")] == before, "the other member was not disturbed"
        sent = stream.finish()
        members.await_numbers(sent)
    finally:
        members.close()
    settle(plan, sent)


def test_clients_of_three_kinds_share_a_group(plan: Plan, tmp_path: pathlib.Path):
    """librdkafka, kafka-python and aiokafka in one group with the range assignor: each record goes to exactly one of them."""
    stream = Stream(plan)
    readers_ = [mixed.KafkaPythonMember(plan), mixed.AiokafkaMember(plan)]
    members = Members(plan, tmp_path)
    try:
        members.join(**{"partition.assignment.strategy": "range"})
        for reader in readers_:
            reader.start()
        end = time.monotonic() + 30
        while not (all(len(reader.share) == 2 for reader in readers_) and last_share(members) == 2):
            assert time.monotonic() < end, [reader.share for reader in readers_]
            time.sleep(0.1)
        time.sleep(1)
        sent = stream.finish()
        end = time.monotonic() + 30
        while len(seen := members.read() + sum((Counter(reader.numbers) for reader in readers_), Counter())) < sent:
            assert time.monotonic() < end, f"{len(seen)} of {sent} read"
            time.sleep(0.2)
    finally:
        for reader in readers_:
            reader.stop()
        members.close()
    assert all(reader.numbers for reader in readers_)
    assert sum(times > 1 for times in seen.values()) < 2000
    settle(plan, sent)


def last_share(members: Members) -> int:
    lines = [line for line in members.lines()[0] if line.startswith("assigned")]
    return len(lines[-1].split()) - 1 if lines else 0
