"""The client matrix in its small form: every client that can be had here, every codec, a few thousand records a cell."""

from __future__ import annotations

import concurrent.futures
import os
import pathlib
from collections.abc import Iterator

import pytest
from tests.compat import builds, cells, rows
from tests.compat.process import Processes

pytestmark = [pytest.mark.server, pytest.mark.slow]
RECORDS = int(os.environ.get("COMPAT_MATRIX_RECORDS", "2000"))
AT_ONCE = 6
"""Clients spend most of a small cell waiting for their group."""

Found = dict[tuple[str, str], cells.Cell | str]


def fill(row: rows.Row, place: cells.Place, folder: pathlib.Path, references: dict[str, str]) -> Found:
    """The cells of a row, or for each of them the reason why the row is empty."""
    try:
        program = rows.Program(row, folder)
    except builds.CannotBuild as error:
        return {(row.name, codec): str(error) for codec in cells.CODECS}
    with program:
        return {
            (row.name, codec): cells.take(program, place, codec, records=RECORDS, reference=references[codec]) for codec in cells.CODECS
        }


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Found]:
    folder = tmp_path_factory.mktemp("matrix")
    with Processes(folder) as processes:
        processes.start("broker")
        place = cells.Place(processes.bootstrap, folder / "data")
        references = {codec: cells.reference(place, codec, records=RECORDS, known=set(), folder=folder) for codec in cells.CODECS}
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            found: Found = {}
            for part in pool.map(lambda row: fill(row, place, folder, references), rows.ROWS):
                found |= part
        yield found
        assert processes.alive("broker") and "Traceback" not in processes.log("broker"), processes.log("broker")[-5000:]


@pytest.mark.parametrize("codec", cells.CODECS)
@pytest.mark.parametrize("row", rows.ROWS, ids=lambda row: row.name)
def test_client_produces_and_consumes_with_codec(matrix: Found, row: rows.Row, codec: str) -> None:
    cell = matrix[row.name, codec]
    if isinstance(cell, str):
        pytest.skip(f"{row.name} cannot be had here: {cell}")
    assert not cell.problem, cell.problem
    assert cell.acked == cell.stored == sum(cell.own_read) == sum(cell.reference_read) == RECORDS
    assert set(cell.stored_codecs) == {codec}
