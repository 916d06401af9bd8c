"""The house rules that a program can check: names, sizes, sentences, one home per third party."""

from __future__ import annotations

import ast
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "frazil"
GENERATED = SOURCE / "wire" / "messages"
BANNED = {"utils", "util", "common", "core", "helpers", "helper", "base", "manager", "models", "misc"}
HOSTS = {
    "botocore": {"catalogs"},
    "hive_metastore": {"catalogs"},
    "thrift": {"catalogs"},
    "httpx": {"catalogs", "log", "schemas"},
    "pyiceberg": {"catalogs"},
    "duckdb": {"query"},
    "click": {"cli"},
    "crc32c": {"records", "segments", "log", "catalogs", "metadata"},
    "cramjam": {"records"},
    "obstore": {"objects"},
    "pyarrow": {"records", "schemas", "catalogs", "landing", "query"},
    "sqlite3": {"metadata", "catalogs"},
    "uvloop": {"assembly"},
    "yaml": {"assembly", "cli", "admin"},
}


PLANTED = "planted_by_test.py"
"""Comes and goes while another worker looks at the same files."""


def modules() -> list[pathlib.Path]:
    return [path for path in sorted(SOURCE.rglob("*.py")) if GENERATED not in path.parents and path.name != PLANTED]


def rooms() -> list[str]:
    return sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists())


def test_no_drawer_names() -> None:
    bad = [str(path.relative_to(ROOT)) for path in SOURCE.rglob("*") if path.stem in BANNED]
    assert not bad


@pytest.mark.parametrize("room", rooms())
def test_room_opens_with_one_sentence_and_few_names(room: str) -> None:
    tree = ast.parse((SOURCE / room / "__init__.py").read_text())
    docstring = ast.get_docstring(tree)
    assert docstring, f"{room} has no sentence"
    names = [
        [element.value for element in node.value.elts]  # type: ignore[attr-defined,union-attr]
        for node in tree.body
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)
    ]
    assert len(names[0] if names else []) <= 7, f"{room} exports more than seven names"


def test_files_are_at_most_500_lines() -> None:
    long = {str(p.relative_to(ROOT)): n for p in modules() if (n := len(p.read_text().splitlines())) > 500}
    assert not long


def test_functions_are_at_most_60_lines_and_take_at_most_6_parameters() -> None:
    bad = []
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = (node.end_lineno or 0) - (body[0].lineno if body else node.lineno) + 1
            arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            count = len([a for a in arguments if a.arg not in ("self", "cls")])
            click_command = any("command" in ast.unparse(d) or "option" in ast.unparse(d) for d in node.decorator_list)
            if lines > 60 or (count > 6 and not click_command):
                bad.append(f"{path.relative_to(ROOT)}:{node.name} ({lines} lines, {count} parameters)")
    assert not bad


def test_each_third_party_has_its_host_rooms() -> None:
    bad = []
    for path in modules():
        room = path.relative_to(SOURCE).parts[0]
        for node in ast.walk(ast.parse(path.read_text())):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            bad += [f"{path.relative_to(ROOT)}: {n}" for n in names if (h := HOSTS.get(n.split(".")[0])) and room not in h]
    assert not bad


def test_nothing_unfinished_is_left() -> None:
    mark = re.compile(r"\b(TODO|FIXME|XXX|HACK|NotImplementedError)\b")
    bad = [f"{p.relative_to(ROOT)}:{i}" for p in modules() for i, line in enumerate(p.read_text().splitlines(), 1) if mark.search(line)]
    assert not bad


def test_import_contract_holds() -> None:
    lint = pathlib.Path(sys.executable).parent / "lint-imports"
    result = subprocess.run([str(lint)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-3000:]
    _check_it_is_not_asleep()


def _check_it_is_not_asleep() -> None:
    """A planted import from broker to landing must turn the contract red. Part of the test above, which must not see what is planted."""
    planted = SOURCE / "broker" / PLANTED
    planted.write_text('"""Planted."""\nimport frazil.landing  # noqa: F401\n')
    try:
        lint = pathlib.Path(sys.executable).parent / "lint-imports"
        result = subprocess.run([str(lint), "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    finally:
        planted.unlink()
    assert result.returncode != 0
