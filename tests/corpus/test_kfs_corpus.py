"""The .kfs and .index formats against bytes made elsewhere: golden vectors, an independent writer, every byte flipped."""

from __future__ import annotations

import hashlib
import pathlib
import re

import pytest
from tests.corpus import independent_writer

from frazil.kit.errors import Corrupt
from frazil.records import build_batch, patch, scan, split_batches
from frazil.records.building import BatchOptions, Record
from frazil.segments.indexes import index_of, parse_index
from frazil.segments.kfs import build_segment, check_index, read_segment

FOLDER = pathlib.Path(__file__).parent / "kfs"
FORMAT_PAGE = pathlib.Path(__file__).parents[2] / "docs" / "formats" / "kfs.md"
CREATED_MS = 1_700_000_123_456
CASES = sorted(independent_writer.CASES)
LIMIT = 1 << 20


def stored(name: str) -> bytes:
    return bytes.fromhex((FOLDER / f"{name}.hex").read_text())


def client_batches() -> list[bytes]:
    return [stored("client-batch-a"), stored("client-batch-b")]


def test_golden_files_are_the_published_ones() -> None:
    digests = {
        name: hashlib.sha256(stored(name)).hexdigest() for name in ("golden-41.kfs", "golden-41.index", "golden-41.interval-1.index")
    }
    assert digests == {
        "golden-41.kfs": "292ce211e9b8bd11b7319326c27672c9f2a8dc0585ffd11f0e9c83cfee4ce38e",
        "golden-41.index": "c39e017c086cee61e8411b06ffbe1f2d984dd77aa592f3706fc0d20fbb1cca40",
        "golden-41.interval-1.index": "849443f17b3f790a5cc4e141c4c799bf9ece68edd7e22cededc1ab4efe5e1067",
    }


def test_our_writer_makes_the_golden_bytes() -> None:
    run = patch(b"".join(client_batches()), 41)
    built = build_segment([run], created_ms=1_700_000_002_000)
    assert built.kfs == stored("golden-41.kfs")
    assert built.index == stored("golden-41.index")
    assert index_of(built.batches, interval=1).encode() == stored("golden-41.interval-1.index")
    assert (built.base, built.last_offset, built.records) == (41, 45, 5)


def test_our_reader_reads_the_golden_bytes() -> None:
    view = read_segment(stored("golden-41.kfs"), where="golden", batch_bytes_max=LIMIT)
    assert (view.base_offset, view.last_offset, view.message_count, view.created_ms) == (41, 45, 5, 1_700_000_002_000)
    columns, faults = scan(view.body, uncompressed_bytes_max=LIMIT)
    assert not faults
    assert columns.offsets.tolist() == [41, 42, 43, 44, 45]
    assert columns.keys == [b"k1", None, b"k3", b"k4", b"k5"]
    assert columns.values == [b"v1", b"v2", None, b'{"id":4}', b""]
    assert columns.headers[1] == (("h", b"x"),)
    index = parse_index(stored("golden-41.interval-1.index"), where="golden")
    check_index(index, view, where="golden", interval=1)
    assert [index.floor(offset) for offset in (0, 41, 43, 44, 45, 99)] == [32, 32, 32, 126, 126, 126]


def test_our_client_builds_the_golden_client_batch() -> None:
    records = [
        Record(key=b"k1", value=b"v1", timestamp_ms=1_700_000_000_000),
        Record(key=None, value=b"v2", timestamp_ms=1_700_000_000_005, headers=(("h", b"x"),)),
        Record(key=b"k3", value=None, timestamp_ms=1_700_000_000_007),
    ]
    assert build_batch(records) == stored("client-batch-a")


def test_every_stored_file_is_known() -> None:
    names = {path.name.removesuffix(".hex") for path in FOLDER.iterdir()}
    golden = {"golden-41.kfs", "golden-41.index", "golden-41.interval-1.index", "client-batch-a", "client-batch-b"}
    assert names == golden | {f"{case}.{suffix}" for case in CASES for suffix in ("kfs", "index")}


@pytest.mark.parametrize("case", CASES)
def test_the_independent_writer_still_makes_the_stored_bytes(case: str) -> None:
    assert independent_writer.segment(independent_writer.CASES[case], CREATED_MS) == (stored(f"{case}.kfs"), stored(f"{case}.index"))


@pytest.mark.parametrize("case", CASES)
def test_our_writer_and_the_independent_one_agree(case: str) -> None:
    batches = independent_writer.CASES[case]
    as_sent = [bytes(8) + batch[8:] for batch in batches]
    patched = [patch(sent, int.from_bytes(batch[:8], "big")) for sent, batch in zip(as_sent, batches, strict=True)]
    built = build_segment(patched, created_ms=CREATED_MS)
    assert built.kfs == stored(f"{case}.kfs")
    assert built.index == stored(f"{case}.index")


@pytest.mark.parametrize("case", CASES)
def test_our_reader_reads_what_the_independent_writer_wrote(case: str) -> None:
    view = read_segment(stored(f"{case}.kfs"), where=case, batch_bytes_max=LIMIT)
    check_index(parse_index(stored(f"{case}.index"), where=case), view, where=case)
    columns, faults = scan(view.body, uncompressed_bytes_max=LIMIT)
    assert not faults
    assert len(columns) == sum(batch.record_count for batch in view.batches if not batch.is_control)
    if case.startswith("codec-"):
        expected = independent_writer.rows(20, 30)
        assert columns.timestamps_ms.tolist() == [row[0] for row in expected]
        assert columns.keys == [row[1] for row in expected]
        assert columns.values == [row[2] for row in expected]


def test_gaps_keep_their_offsets_and_markers_vanish() -> None:
    def offsets(case: str) -> list[int]:
        view = read_segment(stored(f"{case}.kfs"), where=case, batch_bytes_max=LIMIT)
        return scan(view.body, uncompressed_bytes_max=LIMIT)[0].offsets.tolist()

    assert offsets("gaps-inside-and-between") == [10, 14, 19, 40, 41, 42]
    assert offsets("transaction-with-marker") == [0, 1]
    assert offsets("offsets-of-19-digits")[-1] == 2**63 - 1


def test_append_time_is_every_records_time() -> None:
    view = read_segment(stored("append-time.kfs"), where="", batch_bytes_max=LIMIT)
    assert scan(view.body, uncompressed_bytes_max=LIMIT)[0].timestamps_ms.tolist() == [1_700_000_009_999] * 3


@pytest.mark.parametrize("case", ["one-record", "idempotent-sequence-wrap", "times-before-1970", "long-varints", "headers"])
def test_our_builder_makes_the_independent_writers_batches(case: str) -> None:
    for batch in independent_writer.CASES[case]:
        columns, _ = scan(batch, uncompressed_bytes_max=LIMIT)
        head = split_batches(batch, batch_bytes_max=LIMIT)[0]
        records = [
            Record(timestamp_ms=ms, key=key, value=value, headers=headers)
            for ms, key, value, headers in zip(columns.timestamps_ms, columns.keys, columns.values, columns.headers, strict=True)
        ]
        options = BatchOptions(
            base_offset=head.base_offset,
            producer_id=head.producer_id,
            producer_epoch=head.producer_epoch,
            base_sequence=head.base_sequence,
        )
        assert build_batch(records, options=options) == batch


def flips(data: bytes, accepts: object) -> set[int]:
    """Positions where some other byte value gets past ``accepts``."""
    unnoticed = set()
    changed = bytearray(data)
    for position, original in enumerate(data):
        for value in range(256):
            if value == original:
                continue
            changed[position] = value
            try:
                accepts(changed)  # type: ignore[operator]
            except Corrupt:
                continue
            unnoticed.add(position)
        changed[position] = original
    return unnoticed


def documented_blind_bytes() -> set[int]:
    first, last = re.search(r"Undetectable: bytes (\d+)-(\d+)", FORMAT_PAGE.read_text()).groups()  # type: ignore[union-attr]
    return set(range(int(first), int(last) + 1))


@pytest.mark.parametrize("name", ["golden-41", "gaps-inside-and-between"])
def test_no_byte_of_a_segment_changes_unnoticed_but_those_named_in_the_format_page(name: str) -> None:
    unnoticed = flips(stored(f"{name}.kfs"), lambda data: read_segment(data, where="", batch_bytes_max=LIMIT))
    assert unnoticed == documented_blind_bytes() == set(range(20, 28))  # the field `created`


@pytest.mark.parametrize(("name", "interval"), [("golden-41.index", 100), ("golden-41.interval-1.index", 1)])
def test_no_byte_of_an_index_changes_unnoticed_beside_its_segment(name: str, interval: int) -> None:
    view = read_segment(stored("golden-41.kfs"), where="", batch_bytes_max=LIMIT)
    assert flips(stored(name), lambda data: check_index(parse_index(data, where=""), view, where="", interval=interval)) == set()


@pytest.mark.parametrize("name", ["golden-41.kfs", "golden-41.index"])
def test_no_cut_file_is_read(name: str) -> None:
    read = (
        (lambda data: read_segment(data, where="", batch_bytes_max=LIMIT))
        if name.endswith("kfs")
        else (lambda data: parse_index(data, where=""))
    )
    whole = stored(name)
    for length in range(len(whole)):
        with pytest.raises(Corrupt):
            read(whole[:length])
    with pytest.raises(Corrupt):
        read(whole + b"\0")
