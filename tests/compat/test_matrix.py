"""The client matrix in its small form: every client that can be had here, every codec, a few thousand records a cell."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.compat import builds, cells, rows
from tests.compat.process import Processes

pytestmark = [pytest.mark.server, pytest.mark.slow]
RECORDS = int(os.environ.get("COMPAT_MATRIX_RECORDS", "2000"))
AT_ONCE = 6
"""Clients spend most of a small cell waiting for their group."""

Found = dict[tuple[str, str], cells.Cell | str]


def fill(row: rows.Row, place: cells.Place, folder: pathlib.Path, references: cells.References) -> Found:
    """The cells of a row, or for each of them the reason why the row is empty."""
    try:
        program = rows.Program(row, folder)
    except builds.CannotBuild as error:
        return {(row.name, codec): str(error) for codec in cells.CODECS}
    with program:
        return {(row.name, codec): cells.take(program, place, codec, records=RECORDS, references=references) for codec in cells.CODECS}


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Found]:
    folder = tmp_path_factory.mktemp("matrix")
    with Processes(folder) as processes:
        processes.start("broker")
        place = cells.Place(processes.bootstrap, folder / "data")
        references = cells.References(place, RECORDS, folder)
        for codec in cells.CODECS:
            references.get(codec)
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


@pytest.fixture(scope="module")
def sealing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """A broker that seals at once and often."""
    settings = ("broker.seal_age_ms=1", "broker.upkeep_interval_ms=200", "broker.segment_bytes=65536")
    with Processes(tmp_path_factory.mktemp("sealing"), settings) as processes:
        processes.start("broker")
        yield processes


@pytest.mark.parametrize("codec", cells.CODECS)
def test_sealed_records_keep_their_codec_and_are_read_alike(sealing: Processes, codec: str, tmp_path: pathlib.Path) -> None:
    place = cells.Place(sealing.bootstrap, sealing.directory / "data")
    row = next(row for row in rows.ROWS if row.name == rows.REFERENCE)
    with rows.Program(row, tmp_path) as program:
        topic = f"{program.slug}-{codec}"
        cells.make_topic(place, topic)
        program.ask("produce", bootstrap=place.bootstrap, topic=topic, codec=codec, count=RECORDS)
        before = cells.judge_stored(place, topic, cells.Cell(row.name, codec), RECORDS)
        end = time.monotonic() + 20
        while len(list((place.data / "objects" / "default" / topic).rglob("*.kfs"))) < cells.PARTITIONS or unsealed(place, topic):
            assert time.monotonic() < end, "not sealed"
            time.sleep(0.1)
        after = cells.judge_stored(place, topic, cells.Cell(row.name, codec), RECORDS)
        assert after == before
        assert sum(cells.consume(program, place, topic, after)) == RECORDS


def unsealed(place: cells.Place, topic: str) -> bool:
    """True while records of the topic lie in a bundle only."""
    sealed = list((place.data / "objects" / "default" / topic).rglob("*.kfs"))
    ends = {partition: batches[-1].records[-1].offset for partition, batches in cells.stored.topic(place.data, topic).items()}
    lasts: dict[int, int] = {}
    for path in sealed:
        last = int.from_bytes(path.read_bytes()[-12:-4], "big")
        lasts[int(path.parent.name)] = max(last, lasts.get(int(path.parent.name), -1))
    return lasts != ends


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"codec": "none", "count": 50}, "stored with {'none': "),
        ({"codec": "lz4", "count": 49}, "49 stored"),
        ({"codec": "lz4", "count": 50, "name": "somebody"}, "headers"),
    ],
)
def test_judge_sees_what_is_wrong(sealing: Processes, asked: dict[str, Any], problem: str, tmp_path: pathlib.Path) -> None:
    """A client that sent 50 records with lz4, had it done as it was told."""
    place = cells.Place(sealing.bootstrap, sealing.directory / "data")
    row = next(row for row in rows.ROWS if row.name == rows.REFERENCE)
    topic = f"wrong{len(problem)}-lz4"
    with rows.Program(row, tmp_path) as program:
        cells.make_topic(place, topic)
        program.ask("produce", **{"bootstrap": place.bootstrap, "topic": topic, "name": topic.split("-")[0], **asked})
    with pytest.raises(AssertionError, match=problem):
        cells.judge_stored(place, topic, cells.Cell(row.name, "lz4"), 50)


def test_judge_sees_a_record_read_differently(sealing: Processes, tmp_path: pathlib.Path) -> None:
    place = cells.Place(sealing.bootstrap, sealing.directory / "data")
    row = next(row for row in rows.ROWS if row.name == rows.REFERENCE)
    with rows.Program(row, tmp_path) as program:
        cells.make_topic(place, "differs-gzip")
        program.ask("produce", bootstrap=place.bootstrap, topic="differs-gzip", codec="gzip", count=50, name="differs")
        found = cells.judge_stored(place, "differs-gzip", cells.Cell(row.name, "gzip"), 50)
        batch = next(batches for batches in found.values() if batches)[-1]
        changed = dataclasses.replace(batch, records=(*batch.records[:-1], dataclasses.replace(batch.records[-1], value=b"x")))
        found = {partition: [changed if one is batch else one for one in batches] for partition, batches in found.items()}
        with pytest.raises(AssertionError, match="was read differently"):
            cells.consume(program, place, "differs-gzip", found)
