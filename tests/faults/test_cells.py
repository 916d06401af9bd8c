"""CI form of the fault matrix: a third of the cells, in turns over the forms; the full form is ``python -m tests.faults.cells``."""

from __future__ import annotations

import pytest
from tests.faults.cells import Job, run_one
from tests.faults.onecell import ANSWERS, FORMS, POINTS

CELLS = [(point, answer) for point in POINTS for answer in ANSWERS]


@pytest.mark.parametrize("point", POINTS)
def test_a_row_of_the_fault_matrix(point: str) -> None:
    """A third of the cells of each row, so that every answer and every form is met in each of three rows."""
    for at, answer in enumerate(ANSWERS):
        number = CELLS.index((point, answer))
        if (number + POINTS.index(point)) % 3:
            continue
        sound((point, answer, (at + POINTS.index(point)) % len(FORMS), "append"))


def test_some_cells_of_tables_with_one_row_per_key() -> None:
    for number in range(3, len(CELLS), 7):
        point, answer = CELLS[number]
        sound((point, answer, number % 15, "upsert"))


def test_some_cells_of_a_route() -> None:
    for number in range(5, len(CELLS), 9):
        point, answer = CELLS[number]
        sound((point, answer, number % 15, "route"))


def sound(job: Job) -> None:
    _, outcome = run_one(job)
    assert not outcome.violations, outcome
    assert outcome.fired, outcome
