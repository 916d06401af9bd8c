"""Buckets as KafScale v0.9 to v1.6 leave them, made by the independent writer: landed to the record, whatever is wrong in them.

Each bucket is drawn by seed, with what it must become beside it: segments with gaps, overlaps and lost indexes, every codec, batches with
offset gaps, transactions that commit, abort or stay open across segments, cut uploads, and other objects beside the segments.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from tests.corpus import independent_writer as independent
from tests.unit.landing.test_landing_kafscale import PATIENCE_MS, Bucket, play

COMMIT, ABORT = b"\0\0\0\x01", b"\0\0\0\0"
AT = 1_600_000_000_000


@dataclass
class Drawn:
    """``objects`` of one partition; ``rows``: the offsets that must land, each the id of its record."""

    objects: dict[str, bytes] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)
    end: int = 0


def records(offsets: list[int]) -> list[tuple[int, bytes | None, bytes, tuple[()]]]:
    return [(AT + offset, None, b'{"id": %d, "pad": "%s"}' % (offset, b"x" * 300), ()) for offset in offsets]


def data_batch(chance: random.Random, base: int, producer: tuple[int, int, int] | None) -> tuple[bytes, list[int], int]:
    """(batch, offsets of its records, offset after it); a batch may have gaps, inside and at its end."""
    deltas, at = [], chance.randrange(3)
    for _ in range(chance.randrange(1, 4)):
        deltas.append(at)
        at += chance.choice([1, 1, 1, 4])
    last = deltas[-1] + chance.choice([0, 0, 5])
    bits = 0 if producer is None else 0x10
    made = independent.batch(
        base, records([base + delta for delta in deltas]), chance.randrange(5), bits, producer or (-1, -1, -1), deltas, last
    )
    return made, [base + delta for delta in deltas], base + last + 1


def draw(seed: int) -> Drawn:
    """One partition. Offsets are decided in log order; a transaction's rows count when it has committed before the first open one."""
    chance = random.Random(seed)
    drawn = Drawn()
    base, floor = chance.choice([0, 0, 41]), 0
    undecided: dict[int, list[int]] = {}
    aborted: set[int] = set()
    seen: list[int] = []
    for number in range(chance.randrange(3, 9)):
        batches: list[bytes] = []
        first = base
        for _ in range(chance.randrange(1, 6)):
            kind = chance.random()
            if kind < 0.2 and undecided:
                producer_id = chance.choice(list(undecided))
                commits = chance.random() < 0.5
                batches.append(independent.batch(base, [(AT, COMMIT if commits else ABORT, bytes(6), ())], 0, 0x30, (producer_id, 1, -1)))
                decided = undecided.pop(producer_id)
                aborted.update([] if commits else decided)
                base += 1
                continue
            producer_id = chance.randrange(1, 4) if kind < 0.5 else 0
            made, offsets, base = data_batch(chance, base, (producer_id, 0, 0) if producer_id else None)
            if producer_id:
                undecided.setdefault(producer_id, []).extend(offsets)
            batches.append(made)
            seen += [offset for offset in offsets if offset >= floor]
        kfs, index = independent.segment(batches, AT + number)
        stem = f"segments/events/0/segment-{first:020d}"
        drawn.objects[f"{stem}.kfs"] = kfs
        if number == 0 or chance.random() < 0.7:
            drawn.objects[f"{stem}.index"] = index
        floor = drawn.end = base
        if chance.random() < 0.2:  # a stale owner's copy of offsets that are taken: shorter, so the first writer's count
            if base - 1 > first:
                stale, stale_index = independent.segment([independent.batch(base - 1, records([base - 1]))], AT)
                drawn.objects[f"segments/events/0/segment-{base - 1:020d}.kfs"] = stale
                drawn.objects[f"segments/events/0/segment-{base - 1:020d}.index"] = stale_index
        if chance.random() < 0.2:
            base += chance.randrange(1, 9)  # acknowledged and lost, or never written
    last = f"segments/events/0/segment-{max(int(key[-24:-4]) for key in drawn.objects if key.endswith('.kfs')):020d}"
    for done in (last, stem):  # where nothing begins behind it, a segment is done when it has an index, good or not
        drawn.objects.setdefault(f"{done}.index", b"IDX\0broken")
    open_from = min((offsets[0] for offsets in undecided.values()), default=2**63)
    drawn.rows = sorted(offset for offset in seen if offset < open_from and offset not in aborted)
    beside = {
        f"segments/events/0/segment-{base + 100:020d}.kfs": next(iter(drawn.objects.values()))[:-2],  # an upload that was cut
        "segments/events/0/segment-00000000000000000000.kfst": bytes(40),
        "segments/events/lfs/2026/01/02/obj-1": b"a large file",
        "segments/events/0/notes.txt": b"",
        "segments/manifest.json": b"[]",
        "__health/startup_probe_1": b"kafscale-startup-probe",
        "segments/eventsmore/0/segment-00000000000000000000.kfs": next(iter(drawn.objects.values())),
    }
    drawn.objects.update(beside)
    return drawn


@pytest.mark.parametrize("seed", range(14))
def test_a_drawn_bucket_lands_exactly(seed: int) -> None:
    drawn = draw(seed)

    async def story(bucket: Bucket) -> None:
        for key, data in drawn.objects.items():
            await bucket.objects.put_if_absent(key, data)
        await bucket.land(PATIENCE_MS / 1000 + 10)  # what is missing between segments is waited for before it is given up
        await bucket.land(3.0)
        assert await bucket.ids() == drawn.rows

    if drawn.rows:
        play(story)


def test_the_drawn_buckets_have_everything_in_them() -> None:
    drawn = [draw(seed) for seed in range(40)]
    assert sum(len(one.rows) > 5 for one in drawn) > 25
    assert any(len(one.rows) == 0 or one.rows[-1] < one.end - 5 for one in drawn)  # stopped by an open transaction
