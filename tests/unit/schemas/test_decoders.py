from __future__ import annotations

import pyarrow as pa
import pytest

from frazil.kit.errors import Refused
from frazil.schemas import DecodeOptions, decoder_for, evolve, parse_columns
from frazil.schemas import raw as raw_room
from frazil.schemas.json import JsonDecoder

OPTIONS = DecodeOptions()
BYTES = [b"", b"\x00\xff", None, b"text", "é".encode()]


def test_raw_keeps_every_byte() -> None:
    decoder = decoder_for("raw", None, OPTIONS)
    decoded = decoder.decode(BYTES)
    assert decoded.batch.schema == decoder.schema == pa.schema([("value", pa.binary())])
    assert decoded.batch.column("value").to_pylist() == BYTES
    assert list(decoded.rows) == [0, 1, 2, 3, 4]
    assert decoded.rejects == ()
    assert decoded.additions is None


def test_raw_string_rejects_what_is_no_text() -> None:
    decoded = decoder_for("string", None, OPTIONS).decode(BYTES)
    assert decoded.batch.column("value").to_pylist() == ["", None, "text", "é"]
    assert list(decoded.rows) == [0, 2, 3, 4]
    assert [(reject.row, reject.code, reject.why) for reject in decoded.rejects] == [
        (1, "not-utf8", "byte 1 is not UTF-8 (invalid start byte)")
    ]


def test_raw_limits() -> None:
    decoded = decoder_for("raw", None, DecodeOptions(null_value_rows=False, value_bytes_max=2)).decode(BYTES)
    assert [(reject.row, reject.code) for reject in decoded.rejects] == [(2, "null-value"), (3, "too-large")]
    assert list(decoded.rows) == [0, 1, 4]
    required = decoder_for("raw", None, OPTIONS).decode(BYTES, parse_columns(["value binary not null"]))
    assert [(reject.row, reject.code) for reject in required.rejects] == [(2, "null-value")]


def test_raw_into_an_existing_table() -> None:
    decoder = decoder_for("string", None, OPTIONS)
    table = pa.schema([pa.field("note", pa.int64()), pa.field("value", pa.large_string())])
    assert decoder.decode([b"x"], table).batch.to_pylist() == [{"note": None, "value": "x"}]
    other = parse_columns(["note long"])
    decoded = decoder.decode([b"x"], other)
    assert decoded.additions == parse_columns(["value string"])
    assert decoded.batch.schema == evolve(other, decoded.additions)
    with pytest.raises(Refused, match="cannot take raw values"):
        decoder.decode([b"x"], parse_columns(["value binary"]))
    with pytest.raises(Refused, match="column id: not null"):
        decoder.decode([b"x"], parse_columns(["id long not null", "value string"]))


def test_kinds() -> None:
    with pytest.raises(Refused, match="kinds are json, json-schema, avro, protobuf, raw, string, int, long, float, double"):
        decoder_for("thrift", None, OPTIONS)
    with pytest.raises(Refused, match="do not declare columns"):
        decoder_for("raw", parse_columns(["a long"]), OPTIONS)
    with pytest.raises(Refused, match="metadata column"):
        decoder_for("raw", None, DecodeOptions(reserved=frozenset({"value"})))
    with pytest.raises(Refused, match="column _Offset: the name belongs to a metadata column"):
        decoder_for("json", parse_columns(["_Offset long"]), DecodeOptions(reserved=frozenset({"_offset"})))
    with pytest.raises(Refused, match=r"column a: type timestamp\[ns\]"):
        decoder_for("json", pa.schema([("a", pa.timestamp("ns"))]), OPTIONS)
    assert decoder_for("json", None, OPTIONS).schema is None
    assert decoder_for("json", parse_columns(["a long"]), OPTIONS).schema == parse_columns(["a long"])


def test_the_table_may_differ_from_the_declaration() -> None:
    """The table's columns are what is filled: somebody may have added, widened or dropped one since."""
    decoder = decoder_for("json", parse_columns(["a int", "b string"]), OPTIONS)
    table = parse_columns(["c double", "a long"])
    decoded = decoder.decode([b'{"a":3000000000,"b":"x"}', b'{"c":1}'], table)
    assert decoded.batch.schema == table
    assert decoded.batch.to_pylist() == [{"c": None, "a": 3000000000}, {"c": 1.0, "a": None}]
    assert decoder.decode([b'{"a":3000000000,"b":"x"}']).rejects[0].code == "out-of-range"


def test_foreign_columns_that_differ_only_in_case() -> None:
    decoded = decoder_for("json", pa.schema([("a", pa.int64()), ("A", pa.int64())]), OPTIONS).decode([b'{"a":1,"A":2}', b'{"A":3}'])
    assert decoded.batch.to_pylist() == [{"a": 1, "A": 2}, {"a": None, "A": 3}]


def test_a_slice_too_big_for_arrow_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import frazil.schemas.json as json_room
    import frazil.schemas.native as native_room

    monkeypatch.setattr(json_room, "SLICE_BYTES_MAX", 10)
    monkeypatch.setattr(native_room, "SLICE_BYTES_MAX", 10)
    monkeypatch.setattr(raw_room, "SLICE_BYTES_MAX", 10)
    for kind in ("json", "raw"):
        with pytest.raises(Refused, match="decode it in parts"):
            decoder_for(kind, None, OPTIONS).decode([b"123456", b"123456"])


def test_the_host_zone_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    schema = parse_columns(["a timestamptz", "b timestamp", "c date", "d time"])
    value = b'{"a":"2025-07-01 10:00:00+0000","b":"2025-03-30T02:30:00","c":"1969-12-31","d":"00:00"}'
    answers = []
    for zone in ("UTC", "Asia/Kolkata", "America/New_York"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        answers.append(JsonDecoder(schema, OPTIONS).decode([value]).batch)
    monkeypatch.undo()
    time.tzset()
    assert answers[0] == answers[1] == answers[2]
    micros = answers[0].column("a").cast(pa.int64()).to_pylist()
    assert micros == [1751364000000000]


@pytest.mark.parametrize("kind", ["raw", "string", "json"])
@pytest.mark.parametrize("null_value_rows", [True, False])
def test_an_arrow_array_is_a_list_of_values(kind: str, null_value_rows: bool) -> None:
    """Also one that is a part of another, of large type, with nulls and values that do not fit."""
    values = [b"{}", None, b'{"a":1}', b"\xff", b"x" * 40, "é".encode(), b""]
    decoder = decoder_for(kind, None, DecodeOptions(null_value_rows=null_value_rows, value_bytes_max=30))
    for chosen in (values, values[:1], values[2:3], [], [None]):
        listed = decoder.decode(chosen)
        for arrow in (pa.binary(), pa.large_binary()):
            whole = pa.array([b"before", *chosen, b"\xff"], arrow)
            assert decoder.decode(whole.slice(1, len(chosen))) == listed


@pytest.mark.parametrize(
    ("kind", "values", "numbers"),
    [
        ("int", [b"\xff\xff\xff\xfe", b"\x7f\xff\xff\xff"], [-2, 2**31 - 1]),
        ("long", [bytes(7) + b"\x05", b"\x80" + bytes(7)], [5, -(2**63)]),
        ("float", [b"\x3f\xc0\0\0", b"\xff\x80\0\0"], [1.5, float("-inf")]),
        ("double", [b"\x3f\xb9\x99\x99\x99\x99\x99\x9a", b"\x80" + bytes(7)], [0.1, -0.0]),
    ],
)
def test_numbers_are_those_of_kafkas_serializers(kind: str, values: list[bytes], numbers: list[object]) -> None:
    decoder = decoder_for(kind, None, OPTIONS)
    decoded = decoder.decode([values[0], None, b"", b"123", values[1]])
    assert decoded.batch.schema == decoder.schema == parse_columns([f"value {kind}"])
    assert decoded.batch.column("value").to_pylist() == [numbers[0], None, numbers[1]]
    assert [(reject.row, reject.code) for reject in decoded.rejects] == [(2, "wrong-type"), (3, "wrong-type")]
    assert list(decoded.rows) == [0, 1, 4]
    assert decoder.decode(values).rejects == ()
    with pytest.raises(Refused, match="cannot take raw values"):
        decoder.decode(values, parse_columns(["value string"]))


def test_an_integer_past_64_bits_in_a_known_struct_is_a_reject_on_the_twin_too() -> None:
    """With inferred columns the twin's first look took it, and the array could not be built."""
    had = parse_columns(["s struct<a: long>"])
    for use_kernel in (False, True):
        decoder = decoder_for("json", None, DecodeOptions(use_kernel=use_kernel))
        decoded = decoder.decode([b'{"s":{"a":9223372036854775808}}', b'{"s":{"a":1}}'], had)
        assert [(reject.row, reject.code) for reject in decoded.rejects] == [(0, "out-of-range")]
        assert decoded.batch.to_pylist() == [{"s": {"a": 1}}]
