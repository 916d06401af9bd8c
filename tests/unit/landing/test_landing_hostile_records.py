"""Records that are legal Kafka and hostile to a table: timestamps that are no time, keys and headers that weigh more than values."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.simulation.loop import run_virtual
from tests.unit.landing.test_landing_decode import batch, key, read, values
from tests.unit.landing.world import World

from frazil.landing.columns import timestamp_array
from frazil.landing.decode import Limits, decode_slices
from frazil.records import build_batch
from frazil.records.building import BatchOptions, Record
from frazil.records.codecs import Codec

NANOSECONDS = 1_764_500_000_000_000_000


def record(timestamp_ms: int, value: bytes = b'{"a": 1}') -> Record:
    return Record(key=None, value=value, timestamp_ms=timestamp_ms)


def data(records: list[Record]) -> bytes:
    return bytes(build_batch(records, options=BatchOptions()))


@pytest.mark.parametrize("timestamp_ms", [NANOSECONDS, 2**62, 253_402_300_800_000, -62_135_596_800_001])
def test_a_timestamp_that_is_no_time_costs_its_record_and_not_its_neighbours(timestamp_ms: int) -> None:
    async def story() -> None:
        world = World()
        await world.topics.create("t", 1)
        await world.append("t", 0, data([record(1000)]))
        await world.append("t", 0, data([record(timestamp_ms), record(timestamp_ms, b"not json")]))
        await world.append("t", 0, data([record(2000, b'{"a": 2}')]))
        await world.land()
        assert [row["a"] for row in await world.rows("default.t")] == [1, 2]
        letters = await world.rows("default.t_dead")
        assert [(letter["offset"], letter["code"], letter["timestamp"]) for letter in letters] == [
            (1, "out-of-range", None),
            (2, "out-of-range", None),
        ]
        assert str(timestamp_ms) in letters[0]["reason"]
        assert letters[0]["value"] == b'{"a": 1}'

    run_virtual(story())


def test_the_first_and_the_last_millisecond_of_the_calendar_land() -> None:
    column = timestamp_array(pa.array([-62_135_596_800_000, 253_402_300_799_999, -1, 2**62], pa.int64()))
    assert [None if at is None else at.isoformat() for at in column.to_pylist()] == [
        "0001-01-01T00:00:00+00:00",
        "9999-12-31T23:59:59.999000+00:00",
        None,
        None,
    ]


@pytest.mark.parametrize("where", ["key", "header", "value"])
def test_a_slice_is_bounded_by_all_that_its_records_hold(where: str) -> None:
    """Three megabytes of zstd once became four gigabytes of keys in memory."""
    weight = b"x" * 100_000
    heavy = Record(
        key=weight if where == "key" else None,
        value=weight if where == "value" else b"{}",
        timestamp_ms=1,
        headers=(("h", weight),) if where == "header" else (),
    )
    batches = [bytes(build_batch([heavy] * 10, options=BatchOptions(codec=Codec.ZSTD, base_offset=at * 10))) for at in range(50)]
    limits = Limits(rows_max=1_000_000, bytes_max=4_000_000, batch_bytes_max=1 << 26)
    decoded = decode_slices([read(0, 0, 0, 500, *batches)], limits)
    assert 4_000_000 <= decoded.bytes_held < 6_000_000
    assert len(decoded.rows) == 40
    assert [(done.key, done.end) for done in decoded.consumed] == [(key(0), 40)]
    assert decoded.cut


def test_plain_and_compressed_batches_of_one_slice_keep_their_order() -> None:
    batches = [batch(at, [b"%d" % at], codec=Codec.LZ4 if at % 3 else Codec.NONE) for at in range(12)]
    decoded = decode_slices([read(0, 0, 0, 12, *batches)], Limits(rows_max=99, bytes_max=1 << 20, batch_bytes_max=1 << 20))
    assert values(decoded.rows) == [b"%d" % at for at in range(12)]
    assert decoded.consumed[0].end == 12
