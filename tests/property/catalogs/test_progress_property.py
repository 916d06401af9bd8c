"""Progress survives both encodings, whatever sources, topics and partitions it has."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from frazil.catalogs.progress import SourcePartition, decode_inline, decode_object, encode_inline, encode_object
from frazil.kit.errors import Corrupt, Refused
from frazil.kit.names import TopicId

KEYS = st.builds(
    SourcePartition,
    st.text(max_size=20),
    st.binary(min_size=16, max_size=16).map(TopicId) | st.just(TopicId(bytes(16))),
    st.integers(0, 300),
)
PROGRESS = st.dictionaries(KEYS, st.integers(0, 2**63 - 1), max_size=30)


@given(PROGRESS)
def test_round_trip(progress: dict[SourcePartition, int]) -> None:
    assert decode_inline(json.loads(json.dumps(encode_inline(progress))), where="t") == progress
    assert decode_object(encode_object(progress), where="t") == progress


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_corrupt(data: bytes) -> None:
    for candidate in (data, b"FZPR\x01" + data):
        try:
            decode_object(candidate, where="t")
        except (Corrupt, Refused):
            continue
