"""Where something stands in a manifest, and the error that says so: file, line, column, path, what, why, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from frazil.kit.errors import Refused

_SHOWN_CHARACTERS_MAX = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Line and column count from 1. ``path`` is dotted (``spec.source.topics[1]``), empty for the document itself."""

    file: str
    line: int
    column: int
    path: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" + (f": {self.path}" if self.path else "")


class ManifestFault(Refused):
    """A manifest that cannot be taken. ``place`` is the spot to change."""

    def __init__(self, place: Place, why: str) -> None:
        super().__init__(f"{place}: {why}")
        self.place = place
        self.why = why


def shown(text: str) -> str:
    """``text`` as it may stand in a message: quoted, on one line, not too long."""
    cut = text if len(text) <= _SHOWN_CHARACTERS_MAX else text[:_SHOWN_CHARACTERS_MAX] + "…"
    return repr(cut)


def nearest(word: str, known: Iterable[str]) -> str:
    """What to write instead of ``word``: the nearest known word, and all of them."""
    names = list(known)
    close = difflib.get_close_matches(word[:_SHOWN_CHARACTERS_MAX], names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}Known: {', '.join(names) or 'none'}"
