"""Rows on stdout: an aligned table for people, JSON lines for programs."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import uuid
from collections.abc import Sequence

import click


def show(columns: Sequence[str], rows: Sequence[Sequence[object]], output: str) -> None:
    """Prints rows as an aligned table or as one JSON object per line."""
    if output == "json":
        for row in rows:
            click.echo(json.dumps(dict(zip(columns, (plain(cell) for cell in row), strict=True)), ensure_ascii=False))
        return
    cells = [[_text(cell) for cell in row] for row in rows]
    widths = [max([len(name), *(len(row[i]) for row in cells)]) for i, name in enumerate(columns)]
    numeric = [bool(rows) and all(isinstance(row[i], int | float | decimal.Decimal | None) for row in rows) for i in range(len(columns))]
    for line in ([name.upper() for name in columns], *cells):
        aligned = [cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(line, widths, numeric, strict=True)]
        click.echo("  ".join(aligned).rstrip())


def show_one(pairs: Sequence[tuple[str, object]], output: str) -> None:
    """Prints one thing as ``name  value`` lines or one JSON object."""
    if output == "json":
        click.echo(json.dumps({name: plain(value) for name, value in pairs}, ensure_ascii=False))
        return
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        click.echo(f"{name.ljust(width)}  {_text(value)}")


def plain(value: object) -> object:
    """A value as JSON can say it: bytes as text if they are text, else base64; exact numbers as text."""
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
    return shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)
