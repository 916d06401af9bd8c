"""Key grammar: what is written is parsed back, and nothing leaves its prefix."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from frazil.kit.chance import UlidSource
from frazil.kit.errors import Refused
from frazil.segments.keys import SegmentKey, bundle_key, bundle_ulid, parse_segment_key

ULID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def key(**changes: object) -> SegmentKey:
    fields: dict[str, object] = {"namespace": "default", "topic": "orders", "incarnation": 1, "partition": 3, "base_offset": 41}
    return SegmentKey(**(fields | changes))  # type: ignore[arg-type]


def test_the_public_keys() -> None:
    assert key().kfs() == "default/orders/3/segment-00000000000000000041.kfs"
    assert key().index() == "default/orders/3/segment-00000000000000000041.index"
    assert key().sidecar() == "default/orders/3/segment-00000000000000000041.fzx"
    assert key(base_offset=2**63 - 1).kfs().endswith("/segment-09223372036854775807.kfs")


def test_r05_a_later_incarnation_has_a_path_of_its_own() -> None:
    assert key(incarnation=2).kfs() == "default/orders!2/3/segment-00000000000000000041.kfs"
    assert parse_segment_key(key(incarnation=2).kfs()) == key(incarnation=2)
    assert len({key(incarnation=k).kfs() for k in range(1, 20)}) == 19


@pytest.mark.parametrize(
    "changes",
    [
        {"topic": "../team-b/orders"},
        {"topic": ".."},
        {"topic": "."},
        {"topic": ""},
        {"topic": "a/b"},
        {"topic": "orders!2"},
        {"topic": "x" * 250},
        {"topic": "größe"},
        {"namespace": ""},
        {"namespace": ".."},
        {"namespace": "a/b"},
        {"namespace": "bundles"},
        {"namespace": "compacted"},
        {"incarnation": 0},
        {"partition": -1},
        {"partition": 2**31},
        {"base_offset": -1},
        {"base_offset": 2**63},
    ],
)
def test_names_and_numbers_without_a_key_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(Refused):
        key(**changes)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "default/orders/3/segment-00000000000000000041.index",
        "default/orders/3/segment-00000000000000000041.fzx",
        "default/orders/3/segment-41.kfs",
        "default/orders/3/segment-0000000000000000004x.kfs",
        "default/orders/03/segment-00000000000000000041.kfs",
        "default/orders/-1/segment-00000000000000000041.kfs",
        "default/orders!1/3/segment-00000000000000000041.kfs",
        "default/orders!0/3/segment-00000000000000000041.kfs",
        "default/orders!02/3/segment-00000000000000000041.kfs",
        "default/orders!/3/segment-00000000000000000041.kfs",
        "default/orders/2147483648/segment-00000000000000000041.kfs",
        "default/orders/3/segment-99999999999999999999.kfs",
        "default/../3/segment-00000000000000000041.kfs",
        "bundles/orders/3/segment-00000000000000000041.kfs",
        "a/default/orders/3/segment-00000000000000000041.kfs",
        "default/orders/lfs/2026/01/01/obj-x",
        "default/orders/3/segment-٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٤١.kfs",
        "default/orders/3/segment-00000000000000000041.kfs\n",
        "__health/startup_probe_1",
    ],
)
def test_other_objects_of_the_bucket_are_no_segments(text: str) -> None:
    assert parse_segment_key(text) is None


def test_key_order_is_offset_order() -> None:
    offsets = [0, 9, 10, 99, 10**18, 2**63 - 1]
    assert sorted(key(base_offset=offset).kfs() for offset in reversed(offsets)) == [key(base_offset=offset).kfs() for offset in offsets]


def test_bundle_keys_come_back() -> None:
    text = bundle_key(ULID)
    assert text.startswith("bundles/")
    assert text.endswith(f"/{ULID}.kfb")
    assert len(text.split("/")[1]) == 2
    assert bundle_ulid(text) == ULID


def test_r12_bundle_keys_spread() -> None:
    source, seen = UlidSource(random.Random(1)), Counter[str]()
    for millisecond in range(0, 4000 * 40, 40):  # one broker, 25 flushes a second
        seen[bundle_key(source.next(1_700_000_000_000 + millisecond)).split("/")[1]] += 1
    assert len(seen) == 256
    assert max(seen.values()) < 4 * 4000 / 256


@pytest.mark.parametrize("ulid", ["", "x", ULID.lower(), ULID + "0", "8" + ULID[1:], ULID[:-1] + "U", "../" + ULID])
def test_no_ulid_no_bundle(ulid: str) -> None:
    with pytest.raises(Refused):
        bundle_key(ulid)


def test_a_bundle_key_with_other_digits_is_none() -> None:
    head, digits, tail = bundle_key(ULID).split("/")
    assert bundle_ulid(f"{head}/{'00' if digits != '00' else '01'}/{tail}") is None
    assert bundle_ulid(f"{head}/{digits}/{ULID}.kfs") is None
