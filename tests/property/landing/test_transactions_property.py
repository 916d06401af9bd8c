"""Transactions land like a read_committed consumer reads them, however the log is cut into slices (F20, R21).

The reference is not a reader: the log is generated with the outcome of every transaction beside it.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import islice

import pytest

from frazil.kit.names import PartitionId, PartitionKey, TopicId
from frazil.landing.decode import Limits, Read, decode_slices
from frazil.landing.isolation import Isolation
from frazil.landing.plan import Budget, PartitionState, plan_slice
from frazil.log.refs import Bounds, Slice
from frazil.metadata.landings import LandingSpec
from frazil.records import build_batch, transactions
from frazil.records.building import BatchOptions, Record
from frazil.records.codecs import Codec

KEY = PartitionKey(TopicId(b"t" * 16), PartitionId(0))


def marker(base: int, producer_id: int, epoch: int, *, commits: bool, sequence: int = -1) -> bytes:
    """``sequence``: brokers write -1; our appender, which has no transactions yet, takes a second batch without one for a copy."""
    record = Record(key=b"\0\0\0\1" if commits else b"\0\0\0\0", value=b"\0\0\0\0\0\0")
    options = BatchOptions(
        base_offset=base, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True, control=True
    )
    return bytes(build_batch([record], options=options))


@dataclass
class Log:
    """Batches, and for each offset that is a record: the transaction it is of (None: none), whose outcome is in ``outcomes``."""

    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    owner: dict[int, int | None] = field(default_factory=dict)
    outcomes: dict[int, bool | None] = field(default_factory=dict)
    end: int = 0

    def add(self, data: bytes, count: int) -> None:
        self.batches.append((self.end, self.end + count, data))
        self.end += count

    def visible(self, end: int) -> list[int]:
        """What a consumer that reads committed records only may have seen of a log cut at ``end``: decided by then, in order."""
        wanted = []
        for offset in sorted(offset for offset in self.owner if offset < end):
            transaction = self.owner[offset]
            outcome = True if transaction is None else self.outcomes.get(transaction)
            if outcome is None:
                break
            if outcome:
                wanted.append(offset)
        return wanted


def grow(log: Log, chance: random.Random, steps: int, open_by: dict[int, tuple[int, int]]) -> None:
    """``open_by``: producer id → (epoch, transaction number) of what is open."""
    for _ in range(steps):
        producer_id = chance.randrange(1, 6)
        kind = chance.random()
        if kind < 0.25:
            count = chance.randrange(1, 4)
            plain = BatchOptions(base_offset=log.end, codec=chance.choice(list(Codec)))
            log.owner.update(dict.fromkeys(range(log.end, log.end + count)))
            log.add(bytes(build_batch([Record(value=b"plain")] * count, options=plain)), count)
        elif kind < 0.75 or producer_id not in open_by:
            epoch, number = open_by.setdefault(producer_id, (chance.randrange(3) + 4 * len(log.outcomes), len(log.outcomes)))
            log.outcomes.setdefault(number, None)
            count = chance.randrange(1, 5)
            options = BatchOptions(base_offset=log.end, producer_id=producer_id, producer_epoch=epoch, transactional=True, base_sequence=0)
            log.owner.update(dict.fromkeys(range(log.end, log.end + count), number))
            log.add(bytes(build_batch([Record(value=b"in")] * count, options=options)), count)
        else:
            epoch, number = open_by[producer_id]
            if chance.random() < 0.15 and epoch > 0:  # a zombie's marker, of an epoch that is over
                log.add(marker(log.end, producer_id, epoch - 1, commits=chance.random() < 0.5), 1)
                continue
            del open_by[producer_id]
            log.outcomes[number] = chance.random() < 0.6
            log.add(marker(log.end, producer_id, epoch + chance.randrange(2), commits=bool(log.outcomes[number])), 1)


class Landed:
    """The part of a pipeline that matters here: plan, read so many bytes, decode, remember."""

    def __init__(self, log: Log, chance: random.Random, budgets: tuple[int, ...] = (1, 300, 2_000, 100_000)) -> None:
        self.log, self.chance, self.budgets = log, chance, budgets
        self.isolation = Isolation(LandingSpec(table="n.t", topics=("t",)), patience_ms=0)
        self.offset = 0
        self.rows: list[int] = []

    def run(self) -> None:
        """Until nothing more can be done with the log as it is."""
        for _ in range(10_000):
            state = PartitionState(key=KEY, topic="t", next_offset=self.offset, bounds=Bounds(start=0, end=self.log.end))
            budget = Budget(bytes_max=self.chance.choice(self.budgets), want_bytes_min=1)
            plan = plan_slice([state], budget, ahead=self.isolation.ahead([state]))
            if not plan.wants:
                return
            want = plan.wants[0]
            first = bisect_right(self.log.batches, want.offset, key=lambda batch: batch[1])
            taken, size = [], 0
            for batch in islice(self.log.batches, first, None):
                if taken and size + len(batch[2]) > want.bytes_max:
                    break
                taken.append(batch)
                size += len(batch[2])
            slice_ = Slice(key=KEY, base=taken[0][0], end=taken[-1][1], data=b"".join(data for _, _, data in taken), bounds=state.bounds)
            limits = Limits(
                rows_max=self.chance.choice([1, 5, 1_000]), bytes_max=1 << 20, batch_bytes_max=1 << 20, held=self.isolation.held
            )
            decoded = decode_slices([Read(slice=slice_, topic="t", start=want.offset)], limits)
            assert not decoded.bad_batches and not decoded.bad_partitions
            self.isolation.learn(decoded.held, 0)
            self.rows += decoded.rows.records.column("offset").to_pylist()
            for done in decoded.consumed:
                assert done.first == self.offset and done.end > self.offset
                self.offset = done.end
            if self.chance.random() < 0.05:  # a new process remembers nothing
                self.isolation = Isolation(LandingSpec(table="n.t", topics=("t",)), patience_ms=0)
        raise AssertionError("it never comes to rest")


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("markers_max", [3, 16_384])
def test_f20_only_committed_records_land_and_each_once(seed: int, markers_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "MARKERS_MAX", markers_max)
    chance = random.Random(seed)
    log = Log()
    open_by: dict[int, tuple[int, int]] = {}
    landed = Landed(log, chance)
    for _ in range(chance.randrange(1, 6)):
        grow(log, chance, chance.randrange(1, 60), open_by)
        landed.run()
        assert landed.rows == log.visible(log.end)
        assert all(sum(map(len, held.markers.values())) <= markers_max + len(log.batches) for held in landed.isolation.held.values())
    for producer_id, (epoch, number) in list(open_by.items()):
        log.outcomes[number] = True
        log.add(marker(log.end, producer_id, epoch, commits=True), 1)
    landed.run()
    assert landed.rows == log.visible(log.end)
    assert landed.offset == log.end  # markers are passed: no lag is left (F11)


def test_f20_what_is_remembered_of_an_open_transaction_is_bounded() -> None:
    log = Log()
    log.owner[0] = 0
    log.outcomes[0] = None
    log.add(bytes(build_batch([Record(value=b"x")], options=BatchOptions(producer_id=9, producer_epoch=0, transactional=True))), 1)
    for number in range(3 * transactions.MARKERS_MAX):
        log.add(marker(log.end, 10_000 + number, 0, commits=True), 1)
    landed = Landed(log, random.Random(1), budgets=(100_000,))
    landed.run()
    (held,) = landed.isolation.held.values()
    assert not held.decided and held.looked_to == log.end
    assert sum(map(len, held.markers.values())) <= transactions.MARKERS_MAX
    log.outcomes[0] = True
    log.add(marker(log.end, 9, 1, commits=True), 1)
    landed.run()
    assert landed.rows == [0] and landed.offset == log.end
