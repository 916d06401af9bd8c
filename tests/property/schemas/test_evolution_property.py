"""Random histories of schemas and records under every policy: never a crash, never a lost value, the same table however records are cut
into slices, on the twin and on the kernel.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.schemas.avro_cases import framed

from frazil.schemas import DecodeOptions, Decoder, decoder_for, evolve
from frazil.schemas.framing import FramedDecoder, WriterSchema
from frazil.schemas.policy import Policy

POLICIES = [
    Policy(),
    Policy(conflict="suffix"),
    Policy(conflict="suffix", overflow="_extra"),
    Policy(overflow="_extra"),
    Policy(renames={"a": "renamed"}),
    Policy(conflict="suffix", renames={"b": "renamed"}),
]


class Table:
    """What a table is after some slices."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self.schema = pa.schema([])
        self.rows: dict[int, dict[str, Any]] = {}
        self.dead: set[int] = set()

    def take(self, values: Sequence[bytes | None], cuts: Sequence[int]) -> Table:
        bounds = [0, *sorted({cut % (len(values) + 1) for cut in cuts}), len(values)]
        for begin, end in itertools.pairwise(bounds):
            decoded = self._decoder.decode(values[begin:end], self.schema)
            self.schema = self.schema if decoded.additions is None else evolve(self.schema, decoded.additions)
            assert decoded.batch.schema.equals(self.schema)
            decoded.batch.validate(full=True)
            rejected = [begin + reject.row for reject in decoded.rejects]
            landed = [begin + row for row in decoded.rows]
            assert sorted([*rejected, *landed]) == list(range(begin, end)), "each record is a row or a dead letter, once"
            self.dead.update(rejected)
            self.rows.update(zip(landed, decoded.batch.to_pylist(), strict=True))
        return self

    def picture(self) -> tuple[Any, ...]:
        """All of it, in a form that can be compared: columns that came later are null in earlier rows."""
        return (self.schema.to_string(), sorted(self.dead), [(row, _full(value, self.schema)) for row, value in sorted(self.rows.items())])


def _full(value: Any, kind: Any) -> Any:
    """A value with the nulls of fields that were added after it."""
    if value is None:
        return None
    if isinstance(kind, pa.Schema | pa.StructType):
        return {field.name: _full(value.get(field.name), field.type) for field in kind}
    if isinstance(kind, pa.ListType):
        return [_full(item, kind.value_type) for item in value]
    if isinstance(kind, pa.MapType):
        return [(key, _full(item, kind.item_type)) for key, item in value]
    return repr(value)


# --- JSON: without fractions, [] and {}: those mean what the slice they come in says (docs/json-semantics.md) ----------------

scalars = st.sampled_from([1, 2**53 + 1, "x", "2025-07-01", True, None])
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from(["n", "m"]), inner.filter(lambda value: value is not None), min_size=1, max_size=2),
        st.lists(inner.filter(lambda value: value is not None), min_size=1, max_size=2),
    ),
    max_leaves=3,
)
documents = st.lists(st.dictionaries(st.sampled_from(["a", "A", "b", "c", "_extra", "a__string"]), values, max_size=4), max_size=8)
cuts = st.lists(st.integers(0, 8), max_size=4)


@settings(max_examples=120, deadline=None)
@given(documents, cuts, st.sampled_from(POLICIES), st.sampled_from([3, 5, 1000]))
def test_json_histories(records: list[dict[str, Any]], cuts: list[int], policy: Policy, columns_max: int) -> None:
    options = DecodeOptions(reserved=frozenset({"_offset"}), columns_max=columns_max, policy=policy)
    texts = [json.dumps(record).encode() for record in records]
    whole = Table(decoder_for("json", None, options)).take(texts, ())
    parts = Table(decoder_for("json", None, options)).take(texts, cuts)
    if columns_max == 1000:
        assert parts.picture() == whole.picture()
    elif policy.suffix and policy.overflow:  # at the cap the slice decides what has room, never what lands
        assert parts.dead == whole.dead
    for row, landed in (*whole.rows.items(), *parts.rows.items()):
        lost = _lost(records[row], landed, policy)
        assert not lost, (records[row], landed, lost)
    if policy.suffix and policy.overflow:
        ambiguous = [row for row in whole.dead if not _may_be_refused(records[row])]
        assert not ambiguous, "with both, only names that meet and mixed lists are refused"


def _lost(record: Mapping[str, Any], landed: Mapping[str, Any], policy: Policy) -> list[str]:
    """The fields whose value is not in the row: in its column, in one beside, or in the column for the rest."""
    rest = json.loads(landed[policy.overflow]) if policy.overflow and landed.get(policy.overflow) else {}
    columns = {name.lower(): value for name, value in landed.items() if name != policy.overflow}
    lost = []
    for key, value in record.items():
        name = policy.renames.get(key.lower(), key.lower())
        name = name + "_" if policy.overflow and name == policy.overflow else name
        places = [found for column, found in columns.items() if column == name or column.startswith(name + "__")]
        if value is not None and not any(_holds(place, value, rest.get(key)) for place in [*places, None]):
            lost.append(key)
    return lost


def _holds(place: Any, value: Any, rest: Any) -> bool:
    """Whether ``place`` and ``rest`` together hold all of ``value``."""
    if value is None or value == rest or (value == place and type(value) is type(place)):
        return True
    if isinstance(value, dict) and isinstance(place, dict):
        parts = rest if isinstance(rest, dict) else {}
        return all(
            any(
                _holds(found, item, parts.get(key))
                for found in [place.get(key), *(inner for name, inner in place.items() if name.startswith(key + "__")), None]
            )
            for key, item in value.items()
        )
    if isinstance(value, list) and isinstance(place, list) and len(value) == len(place):
        return all(_holds(found, item, None) for found, item in zip(place, value, strict=True))
    return False


def _may_be_refused(record: Mapping[str, Any]) -> bool:
    names = [key.lower() for key in record]
    return len(set(names)) < len(names) or "a__string" in names or _is_mixed(record)


def _is_mixed(value: Any) -> bool:
    """Whether a list has items of different kinds, anywhere."""
    if isinstance(value, dict):
        return any(map(_is_mixed, value.values()))
    if isinstance(value, list):
        return len({type(item) for item in value}) > 1 or (len(value) > 1 and isinstance(value[0], list)) or any(map(_is_mixed, value))
    return False


# --- writers' schemas -----------------------------------------------------------------------------------------------------

TYPES: list[tuple[Any, list[Any]]] = [
    ("int", [0, -5]),
    ("long", [2**40]),
    ("float", [0.5]),
    ("double", [0.1]),
    ("string", ["x", ""]),
    ("boolean", [True]),
    (["null", "int"], [None, 3]),
    (["null", "string"], [None, "y"]),
    (["null", "int", "string"], [None, 1, "z"]),
    ({"type": "array", "items": "int"}, [[], [1]]),
    ({"type": "array", "items": "string"}, [["q"]]),
    ({"type": "map", "values": "long"}, [{"k": 1}]),
    ({"type": "enum", "name": "E", "symbols": ["S", "T"]}, ["S"]),
    ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, [b"\x01\x00"]),
    ({"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}, [b"\x00\x01\x00"]),
    ({"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 4}, [b"\x00\x01\x00"]),
    ({"type": "long", "logicalType": "timestamp-micros"}, [1]),
]


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[tuple[int, dict[str, Any]]]]:
    """Versions of one schema, and records with the version that each is written by."""
    schemas, choices = [], []
    for number in range(draw(st.integers(1, 4))):
        chosen = {
            name: draw(st.sampled_from(TYPES)) for name in draw(st.lists(st.sampled_from(["a", "b", "c", "d"]), unique=True, max_size=3))
        }
        fields: list[dict[str, Any]] = []
        for at, (name, (kind, _)) in enumerate(chosen.items()):
            named = {**kind, "name": f"E{number}{at}"} if isinstance(kind, dict) and kind["type"] == "enum" else kind
            alias = {"aliases": [draw(st.sampled_from(["a", "b", "c", "d"]))]} if draw(st.integers(0, 3)) == 0 else {}
            fields.append({"name": name, "type": named, **alias})
        inner = draw(st.sampled_from([None, *TYPES[:6]]))
        if inner is not None:
            fields.append({"name": "s", "type": {"type": "record", "name": f"S{number}", "fields": [{"name": "n", "type": inner[0]}]}})
            chosen["s"] = (None, [{"n": one} for one in inner[1]])
        schemas.append({"type": "record", "name": "R", "fields": fields})
        choices.append(chosen)
    records = []
    for _ in range(draw(st.integers(0, 8))):
        version = draw(st.integers(0, len(schemas) - 1))
        records.append((version, {name: draw(st.sampled_from(found)) for name, (_, found) in choices[version].items()}))
    return schemas, records


@settings(max_examples=60, deadline=None)
@given(histories(), cuts, st.sampled_from(POLICIES), st.sampled_from([2, 4, 1000]))
def test_avro_histories(
    history: tuple[list[dict[str, Any]], list[tuple[int, dict[str, Any]]]], cuts: list[int], policy: Policy, columns_max: int
) -> None:
    schemas, records = history
    written = [framed(version + 1, schemas[version], record) for version, record in records]

    def table(cut: Sequence[int], *, use_kernel: bool) -> Table:
        options = DecodeOptions(columns_max=columns_max, policy=policy, use_kernel=use_kernel)
        decoder = decoder_for("avro", None, options)
        assert isinstance(decoder, FramedDecoder)
        decoder.learn({number: WriterSchema(kind="AVRO", text=json.dumps(schema)) for number, schema in enumerate(schemas, start=1)})
        return Table(decoder).take(written, cut)

    whole = table((), use_kernel=False)
    assert table((), use_kernel=True).picture() == whole.picture()
    if columns_max == 1000:
        assert table(cuts, use_kernel=True).picture() == whole.picture()
    else:
        table(cuts, use_kernel=True)
    if policy == Policy(conflict="suffix") and columns_max == 1000:
        assert not whole.dead - _meeting(schemas, records), "a column for every type"


def _meeting(schemas: Sequence[Mapping[str, Any]], records: Sequence[tuple[int, Mapping[str, Any]]]) -> set[int]:
    """Records of schemas with aliases, which may lead two fields to one column."""
    return {row for row, (version, _) in enumerate(records) if any("aliases" in field for field in schemas[version]["fields"])}
