"""The failure catalogue as tests: each entry runs the wrong way first, sees it break the promise, then the product on the same check.

    @failure("F08", title=…, others=…, promise=…, prevented=("frazil.landing.plan:plan_slice",), wrong=Naive("…", naive=…, ours=…))
    def test_f08_…(case: Case) -> None: …

A wrong way is either ``Naive``, a few lines that do what others do (the check gets them as ``case.way``, then the product's way), or
``Planted``, a change of product code under which the very same check must fail. docs/failures.md is made from what is registered here.
"""

from __future__ import annotations

import importlib
import pathlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

REQUIRED = tuple(
    f"F{number:02d}" for first, last in ((1, 47), (57, 67), (69, 69), (72, 77), (90, 92), (94, 94)) for number in range(first, last + 1)
)
HERE = pathlib.Path(__file__).parent
ORACLES = ("EO", "WHOLE", "LIVE", "LOUD", "BOUND", "READ", "RULE")


class Violation(AssertionError):
    """A promise of the catalogue is broken. Only this counts as the wrong way failing; any other error is a broken test."""


def must(holds: bool, oracle: str, what: object = "") -> None:
    """Raises Violation unless ``holds``; ``oracle`` is a word of docs/failures.md."""
    assert oracle in ORACLES, oracle
    if not holds:
        raise Violation(f"{oracle}: {what}")


@dataclass(frozen=True, slots=True)
class Planted:
    """A mistake put into the product: ``install`` gets a MonkeyPatch."""

    text: str
    install: Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Naive:
    """What others do, in a few lines, and what the product does instead; the check calls one of them as ``case.way``."""

    text: str
    naive: Any
    ours: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of docs/failures.md."""

    id: str
    title: str
    others: str
    promise: str
    prevented: tuple[str, ...]
    wrong: Planted | Naive
    test: str


@dataclass(slots=True)
class Case:
    """What one run of a check works with."""

    path: pathlib.Path
    """An empty directory of its own."""
    way: Any = None
    """The naive way, then ours; None for planted mistakes."""
    notes: dict[str, Any] = field(default_factory=dict)


ENTRIES: dict[str, list[Entry]] = {}


def failure(
    entry_id: str, *, title: str, others: str, promise: str, prevented: tuple[str, ...], wrong: Planted | Naive
) -> Callable[[Callable[[Case], None]], Callable[[pathlib.Path], None]]:
    """Registers a check; what pytest runs is the wrong way, which must break the promise, and then the product."""

    def register(check: Callable[[Case], None]) -> Callable[[pathlib.Path], None]:
        place = f"{pathlib.Path(check.__code__.co_filename).name}::{check.__name__}"
        entry = Entry(id=entry_id, title=title, others=others, promise=promise, prevented=prevented, wrong=wrong, test=place)
        ENTRIES.setdefault(entry_id, []).append(entry)

        def test(tmp_path: pathlib.Path) -> None:
            run(check, entry, tmp_path)

        test.__name__, test.__qualname__, test.__doc__, test.__module__ = (
            check.__name__,
            check.__qualname__,
            check.__doc__,
            check.__module__,
        )
        return test

    return register


def run(check: Callable[[Case], None], entry: Entry, path: pathlib.Path) -> None:
    """The wrong way, then the product."""
    wrong, right = path / "wrong", path / "right"
    wrong.mkdir()
    right.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        if isinstance(entry.wrong, Planted):
            entry.wrong.install(patch)
        try:
            check(Case(wrong, entry.wrong.naive if isinstance(entry.wrong, Naive) else None))
        except Violation:
            pass
        else:
            pytest.fail(f"{entry.id}: the check does not notice the wrong way: {entry.wrong.text}")
    check(Case(right, entry.wrong.ours if isinstance(entry.wrong, Naive) else None))


def load() -> dict[str, list[Entry]]:
    """All entries, in order."""
    for path in sorted(HERE.glob("test_*.py")):
        importlib.import_module(f"tests.failures.{path.stem}")
    return {name: ENTRIES[name] for name in sorted(ENTRIES)}
