"""The CI form of ``json_kernel``, and what only the kernel's border can get wrong."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import pyarrow as pa
import pytest
from tests.differential.json_kernel import Differ, check_equal, run_chunk

from frazil.kit.kernel import kernel
from frazil.schemas import DecodeOptions, decoder_for, parse_columns
from frazil.schemas.json import JsonDecoder
from frazil.schemas.names import NameIndex
from frazil.schemas.native import NativeJsonDecoder
from frazil.schemas.port import REJECT_CODES


@pytest.fixture
def module() -> ModuleType:
    found = kernel()
    if found is None:
        pytest.skip("no kernel here")
    return found


def test_kernel_is_twin_on_generated_and_mutated_values(module: ModuleType) -> None:
    found: Counter[str] = Counter()
    for seed in range(10):
        found += run_chunk(seed, 2_000, module)
    assert found["row"] > 5_000, "the generator makes good records"
    assert set(found) == {*REJECT_CODES, "row"} - {"no-operation", "operation", "no-row"}, "and every kind of bad one but those of events"


def test_the_comparison_sees_a_difference(module: ModuleType) -> None:
    schema = parse_columns(["a double"])
    twin = JsonDecoder(schema, DecodeOptions()).decode([b'{"a":0.0}'])
    native = NativeJsonDecoder(schema, DecodeOptions(), module)
    check_equal(twin, native.decode([b'{"a":0.0}']), "")
    for other in (b'{"a":-0.0}', b'{"a":null}', b'{"a":"x"}', b'{"a":1e-300}'):
        with pytest.raises(Differ):
            check_equal(twin, native.decode([other]), "")


@pytest.mark.parametrize("arrow", [pa.binary(), pa.large_binary()], ids=str)
def test_arrays_are_taken_where_they_lie(module: ModuleType, arrow: pa.DataType) -> None:
    """Slices of an array, nulls with bytes under them, a text cut inside a letter by the next record."""
    schema = parse_columns(["a string"])
    values = [b'{"a":"x"}', None, '{"a":"é"}'.encode(), b'{"a":"\xc3', b'\xa9"}', b'{"a":"y"}']
    array = pa.array(values, arrow)
    twin = JsonDecoder(schema, DecodeOptions())
    native = NativeJsonDecoder(schema, DecodeOptions(), module)
    for begin in range(len(values)):
        for end in range(begin, len(values) + 1):
            check_equal(twin.decode(values[begin:end]), native.decode(array.slice(begin, end - begin)), f"{begin}:{end}")
    hidden = pa.Array.from_buffers(arrow, len(values), [pa.py_buffer(b"\x00"), *array.buffers()[1:]])
    check_equal(twin.decode([None] * len(values)), native.decode(hidden), "all null")
    assert native.decode(array).rows.tolist() == [0, 1, 2, 5]


def test_no_allocation_by_depth_or_size(module: ModuleType) -> None:
    """Deep and long records end in the verdicts of the twin, without a panic."""
    schema = parse_columns(["a list<list<long>>", "m map<string, long>"])
    keys = ",".join(f'"k{number}":1' for number in range(20_000))
    values = [
        b"[" * 1_000_000,
        b'{"a":' + b"[" * 1_000_000,
        b'{"w":' + b"[" * 63 + b"]" * 63 + b"}",
        f'{{"m":{{{keys}}},"w":{{{keys}}}}}'.encode(),
        f'{{"m":{{{keys},"k7":2}}}}'.encode(),
        f'{{"w":{{{keys},"k19999":2}}}}'.encode(),
        f"{{{keys}}}".encode(),
        b'{"a":[[' + b"1," * 100_000 + b"1]]}",
    ]
    check_equal(JsonDecoder(schema, DecodeOptions()).decode(values), NativeJsonDecoder(schema, DecodeOptions(), module).decode(values), "")


def test_a_schema_without_plan_takes_the_twin(module: ModuleType) -> None:
    schema = pa.schema([pa.field("m", pa.map_(pa.large_string(), pa.int64()))])
    decoded = NativeJsonDecoder(schema, DecodeOptions(), module).decode([b'{"m":{"x":1}}', b"x"])
    assert decoded.batch.to_pylist() == [{"m": [("x", 1)]}]
    assert [reject.code for reject in decoded.rejects] == ["not-json"]


def test_one_decoder_in_many_threads(module: ModuleType) -> None:
    """The interpreter's lock is not held while the kernel reads; a plan has no state."""
    schema = parse_columns(["a long", "b string"])
    decoder = decoder_for("json", schema, DecodeOptions())
    assert isinstance(decoder, NativeJsonDecoder)

    def work(seed: int) -> bool:
        chance = random.Random(seed)
        values = [f'{{"a":{chance.getrandbits(40)},"b":"{chance.getrandbits(80)}"}}'.encode() for _ in range(500)]
        return decoder.decode(values).batch.equals(JsonDecoder(schema, DecodeOptions()).decode(values).batch)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(20)))


def test_a_panic_leaves_all_to_the_exact_road(module: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    """No record is known that makes the kernel panic; a call that no caller makes stands in for one."""
    schema = parse_columns(["a long"])
    plan = module.JsonPlan(schema, [NameIndex(["a"]).tables()], {})
    rules = {"depth_max": 64, "value_bytes_max": 100, "nulls_fit": True, "watch": False, "strict": False}
    rows, unsure = plan.lay(pa.array([b'{"a":1}', b'{"a":2}'], pa.binary()), [7, 8, 9], **rules)
    assert "panicked" in capfd.readouterr().err
    assert unsure == [0, 1]
    assert pa.record_batch(rows) == pa.RecordBatch.from_pylist([], schema=schema)


@pytest.mark.parametrize("values", [pa.array(["x"]), pa.array([1]), pa.array([b"x"], pa.binary(1)), [b"x"], None], ids=str)
def test_what_is_no_column_of_bytes_is_refused(module: ModuleType, values: object) -> None:
    plan = module.JsonPlan(parse_columns(["a long"]), [NameIndex(["a"]).tables()], {})
    rules = {"depth_max": 64, "value_bytes_max": 100, "nulls_fit": True, "watch": False, "strict": False}
    with pytest.raises((TypeError, AttributeError)):
        plan.lay(values, [], **rules)
