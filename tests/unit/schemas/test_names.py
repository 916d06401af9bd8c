from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.schemas.names import NameIndex, why_unfit

RESERVED = frozenset({"_offset", "_ts"})


def test_reserved_names_are_moved_by_one() -> None:
    index = NameIndex([], RESERVED)
    names = ["_offset", "_offset_", "_Offset__", "_off", "_offsets", "offset", "_offset_x", "_ts", "x_ts", "._ts"]
    assert [index.landing_name(name) for name in names] == [
        "_offset_", "_offset__", "_Offset___", "_off", "_offsets", "offset", "_offset_x", "_ts_", "x_ts", "__ts",
    ]  # fmt: skip


@given(st.lists(st.text(alphabet="_ofset", max_size=9), unique=True), st.sets(st.sampled_from(["_offset", "_o", "o_", "__"])))
def test_the_mapping_never_meets(keys: list[str], reserved: set[str]) -> None:
    index = NameIndex([], frozenset(reserved))
    landed = [index.landing_name(key) for key in keys]
    assert len(set(landed)) == len(keys)
    assert not reserved & set(landed)
    whole = NameIndex(landed, frozenset(reserved))
    assert [whole.find(key) for key in keys] == list(range(len(keys)))


def test_exact_name_before_other_case() -> None:
    index = NameIndex(["a", "A", "b"])
    assert (index.find("a"), index.find("A"), index.find("B"), index.find("c")) == (0, 1, 2, None)


def test_a_column_with_a_dot_of_a_foreign_table() -> None:
    assert NameIndex(["a.b"]).find("a.b") == 0
    assert NameIndex(["a.b"]).find("A_B") == 0
    both = NameIndex(["a.b", "a_b"])
    assert (both.find("a.b"), both.find("a_b")) == (0, 1)


def test_add_and_drop() -> None:
    index = NameIndex(["a"], RESERVED)
    index.add("_ts_")
    assert index.find("_ts") == 1
    index.drop_last()
    assert index.find("_ts") is None
    assert index.find("A") == 0


@pytest.mark.parametrize("name", ["", " ", "a\n", "\x7f", "a\u200b", "x" * 256])
def test_names_no_column_can_have(name: str) -> None:
    assert why_unfit(name)


@pytest.mark.parametrize("name", ["a", "日本", "a b", "x" * 255, "a#b"])
def test_names_a_column_can_have(name: str) -> None:
    assert why_unfit(name) is None
