"""Packed metadata values: what is written is read back; damage is Corrupt and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.kit.chance import ulid_text
from frazil.kit.errors import Corrupt
from frazil.kit.names import PartitionId, PartitionKey, TopicId
from frazil.log.commitrecord import CommitRecord, Delta, Row, Section, decode_commit, encode_commit
from frazil.log.condemned import Condemned, decode_condemned, encode_condemned
from frazil.log.head import HeadMark, decode_head, encode_head, head_bytes
from frazil.log.partitions import Segment
from frazil.log.producers import (
    CHECKPOINT_BYTES_MAX,
    SEQUENCES,
    ProducerState,
    Seen,
    Verdict,
    after,
    decode_checkpoint,
    encode_checkpoint,
    judge,
    last_sequence,
)  # fmt: skip
from frazil.log.sealrecords import (
    PartitionRecord,
    SealPlan,
    decode_partition,
    decode_plan,
    decode_segment,
    encode_partition,
    encode_plan,
    encode_segment,
)  # fmt: skip

u32 = st.integers(0, 2**32 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
offsets = st.integers(0, 2**62)
partitions = st.integers(0, 2**31 - 1)
topics = st.binary(min_size=16, max_size=16).map(TopicId)
rows = st.builds(Row, topics, partitions, offsets, u32, u32, u32, i64, i64, u32)
sequences = st.integers(0, 2**31 - 1)


@st.composite
def sections(draw: Any) -> Section:
    found = draw(st.lists(rows, min_size=1, max_size=8))
    deltas = st.builds(Delta, st.integers(0, len(found) - 1), i64, st.integers(0, 2**15 - 1), sequences, sequences, offsets)
    return Section(shard=draw(st.integers(0, 63)), version=draw(offsets), rows=found, deltas=draw(st.lists(deltas, max_size=8)))


records = st.builds(
    CommitRecord,
    ulid=st.integers(0, 2**128 - 1).map(ulid_text),
    chunk=st.integers(0, 9999),
    created_ms=i64,
    bundle_bytes=offsets,
    sections=st.lists(sections(), min_size=1, max_size=5).map(tuple),
)
heads = st.dictionaries(topics, st.dictionaries(partitions, offsets, min_size=1, max_size=5), max_size=4)


@given(records)
def test_commit_record_round_trip(record: CommitRecord) -> None:
    assert decode_commit(encode_commit(record), where="") == record


@given(heads, offsets, u32)
def test_head_round_trip(nexts: Any, version: int, removals: int) -> None:
    mark = HeadMark(version=version, removals=removals)
    value = encode_head(mark, nexts)
    assert decode_head(value, where="") == (mark, nexts)
    assert len(value) == head_bytes(nexts)


@given(
    st.lists(
        st.tuples(topics, partitions, i64, st.integers(0, 99), st.lists(st.tuples(sequences, sequences, offsets), min_size=1, max_size=5)),
        max_size=9,
    )
)
def test_checkpoint_round_trip(found: Any) -> None:
    states = {
        (PartitionKey(t, PartitionId(p)), pid): ProducerState(epoch, 1000, tuple(Seen(*s) for s in seen))
        for t, p, pid, epoch, seen in found
    }
    value = encode_checkpoint(7, [(key, pid, state) for (key, pid), state in states.items()], now_ms=2000)
    read = decode_checkpoint(value, where="")
    assert read.version == 7
    assert {(key, pid): (s.epoch, s.last_ms, s.batches) for key, pid, s in read.states} == {
        place: (s.epoch, s.last_ms, s.batches) for place, s in states.items()
    }


def test_checkpoint_always_fits_and_keeps_the_busiest() -> None:
    import random

    rng = random.Random(1)
    states = []
    for n in range(12_000):
        seen = tuple(Seen(rng.getrandbits(31), rng.getrandbits(31), rng.getrandbits(62)) for _ in range(5))
        place = PartitionKey(TopicId(rng.randbytes(16)), PartitionId(n))
        states.append((place, rng.getrandbits(60), ProducerState(rng.getrandbits(15), 10**6 + n, seen)))
    value = encode_checkpoint(1, states, now_ms=10**6)
    assert len(value) <= CHECKPOINT_BYTES_MAX + 16
    kept = decode_checkpoint(value, where="").states
    assert max(s.last_ms for _, _, s in kept) == 10**6 + 11_999
    assert len(kept) >= 4000


ZERO = TopicId(bytes(16))
SECTION = Section(shard=1, version=2, rows=[Row(ZERO, 0, 0, 1, 0, 70, 0, 0, 1)] * 9, deltas=[Delta(0, 1, 0, 0, 0, 0)])
COMMIT = CommitRecord(ulid=ulid_text(5), chunk=0, created_ms=1, bundle_bytes=9, sections=(SECTION,))
STATE = (PartitionKey(ZERO, PartitionId(0)), 1, ProducerState(0, 9, (Seen(0, 0, 0),)))
DAMAGED: list[tuple[Callable[..., Any], bytes]] = [
    (decode_head, encode_head(HeadMark(version=3, removals=1), {ZERO: {0: 5, 9: 7}})),
    (decode_commit, encode_commit(COMMIT)),
    (decode_checkpoint, encode_checkpoint(1, [STATE], now_ms=9)),
    (decode_partition, encode_partition(PartitionRecord(log_start=1, sealed_to=2))),
    (decode_plan, encode_plan(SealPlan(base=1, ends=(2, 5), created_ms=3))),
    (decode_segment, encode_segment(Segment(0, 1, "k", 2, 3, 4, 5, 6, 7, 8))),
    (decode_condemned, encode_condemned(Condemned(since_ms=1, bundles=("a",), objects=("b",)))),
]


@pytest.mark.parametrize(("decode", "value"), DAMAGED, ids=[decode.__name__ for decode, _ in DAMAGED])
@settings(max_examples=150)
@given(data=st.data())
def test_damage_is_corrupt_and_nothing_else(decode: Callable[..., Any], value: bytes, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(value)))
    flip = data.draw(st.integers(0, len(value) - 1))
    damaged = bytearray(value)
    damaged[flip] ^= data.draw(st.integers(1, 255))
    for broken in (value[:cut], bytes(damaged)):
        try:
            decode(broken, where="here")
        except Corrupt as error:
            assert error.where == "here"


@given(st.integers(0, SEQUENCES - 1), st.lists(st.integers(1, 1000), min_size=1, max_size=20))
def test_sequences_in_order_are_accepted_and_recent_ones_recognised(first: int, counts: list[int]) -> None:
    state: ProducerState | None = None
    sent = []
    for at, count in enumerate(counts):
        last = last_sequence(first, count)
        assert judge(state, 0, first, last) == (Verdict.ACCEPT, -1)
        state = after(state, 0, Seen(first, last, at), 0)
        sent.append((first, last, at))
        for age, (f, la, base) in enumerate(reversed(sent)):
            expected = (Verdict.DUPLICATE, base) if age < 5 else (Verdict.FORGOTTEN, -1)
            assert judge(state, 0, f, la) == expected
        first = (last + 1) % SEQUENCES
        assert judge(state, 0, (first + 1) % SEQUENCES, (first + 1) % SEQUENCES)[0] is Verdict.GAP
