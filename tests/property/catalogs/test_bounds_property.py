"""A truncated bound is still a bound, for any text or bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from frazil.catalogs.bounds import LENGTH_MAX, decimal_bytes, lower_binary, lower_text, upper_binary, upper_text

EDGES = st.sampled_from(["\ud7ff", "\ue000", "\U0010ffff", "a", "\x00", "é"])
TEXT = st.lists(EDGES | st.characters(exclude_categories=["Cs"]), max_size=40).map("".join)


@given(TEXT)
def test_text(value: str) -> None:
    assert lower_text(value).encode() <= value.encode()
    upper = upper_text(value)
    assert upper is None or (upper.encode() >= value.encode() and len(upper) <= LENGTH_MAX)
    assert upper is not None or set(value[:LENGTH_MAX]) == {"\U0010ffff"}


@given(st.lists(st.sampled_from([0, 1, 254, 255]) | st.integers(0, 255), max_size=40).map(bytes))
def test_binary(value: bytes) -> None:
    assert lower_binary(value) <= value
    upper = upper_binary(value)
    assert upper is None or (upper >= value and len(upper) <= LENGTH_MAX)
    assert upper is not None or set(value[:LENGTH_MAX]) == {255}


@given(st.integers(-(10**38), 10**38))
def test_decimal_is_the_shortest_twos_complement(value: int) -> None:
    data = decimal_bytes(value)
    assert int.from_bytes(data, "big", signed=True) == value
    assert len(data) == 1 or int.from_bytes(data[1:], "big", signed=True) != value
