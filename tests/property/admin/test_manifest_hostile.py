"""Whatever the bytes are: manifests or a ManifestFault, soon, and never anything else. What the reader takes, the schema takes."""

from __future__ import annotations

import json
import pathlib
import random
import time
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.admin.test_manifest_schema import validator

from frazil.admin.manifests import ManifestFault, read_manifests
from frazil.admin.manifests.tree import parse_documents, plain

CORPUS = pathlib.Path(__file__).resolve().parents[2] / "corpus" / "manifests"
VARIABLES = {"DATABRICKS_CLIENT_ID": "i", "DATABRICKS_CLIENT_SECRET": "s"}
SOURCES = [file.read_bytes() for file in sorted(CORPUS.glob("*.yaml"))]
MORSELS = [
    *(b"&a ", b"*a", b"[", b"]", b"{", b"}", b": ", b"- ", b"\n", b"---\n", b"${", b"!!", b"<<: ", b'"', b"'", b"|\n", b"#", b"\x00"),
    *(b"\xff", b"null", b"true", b"1e999", b"0x", b"\t", b"? ", b"%", b"@", b"\xe2\x80\xa8", b"\xed\xa0\x80", b"9" * 30),
]


def mutated(chance: random.Random) -> bytes:
    data = bytearray(chance.choice(SOURCES))
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0:
                data[at:at] = chance.choice(MORSELS)
            case 1:
                del data[at : at + chance.randint(1, 20)]
            case 2:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 3:
                other = chance.choice(SOURCES)
                begin = chance.randrange(len(other))
                data[at:at] = other[begin : begin + chance.randint(1, 80)]
            case 4:
                data[at:at] = chance.choice(MORSELS) * chance.randint(2, 50)
    return bytes(data)


def test_mutated_documents_are_read_or_refused() -> None:
    chance = random.Random(20_261_201)
    check = validator()
    taken = refused = 0
    slowest = 0.0
    for _ in range(4_000):
        data = mutated(chance)
        begun = time.process_time()
        try:
            manifests = read_manifests(data, "m.yaml", VARIABLES)
        except ManifestFault as fault:
            refused += 1
            assert str(fault).startswith("m.yaml:") and "\n" not in str(fault) and len(str(fault)) < 1_000
        else:
            taken += 1
            documents = [plain(node) for node in parse_documents(data, "m.yaml")]
            assert len(documents) == len(manifests)
            assert all(check.is_valid(document) for document in documents), data
        slowest = max(slowest, time.process_time() - begun)
    assert taken > 50 and refused > 1_000
    assert slowest < 1.0


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(json_values)
def test_json_reads_as_json_does(value: Any) -> None:
    try:
        documents = parse_documents(json.dumps(value), "m.json")
    except ManifestFault:
        return  # a key that is not text to YAML, a character that YAML does not allow
    assert documents == () if value is None else [plain(node) for node in documents] == [value]


texts = st.text(alphabet="abc :-#\n'\"{}[],&*!|>%@`é漢", max_size=12)
yaml_values = st.recursive(
    st.booleans() | st.integers(-(2**60), 2**60) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(yaml_values)
def test_what_a_yaml_writer_writes_reads_the_same(value: Any) -> None:
    documents = parse_documents(yaml.safe_dump(value, allow_unicode=True), "m.yaml")
    assert [plain(node) for node in documents] == [value]


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes | str) -> None:
    try:
        read_manifests(data, "m.yaml", {})
    except ManifestFault as fault:
        assert "\n" not in str(fault)
