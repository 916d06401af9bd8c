"""Slices of batches → rows: trimmed, bounded, faults set aside, other partitions untouched."""

from __future__ import annotations

from frazil.kit.names import PartitionId, PartitionKey, TopicId
from frazil.landing.columns import METADATA_SCHEMA, metadata_arrays
from frazil.landing.decode import Limits, Read, Rows, decode_slices
from frazil.log.refs import Bounds, Slice
from frazil.records import build_batch
from frazil.records.building import BatchOptions, Record
from frazil.records.codecs import Codec

LIMITS = Limits(rows_max=1_000_000, bytes_max=1 << 30, batch_bytes_max=1 << 26)


def key(partition: int) -> PartitionKey:
    return PartitionKey(TopicId(b"t" * 16), PartitionId(partition))


def batch(base: int, values: list[bytes | None], *, codec: Codec = Codec.NONE, control: bool = False) -> bytes:
    records = [
        Record(key=b"k%d" % (base + i), value=value, timestamp_ms=1000 + base + i, headers=(("h", b"1"), ("h", None)) if i == 0 else ())
        for i, value in enumerate(values)
    ]
    return bytes(build_batch(records, options=BatchOptions(codec=codec, base_offset=base, control=control)))


def read(partition: int, start: int, base: int, end: int, *batches: bytes) -> Read:
    data = b"".join(batches)
    return Read(slice=Slice(key=key(partition), base=base, end=end, data=data, bounds=Bounds(start=0, end=end)), topic="t", start=start)


def values(rows: Rows) -> list[bytes | None]:
    return rows.records.column("value").to_pylist()


def offsets(rows: Rows) -> list[int]:
    return rows.records.column("offset").to_pylist()


def test_rows_of_several_partitions_stand_side_by_side_with_their_origin() -> None:
    decoded = decode_slices([read(0, 0, 0, 3, batch(0, [b"a", b"b", None])), read(2, 5, 5, 6, batch(5, [b"c"], codec=Codec.LZ4))], LIMITS)
    assert values(decoded.rows) == [b"a", b"b", None, b"c"]
    assert [(origin.key.partition, origin.rows) for origin in decoded.rows.origins] == [(0, 3), (2, 1)]
    assert [(done.first, done.end) for done in decoded.consumed] == [(0, 3), (5, 6)]
    columns = metadata_arrays(decoded.rows, None)
    assert {name: array.type for name, array in columns.items()} == dict(zip(METADATA_SCHEMA.names, METADATA_SCHEMA.types, strict=True))
    assert columns["_kafka_partition"].to_pylist() == [0, 0, 0, 2]
    assert columns["_offset"].to_pylist() == [0, 1, 2, 5]
    assert columns["_key"].to_pylist() == [b"k0", b"k1", b"k2", b"k5"]
    assert columns["_headers"].to_pylist()[:2] == [[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], []]
    assert columns["_timestamp"].cast("int64").to_pylist() == [1_000_000, 1_001_000, 1_002_000, 1_005_000]


def test_a_batch_that_begins_before_the_offset_asked_for_is_trimmed() -> None:
    decoded = decode_slices([read(0, 2, 0, 4, batch(0, [b"a", b"b", b"c", b"d"]))], LIMITS)
    assert offsets(decoded.rows) == [2, 3]
    assert decoded.consumed[0].first == 2


def test_f20_control_batches_move_progress_and_make_no_rows() -> None:
    decoded = decode_slices([read(0, 0, 0, 2, batch(0, [b"a"]), batch(1, [b"\0\0\0\0\0\0"], control=True))], LIMITS)
    assert values(decoded.rows) == [b"a"]
    assert decoded.consumed[0].end == 2


def test_f11_offsets_that_log_compaction_removed_are_consumed_too() -> None:
    decoded = decode_slices([read(0, 0, 2, 10, batch(2, [b"a"]), batch(7, [b"b"]))], LIMITS)
    assert offsets(decoded.rows) == [2, 7]
    assert (decoded.consumed[0].first, decoded.consumed[0].end) == (0, 10)


def test_f28_an_undecodable_batch_is_set_aside_and_its_neighbours_go_on() -> None:
    good, bad = batch(0, [b"a"]), bytearray(batch(1, [b"x" * 100, b"y"], codec=Codec.ZSTD))
    bad = bytearray(build_batch([Record(key=None, value=b"x")], options=BatchOptions(base_offset=1)))
    bad[61:] = b"\xff" * (len(bad) - 61)
    from crc32c import crc32c

    bad[17:21] = crc32c(bytes(bad[21:])).to_bytes(4, "big")
    decoded = decode_slices([read(0, 0, 0, 3, good, bytes(bad), batch(2, [b"c"]))], LIMITS)
    assert values(decoded.rows) == [b"a", b"c"]
    assert [(b.fault.first_offset, b.fault.last_offset) for b in decoded.bad_batches] == [(1, 1)]
    assert decoded.bad_batches[0].fault.raw == bytes(bad)
    assert decoded.consumed[0].end == 3


def damaged(base: int) -> bytes:
    frame = bytearray(batch(base, [b"abcdefgh"]))
    frame[-3] ^= 1
    return bytes(frame)


def test_a_damaged_batch_stops_its_partition_only_and_nothing_behind_it_is_consumed() -> None:
    decoded = decode_slices([read(0, 0, 0, 3, batch(0, [b"a"]), damaged(1), batch(2, [b"c"])), read(1, 0, 0, 1, batch(0, [b"b"]))], LIMITS)
    assert values(decoded.rows) == [b"a", b"b"]
    assert [(done.key.partition, done.end) for done in decoded.consumed] == [(0, 1), (1, 1)]
    assert decoded.bad_partitions[0].key == key(0)
    assert "CRC" in decoded.bad_partitions[0].why


def test_a_damaged_batch_is_set_aside_once_the_caller_accepts_it() -> None:
    limits = Limits(rows_max=10, bytes_max=1 << 20, batch_bytes_max=1 << 20, accept_damage=frozenset({key(0)}))
    decoded = decode_slices([read(0, 0, 0, 2, batch(0, [b"a"]), damaged(1))], limits)
    assert values(decoded.rows) == [b"a"]
    assert [bad.fault.code for bad in decoded.bad_batches] == ["crc"]
    assert decoded.consumed[0].end == 2


def test_limits_cut_at_a_batch_border_and_the_rest_is_not_consumed() -> None:
    batches = [batch(i * 10, [b"v" * 100_000] * 10) for i in range(30)]
    limits = Limits(rows_max=1_000_000, bytes_max=5_000_000, batch_bytes_max=1 << 26)
    decoded = decode_slices([read(0, 0, 0, 300, *batches), read(1, 0, 0, 1, batch(0, [b"b"]))], limits)
    assert decoded.cut
    end = decoded.consumed[0].end
    assert 0 < end < 300
    assert offsets(decoded.rows) == list(range(end))
    assert len(decoded.consumed) == 1
