"""Avro: what fastavro writes is read as fastavro reads it, and no bytes whatsoever raise, hang or cost a neighbour."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.schemas.avro_cases import CASES, body, framed, record_of

from frazil.schemas import DecodeOptions, decoder_for
from frazil.schemas.avro.datum import datum_reader
from frazil.schemas.avro.tree import Node, parse
from frazil.schemas.framing import FRAMED_CODES, FramedDecoder, WriterSchema
from frazil.schemas.port import REJECT_CODES
from frazil.schemas.unfit import Unfit

LONG = st.integers(-(2**63), 2**63 - 1)
LEAVES = st.sampled_from(["boolean", "int", "long", "double", "bytes", "string"])


@st.composite
def schemas(draw: st.DrawFn) -> Any:
    """Schemas whose names are all different."""
    count = 0

    def make(depth: int) -> Any:
        nonlocal count
        kind = draw(st.sampled_from(["leaf", "leaf", "record", "array", "map", "optional", "enum", "fixed"] if depth else ["leaf", "enum"]))
        count += 1
        name = f"N{count}"
        match kind:
            case "record":
                fields = [{"name": f"f{at}", "type": make(depth - 1)} for at in range(draw(st.integers(1, 3)))]
                return {"type": "record", "name": name, "fields": fields}
            case "array":
                return {"type": "array", "items": make(depth - 1)}
            case "map":
                return {"type": "map", "values": make(depth - 1)}
            case "optional":
                return ["null", draw(LEAVES)]
            case "enum":
                return {"type": "enum", "name": name, "symbols": ["A", "B", "C"]}
            case "fixed":
                return {"type": "fixed", "name": name, "size": 3}
            case _:
                return draw(LEAVES)

    return make(3)


def values(schema: Any) -> st.SearchStrategy[Any]:
    if isinstance(schema, list):
        return st.none() | values(schema[1])
    kind = schema["type"] if isinstance(schema, dict) else schema
    match kind:
        case "record":
            return st.fixed_dictionaries({field["name"]: values(field["type"]) for field in schema["fields"]})
        case "array":
            return st.lists(values(schema["items"]), max_size=4)
        case "map":
            return st.dictionaries(st.text(max_size=5), values(schema["values"]), max_size=4)
        case "enum":
            return st.sampled_from(schema["symbols"])
        case "fixed":
            return st.binary(min_size=3, max_size=3)
    plain: dict[str, st.SearchStrategy[Any]] = {
        "boolean": st.booleans(),
        "int": st.integers(-(2**31), 2**31 - 1),
        "long": LONG,
        "double": st.floats(allow_nan=False),
        "bytes": st.binary(max_size=9),
        "string": st.text(max_size=9),
    }
    return plain[kind]


def shown(node: Node, raw: Any) -> Any:
    """A raw value as fastavro has it."""
    match node.kind:
        case "record":
            return {name: shown(inner, item) for (name, inner), item in zip(node.fields, raw, strict=True)}
        case "array":
            return [shown(node.inner[0], item) for item in raw]
        case "map":
            return {key: shown(node.inner[0], item) for key, item in raw}
        case _:
            return raw


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_what_fastavro_writes_is_read_as_fastavro_reads_it(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    written = body(schema, data.draw(values(schema)))
    node = parse(json.dumps(schema))
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    assert shown(node, datum_reader(node, 64)(written, 0)) == fastavro.schemaless_reader(io.BytesIO(written), parsed, None)


ALL = {"type": "record", "name": "All", "fields": [{"name": f"c{at}", "type": case.schema} for at, case in enumerate(CASES)]}
WHOLE = body(ALL, {f"c{at}": case.written[0] for at, case in enumerate(CASES)})
PLAIN = framed(2, record_of("long"), {"v": 5})


def decoder() -> FramedDecoder:
    found = decoder_for("avro", None, DecodeOptions(value_bytes_max=10_000))
    assert isinstance(found, FramedDecoder)
    found.learn({1: WriterSchema(kind="AVRO", text=json.dumps(ALL)), 2: WriterSchema(kind="AVRO", text=json.dumps(record_of("long")))})
    return found


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=4), st.integers(0, len(WHOLE)))
def test_mutated_bytes_are_a_row_or_a_reject_and_never_more(changes: list[tuple[int, int]], end: int) -> None:
    mutated = bytearray(WHOLE)
    for at, byte in changes:
        mutated[at] = byte
    values = [PLAIN, b"\0\0\0\0\x01" + mutated, b"\0\0\0\0\x01" + mutated[:end], PLAIN]
    decoded = decoder().decode(values)
    assert sorted([*decoded.rows, *(reject.row for reject in decoded.rejects)]) == [0, 1, 2, 3]
    assert decoded.batch.num_rows == len(decoded.rows)
    assert {0, 3} <= set(decoded.rows)
    decoded.batch.validate(full=True)
    assert all(reject.code in {**REJECT_CODES, **FRAMED_CODES} and 0 < len(reject.why) <= 300 for reject in decoded.rejects)


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-5, 70) | st.sampled_from(["record", "type", "R", "int", "array", "union"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "name", "fields", "items", "values", "symbols", "size", "logicalType", "precision", "scale"]),
                inner,
                max_size=5,
            )
        ),
    )
)
def test_no_schema_text_raises_anything_but_a_verdict(form: Any) -> None:
    try:
        datum_reader(parse(json.dumps(form)), 64)
    except Unfit as verdict:
        assert verdict.code == "bad-schema"
