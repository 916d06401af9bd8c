"""The CI form of ``avro_kernel`` and ``protobuf_kernel``, and what only the kernel's border can get wrong."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from tests.differential import avro_kernel, protobuf_kernel
from tests.differential.avro_values import zigzag
from tests.differential.json_kernel import Differ, check_equal

from frazil.kit.kernel import kernel
from frazil.schemas import DecodeOptions, parse_columns
from frazil.schemas.avro.native import NativeWrittenDecoder
from frazil.schemas.avro.schemas import compile_avro
from frazil.schemas.avro.written import WrittenDecoder
from frazil.schemas.framing import WriterSchema

RULES: dict[str, Any] = {"depth_max": 64, "value_bytes_max": 1000, "nulls_fit": True}
HEAD = b"\0\0\0\0\1"


@pytest.fixture
def module() -> ModuleType:
    found = kernel()
    if found is None:
        pytest.skip("no kernel here")
    return found


def both(module: ModuleType, text: str, declared: pa.Schema | None = None) -> tuple[WrittenDecoder, NativeWrittenDecoder]:
    twin = WrittenDecoder(declared, DecodeOptions(), "AVRO", compile_avro)
    native = NativeWrittenDecoder(declared, DecodeOptions(), "AVRO", compile_avro, module, unsure_parts=1)
    for decoder in (twin, native):
        decoder.learn({1: WriterSchema(kind="AVRO", text=text)})
    return twin, native


def test_avro_kernel_is_twin_on_generated_and_mutated_values(module: ModuleType) -> None:
    found: Counter[str] = Counter()
    for seed in range(6):
        found += avro_kernel.run_chunk(seed, 2_000, module)
    assert found["plain"] > 3_000, "the kernel makes rows itself"
    assert {"not-avro", "not-utf8", "duplicate-key", "too-deep", "wrong-type", "not-exact", "out-of-range", "bad-text"} <= set(found)


def test_protobuf_kernel_is_twin_on_generated_and_mutated_values(module: ModuleType) -> None:
    found: Counter[str] = Counter()
    for seed in range(6):
        found += protobuf_kernel.run_chunk(seed, 2_000, module)
    assert found["plain"] > 3_000, "the kernel makes rows itself"
    assert {"not-protobuf", "not-utf8", "too-deep", "wrong-type", "not-exact", "out-of-range", "not-framed"} <= set(found)


def test_the_comparison_sees_a_difference(module: ModuleType) -> None:
    twin, native = both(module, '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}')
    answer = twin.decode([HEAD + zigzag(1)])
    check_equal(answer, native.decode([HEAD + zigzag(1)]), "")
    for other in (HEAD + zigzag(2), HEAD, None):
        with pytest.raises(Differ):
            check_equal(answer, native.decode([other]), "")


def test_claims_of_length_make_no_room(module: ModuleType) -> None:
    """Blocks, sizes and counts up to 2^63 in a few bytes end in the twin's verdicts."""
    text = """{"type": "record", "name": "R", "fields": [
        {"name": "l", "type": {"type": "array", "items": "long"}}, {"name": "m", "type": {"type": "map", "values": "bytes"}},
        {"name": "s", "type": "string"}]}"""
    twin, native = both(module, text)
    huge = [zigzag(number) for number in (-(1 << 63), (1 << 63) - 1, -1, 1 << 31, -(1 << 31), 1 << 40)]
    good = HEAD + b"\x02\x05\x00" + b"\x00" + b"\x02x"
    values: list[bytes | None] = [good]
    for claim in huge:
        values += [HEAD + claim, HEAD + claim + claim, HEAD + b"\0" + claim + b"\x02", HEAD + b"\0\0" + claim, HEAD + b"\0\x02" + claim]
    answer = native.decode(values)
    check_equal(twin.decode(values), answer, "")
    assert answer.rows.tolist() == [0]


def test_a_program_that_does_not_fill_its_columns_is_refused(module: ModuleType) -> None:
    """Columns of unequal length would be read beyond their end."""
    schema, none = parse_columns(["a long", "b string"]), pa.schema([])
    long, text = ("integer", False), ("string",)
    for op in (
        ("record", [(0, long)], []),
        ("record", [(0, long), (0, long)], [1]),
        ("record", [(0, long), (1, long)], []),
        ("record", [(0, long), (1, text)], [0]),
        ("record", [(0, long), (2, text)], [1]),
        ("record", [(0, long), (-1, text)], [1]),
        ("record", [(0, long), (None, text)], [1]),
        ("message", [(1, 0, 0, "many", ("proto", "int64"), False, False, None, None)], [1]),
        ("message", [(1, 0, 1, "one", ("proto", "int64"), False, False, None, None)], [0]),
        ("nothing",),
        long,
    ):
        with pytest.raises(ValueError, match="program"):
            module.WrittenPlan(schema, [(op, none)], False)
    deep: Any = long
    for _ in range(1000):
        deep = ("array", deep)
    with pytest.raises(ValueError, match="deep"):
        module.WrittenPlan(schema, [(("record", [(0, deep)], [1]), none)], False)


def test_heads_are_found_in_the_order_of_their_first_rows(module: ModuleType) -> None:
    values = [b"", None, b"\0\0\0\0\2x", b"\1\0\0\0\1", b"\0\0\0\0\1", b"\0\0\0\0\2y"]
    assert module.find_heads(pa.array(values, pa.binary()), False, 9) == [(b"\0\0\0\0\2", 2), (b"\0\0\0\0\1", 4)]
    indexed = [b"\0\0\0\0\2\0", b"\0\0\0\0\2\4\0\2x", b"\0\0\0\0\2\x7e", b"\0\0\0\0\2"]
    assert module.find_heads(pa.array(indexed, pa.large_binary()), True, 9) == [(indexed[0], 0), (indexed[1][:-1], 1)]
    many = pa.array([b"\0" + number.to_bytes(4) for number in range(30)], pa.binary())
    assert len(module.find_heads(many, False, 9)) == 10


@pytest.mark.parametrize("values", [pa.array(["x"]), pa.array([1]), pa.array([b"x"], pa.binary(1)), [b"x"], None], ids=str)
def test_what_is_no_column_of_bytes_is_refused(module: ModuleType, values: object) -> None:
    plan = module.WrittenPlan(parse_columns(["a long"]), [(("record", [(0, ("integer", False))], []), pa.schema([]))], False)
    with pytest.raises((TypeError, AttributeError)):
        plan.lay(values, {HEAD: 0}, **RULES)
    with pytest.raises((TypeError, AttributeError)):
        module.find_heads(values, False, 9)


def test_a_program_of_no_number_leaves_the_record(module: ModuleType) -> None:
    plan = module.WrittenPlan(parse_columns(["a long"]), [], False)
    rows, unsure = plan.lay(pa.array([HEAD + b"\x02", None], pa.binary()), {HEAD: 7}, **RULES)
    assert unsure == [0]
    assert pa.record_batch(rows).to_pylist() == [{"a": None}]


def test_one_plan_in_many_threads(module: ModuleType) -> None:
    """The interpreter's lock is not held while the kernel reads; a plan has no state."""
    plan = module.WrittenPlan(parse_columns(["a long"]), [(("record", [(0, ("integer", False))], []), pa.schema([]))], False)

    def work(seed: int) -> bool:
        chance = random.Random(seed)
        numbers = [chance.getrandbits(40) for _ in range(500)]
        rows, unsure = plan.lay(pa.array([HEAD + zigzag(number) for number in numbers], pa.binary()), {HEAD: 0}, **RULES)
        return not unsure and pa.record_batch(rows).column(0).to_pylist() == numbers

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(20)))
