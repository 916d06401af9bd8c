"""Rows on stdout: an aligned table for people; JSON lines or YAML for programs."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
import unicodedata
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click
import yaml

FORMATS = ("table", "json", "yaml")
"""What ``--output`` takes."""


@dataclass(frozen=True, slots=True)
class Part:
    """A list inside one thing: its name in JSON, its columns, its rows."""

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


def show(columns: Sequence[str], rows: Sequence[Sequence[object]], output: str, *, verbatim: bool = False) -> None:
    """Prints rows as an aligned table, as one JSON object per line, or as a YAML list. ``verbatim``: column names are somebody else's,
    do not touch them.
    """
    if output == "json":
        for item in _objects(columns, rows, verbatim=verbatim):
            click.echo(json.dumps(item, ensure_ascii=False))
        return
    if output == "yaml":
        click.echo(_yaml(_objects(columns, rows, verbatim=verbatim)), nl=False)
        return
    titles = [_line(name) if verbatim else name.upper() for name in columns]
    cells = [[_text(cell) for cell in row] for row in rows]
    widths = [max([_width(title), *(_width(row[i]) for row in cells)]) for i, title in enumerate(titles)]
    numeric = [bool(rows) and all(isinstance(row[i], int | float | decimal.Decimal | None) for row in rows) for i in range(len(columns))]
    for line in (titles, *cells):
        blanks = [" " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True)]
        aligned = [blank + cell if right else cell + blank for cell, blank, right in zip(line, blanks, numeric, strict=True)]
        click.echo("  ".join(aligned).rstrip())


def show_detail(facts: Sequence[tuple[str, object]], parts: Sequence[Part], output: str) -> None:
    """Prints one thing and the lists in it: blocks for people, one JSON or YAML object for programs."""
    if output != "table":
        lists: list[tuple[str, object]] = [(part.name, _objects(part.columns, part.rows, verbatim=False)) for part in parts]
        show_one([*facts, *lists], output)
        return
    show_one(facts, output)
    for part in parts:
        click.echo()
        show(part.columns, part.rows, output)


def show_one(pairs: Sequence[tuple[str, object]], output: str) -> None:
    """Prints one thing as ``name  value`` lines, or as one JSON or YAML object."""
    if output != "table":
        found = {name: plain(value) for name, value in pairs}
        click.echo(_yaml(found) if output == "yaml" else json.dumps(found, ensure_ascii=False) + "\n", nl=False)
        return
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        click.echo(f"{name.ljust(width)}  {_text(value)}")


def line_of(item: Mapping[str, object], output: str) -> bytes:
    """One of many things that come one after the other: a JSON line, or a YAML document."""
    found = {name: plain(value) for name, value in item.items()}
    return ("---\n" + _yaml(found) if output == "yaml" else json.dumps(found, ensure_ascii=False) + "\n").encode("utf-8")


def _yaml(value: object) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=False, width=1 << 30)


def plain(value: object) -> object:
    """A value as JSON can say it: bytes as text if they are text, else base64; exact numbers as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no NaN and no infinity
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return text_of(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal | uuid.UUID):
        return str(value)
    return str(value)


def text_of(value: bytes) -> str:
    """UTF-8 text, or ``base64:…`` when the bytes are not text."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(value).decode("ascii")


def _text(value: object) -> str:
    shown = plain(value)
    if shown is None:
        return "-"
    return _line(shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False))


def _line(text: str) -> str:
    """``text`` on one line: a line break would end the row, a terminal's control sequence would do as it likes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _width(text: str) -> int:
    """Columns on a terminal: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _objects(columns: Sequence[str], rows: Sequence[Sequence[object]], *, verbatim: bool) -> list[dict[str, object]]:
    """Rows as JSON objects. A column name that comes again gets a number, so that no value is lost."""
    keys: list[str] = []
    for name in columns:
        key = plain_key = name if verbatim else name.replace(" ", "_")
        count = 0
        while key in keys:
            count += 1
            key = f"{plain_key}_{count}"
        keys.append(key)
    return [dict(zip(keys, (plain(cell) for cell in row), strict=True)) for row in rows]
