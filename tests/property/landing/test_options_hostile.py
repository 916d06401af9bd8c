"""Whatever text an option of a landing has, alone or beside others: it is taken or refused by name, and nothing else happens."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from frazil.kit.errors import Refused
from frazil.landing.options import OPTIONS, check_options
from frazil.metadata.landings import LandingSpec

NASTY = (
    *(
        "",
        " ",
        ",",
        ":",
        "::",
        ".",
        "..",
        "{}",
        "{",
        "}",
        "{}{}",
        "lake.{}",
        "lake.{0}",
        "lake.{x!r}",
        "%s",
        "()",
        ")(",
        "`",
        '"',
        "``",
        "\0",
        "\ud800",
    ),
    *(
        "9" * 5_000,
        "000000001" + "9" * 5_000,
        "00000100099",
        "-1",
        "+1",
        "1e400",
        "1_000",
        "٣",
        "²",
        "0x10",
        "nan",
        "inf",
        "99999999999999999999",
        "None",
        "true",
    ),
    *(
        "bucket(0, id)",
        "bucket(-1, id)",
        "bucket(²,id)",
        "bucket(" + "9" * 5_000 + ", id)",
        "bucket(16",
        "truncate(٣, id)",
        "truncate(99999999999, id)",
    ),
    *(
        "day(ts) as",
        "day()",
        "(" * 3_000,
        "day(" * 3_000 + "x" + ")" * 3_000,
        "id, id",
        "id as a, v as a",
        "a." * 3_000 + "b",
        "_timestamp",
        "hour(id)",
    ),
    *(
        "9999-99-99",
        "0000-01-01T00:00:00Z",
        "9999-12-31T23:59:59-23:59",
        "0001-01-01T00:00:00+23:59",
        "2024-02-30",
        "2024-01-01T00:00:00+99:99",
    ),
    *(
        "none",
        "op,tombstone",
        "op:",
        "op:_",
        "op:\0",
        "debezium",
        "upsert",
        "append",
        "offset",
        "id",
        "v",
        "equality",
        "field:",
        "field:type",
        "header:\0",
    ),
    *(
        "type",
        "json",
        "long",
        "suffix",
        "deadletter",
        "add",
        "a:b",
        "a:b,a:c",
        "a:b,b:a",
        "a:a",
        "x:lake.y",
        "x:lake",
        "x:.y",
        "x:a.b.c",
        "lake.events",
    ),
)
"""What breaks readers of numbers, times, names and brackets, and words that are right for one option or another."""

WORDS = st.one_of(
    st.sampled_from(NASTY),
    st.text(max_size=40),
    st.text(st.sampled_from("(),.:{}`\"' +-_019aidvtsTZ²٣\0"), max_size=30),
    st.lists(st.sampled_from(NASTY[:20] + NASTY[-45:]), min_size=2, max_size=4).map(",".join),
)
SPECS = st.builds(
    LandingSpec,
    table=st.just("lake.events"),
    topics=st.just(("t",)),
    value=st.sampled_from(("raw", "string", "json", "json-schema", "avro", "protobuf")),
    columns=st.sampled_from(((), ("id long", "v decimal(9, 2)", "ts timestamp", "s struct<a: long, l: list<string>>"))),
    metadata_columns=st.booleans(),
    options=st.one_of(
        st.dictionaries(st.sampled_from(sorted(OPTIONS)), WORDS, min_size=1, max_size=6),
        st.tuples(st.sampled_from(sorted(OPTIONS)), WORDS).map(lambda one: dict((one,))),
        st.dictionaries(st.sampled_from(sorted(OPTIONS)), WORDS, max_size=4).map(
            lambda more: {"mode": "upsert", "upsert.key": "id", "envelope": "op:what"} | more
        ),
        st.dictionaries(st.sampled_from(sorted(OPTIONS)), WORDS, max_size=4).map(
            lambda more: {"route": "field:type", "route.table": "lake.e_{}"} | more
        ),
    ),
)


@given(spec=SPECS)
@settings(deadline=None, max_examples=600)
def test_every_text_of_every_option_is_taken_or_refused_with_a_reason(spec: LandingSpec) -> None:
    judge(spec)


def test_every_hostile_text_of_every_option_alone() -> None:
    for name in OPTIONS:
        for text in NASTY:
            for columns in ((), ("id long", "v decimal(9, 2)", "ts timestamp")):
                for base in ({}, {"mode": "upsert", "upsert.key": "id"}, {"route": "field:type", "route.table": "lake.e_{}"}):
                    judge(LandingSpec(table="lake.events", topics=("t",), value="json", columns=columns, options=base | {name: text}))


@given(name=st.text(max_size=30), text=st.text(max_size=30))
@example(name="\ud800", text="")
@settings(deadline=None, max_examples=100)
def test_every_name_that_is_no_option_is_refused(name: str, text: str) -> None:
    if name not in OPTIONS:
        judge(LandingSpec(table="lake.events", topics=("t",), options={name: text}))


def judge(spec: LandingSpec) -> None:
    try:
        check_options(spec)
    except Refused as refused:
        reason = str(refused)
        assert "lake.events" in reason
        assert len(reason) < 4_000, (spec.options, reason[:300])


@pytest.mark.parametrize("text", ["00000100099", "000000001" + "9" * 5_000, "9" * 5_000])
def test_zeros_before_a_number_do_not_lift_the_cap_of_columns(text: str) -> None:
    with pytest.raises(Refused, match="a whole number from 1 to 10000"):
        check_options(LandingSpec(table="lake.events", topics=("t",), value="json", options={"evolve.columns_max": text}))


@pytest.mark.parametrize(("name", "text"), [("from", "9" * 5_000), ("to", "9" * 5_000), ("file_bytes", "9" * 5_000)])
def test_a_number_of_thousands_of_digits_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(Refused, match=f"option {name}"):
        check_options(LandingSpec(table="lake.events", topics=("t",), value="json", options={name: text}))


@pytest.mark.parametrize("name", ["partition", "sort"])
def test_a_transform_with_thousands_of_digits_is_refused_by_name(name: str) -> None:
    with pytest.raises(Refused, match=f"option {name}.*from 1 to"):
        check_options(LandingSpec(table="lake.events", topics=("t",), value="json", options={name: f"bucket({'9' * 5_000}, id)"}))
