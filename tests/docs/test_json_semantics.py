"""docs/json-semantics.md is what the decoder is tested to do."""

from __future__ import annotations

from pathlib import Path

from tests.unit.schemas.json_cases import CASES, SLICES, tables

from frazil.schemas.port import REJECT_CODES

PAGE = Path(__file__).parents[2] / "docs" / "json-semantics.md"


def code_table() -> str:
    rows = "".join(f"| `{code}` | {meaning} |\n" for code, meaning in REJECT_CODES.items())
    return f"| code | meaning |\n| --- | --- |\n{rows}"


def test_the_tables_are_the_cases() -> None:
    assert PAGE.read_text().split("## Cases\n\n")[1] == tables()


def test_every_code_has_its_line() -> None:
    assert code_table() in PAGE.read_text()


def test_case_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))
    names = [case.name for case in SLICES]
    assert len(names) == len(set(names))
