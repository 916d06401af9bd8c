"""Each case of docs/json-semantics.md, alone and between two good records, on the roads of the twin and on the kernel's."""

from __future__ import annotations

import math
import struct

import pyarrow as pa
import pytest
from tests.unit.schemas.json_cases import CASES, RESERVED, SLICES, Case, Slice

from frazil.kit.kernel import kernel
from frazil.schemas import DecodeOptions, Decoder, decoder_for, evolve, parse_columns
from frazil.schemas.ddl import describe
from frazil.schemas.json import JsonDecoder
from frazil.schemas.native import NativeJsonDecoder
from frazil.schemas.port import REJECT_CODES


def ident(case: Case | Slice) -> str:
    return case.name.replace(" ", "-")


ROADS = ["quick", "exact", "kernel"]


def decoder_on(road: str, columns: pa.Schema | None, options: DecodeOptions) -> Decoder:
    if road != "kernel":
        return JsonDecoder(columns, options, quick=road == "quick")
    module = kernel()
    if module is None:
        pytest.skip("no kernel here")
    return NativeJsonDecoder(columns, options, module)


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("case", CASES, ids=ident)
def test_case(case: Case, road: str) -> None:
    schema = parse_columns([case.column])
    decoded = decoder_on(road, schema, DecodeOptions()).decode([case.value])
    assert decoded.batch.schema == schema
    assert decoded.additions is None
    if case.code:
        assert case.code in REJECT_CODES
        assert [(reject.row, reject.code) for reject in decoded.rejects] == [(0, case.code)]
        why = decoded.rejects[0].why
        assert 0 < len(why) <= 300
        assert why.startswith(f"{case.path}: ") if case.path else True
        assert decoded.batch.num_rows == len(decoded.rows) == 0
        return
    assert decoded.rejects == ()
    assert list(decoded.rows) == [0]
    (landed,) = decoded.batch.column(0).to_pylist()
    assert landed == case.lands
    if isinstance(case.lands, float):
        assert struct.pack("d", landed) == struct.pack("d", case.lands)


@pytest.mark.parametrize("case", [case for case in CASES if "not null" not in case.column], ids=ident)
def test_neighbours_are_untouched(case: Case) -> None:
    """A bad record costs its neighbours nothing, and theirs stay the offsets they were."""
    decoded = decoder_for("json", parse_columns(["before long", case.column, "after string"]), DecodeOptions()).decode(
        [b'{"before":1,"after":"x"}', case.value, b'{"before":3,"after":"z"}']
    )
    assert list(decoded.rows) == ([0, 2] if case.code else [0, 1, 2])
    assert decoded.batch.column("before").to_pylist() == ([1, 3] if case.code else [1, None, 3])
    assert decoded.batch.column("after").to_pylist()[-1] == "z"


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("case", SLICES, ids=ident)
def test_inferred(case: Slice, road: str) -> None:
    had = parse_columns(case.had)
    decoder = decoder_on(road, None, DecodeOptions(reserved=RESERVED))
    decoded = decoder.decode([value.encode() for value in case.values], had)
    assert describe(decoded.batch.schema) == case.columns
    assert tuple((reject.row, reject.code) for reject in decoded.rejects) == case.rejects
    assert sorted([*decoded.rows, *(row for row, _ in case.rejects)]) == list(range(len(case.values)))
    assert decoded.batch.num_rows == len(decoded.rows)
    assert (decoded.additions is None) == (case.columns == case.had)
    if decoded.additions is not None:
        assert evolve(had, decoded.additions) == decoded.batch.schema


def test_inferred_values_land() -> None:
    decoder = decoder_for("json", None, DecodeOptions(reserved=RESERVED))
    first = decoder.decode([b'{"a":1,"c":{"id":1}}', None, b'{"a":1.5,"_offset":7}', b'{"c":{}}'])
    assert first.batch.to_pylist() == [
        {"a": 1.0, "c": {"id": 1}, "_offset_": None},
        {"a": None, "c": None, "_offset_": None},
        {"a": 1.5, "c": None, "_offset_": 7},
        {"a": None, "c": {"id": None}, "_offset_": None},
    ]
    second = decoder.decode([b'{"c":{"id":2,"d":{"n":"a"}}}', b'{"a":2}'], first.batch.schema)
    assert second.additions == pa.schema([("c", pa.struct([("d", pa.struct([("n", pa.string())]))]))])
    assert second.batch.to_pylist()[0]["c"] == {"id": 2, "d": {"n": "a"}}
    third = decoder.decode([b'{"a":3,"new":null}'], second.batch.schema)
    assert third.additions is None


def test_null_values_can_be_rejected() -> None:
    decoder = decoder_for("json", parse_columns(["v long"]), DecodeOptions(null_value_rows=False))
    decoded = decoder.decode([None, b'{"v":1}'])
    assert [(reject.row, reject.code) for reject in decoded.rejects] == [(0, "null-value")]
    assert list(decoded.rows) == [1]


def test_rows_without_columns_are_counted() -> None:
    decoded = decoder_for("json", None, DecodeOptions()).decode([b"{}", b"x", b'{"a":null}'])
    assert list(decoded.rows) == [0, 2]
    assert decoded.batch.num_rows == 2
    assert decoded.batch.num_columns == 0


def test_empty_slice() -> None:
    decoded = decoder_for("json", parse_columns(["v long", "w list<uuid>"]), DecodeOptions()).decode([])
    assert decoded.batch.num_rows == 0
    assert decoded.rejects == ()


def test_every_code_is_tested() -> None:
    tested = {case.code for case in CASES if case.code} | {code for case in SLICES for _, code in case.rejects}
    elsewhere = {"unknown-field", "no-operation", "operation", "no-row"}  # of policies (test_landing_evolution.py) and of events (upsert)
    assert tested == set(REJECT_CODES) - elsewhere


def test_lowered_digit_limit_of_the_interpreter() -> None:
    """A process may set ``sys.set_int_max_str_digits`` to anything; answers do not change."""
    import sys

    before = sys.get_int_max_str_digits()
    values = [b'{"v":' + b"1" * size + b"}" for size in (18, 700, 4000, 5000)] + [b'{"v":1,"w":' + b"9" * 4000 + b"}"]
    decoder = decoder_for("json", parse_columns(["v long"]), DecodeOptions())
    answers = []
    try:
        for limit in (640, 4300, 0):
            sys.set_int_max_str_digits(limit)
            answers.append(decoder.decode(values))
    finally:
        sys.set_int_max_str_digits(before)
    assert answers[0] == answers[1] == answers[2]
    assert list(answers[0].rows) == [0, 4]


def test_nan_is_not_made_by_any_number() -> None:
    decoded = decoder_for("json", parse_columns(["v double"]), DecodeOptions()).decode([b'{"v":1e400}', b'{"v":-1e400}', b'{"v":1e-400}'])
    assert all(math.isfinite(value) for value in decoded.batch.column(0).to_pylist())
    assert len(decoded.rejects) == 2
