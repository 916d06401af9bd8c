"""Nothing written may rot: generated pages equal the code, named symbols and files exist, README shows the two commands."""

from __future__ import annotations

import pathlib
import re

import pytest
from tests.docs import generate

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", sorted(generate.PAGES))
def test_generated_page_equals_the_code(name: str) -> None:
    assert (ROOT / "docs" / name).read_text() == generate.PAGES[name](), "run `make generated`"


def test_readme_shows_exactly_the_two_set_up_commands() -> None:
    text = (ROOT / "README.md").read_text()
    first = re.search(r"```sh\n(.*?)```", text, re.S)
    assert first is not None
    commands = [line.split("#")[0].strip() for line in first.group(1).strip().splitlines()]
    assert commands == ["make demo", "make test"]


def test_every_linked_file_exists() -> None:
    missing = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            if not (page.parent / target).exists():
                missing.append(f"{page.relative_to(ROOT)} -> {target}")
    assert not missing


@pytest.mark.parametrize("page", ["hot-path.md", "landing-path.md"])
def test_paths_name_real_symbols(page: str) -> None:
    """Each `room/file.py:symbol` or `room.file.symbol` in the page exists in the source."""
    text = (ROOT / "docs" / page).read_text()
    named = re.findall(r"`((?:broker|log|landing|wire|records|catalogs|schemas|segments|objects|metadata)/[\w/]+\.py)(?::([\w.]+))?`", text)
    assert len(named) >= 8, "the page must name files as `room/file.py:symbol`"
    for file, symbol in named:
        source = ROOT / "src" / "frazil" / file
        assert source.exists(), file
        if symbol:
            assert re.search(rf"\b(class|def) {re.escape(symbol.split('.')[-1])}\b", source.read_text()), f"{file}:{symbol}"


def test_every_dependency_has_its_line() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs" / "dependencies.md").read_text()
    names = [re.split(r"[<>=\[]", item)[0] for item in project["dependencies"]]
    assert not [name for name in names if name not in page]
    tools = [re.split(r"[<>=\[]", item)[0] for item in project["optional-dependencies"]["dev"]]
    missing = [name for name in tools if name not in page and not name.startswith(("pytest", "types-", "pyarrow-stubs"))]
    assert not missing


def test_proof_names_every_line() -> None:
    text = (ROOT / "docs" / "proof.md").read_text()
    assert not [n for n in range(1, 9) if f"| 1.{n} |" not in text]
