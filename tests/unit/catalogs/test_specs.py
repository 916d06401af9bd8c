"""Files stay under the partition spec they were written with, whatever the table's spec is by then (F45)."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable, Table
from pyiceberg.transforms import IdentityTransform
from tests.simulation.loop import run_virtual
from tests.unit.catalogs.rig import IDENT, Rig, connect, offsets, rig, rows, source

from frazil.catalogs import Landed
from frazil.catalogs.care import Care, CareSettings
from frazil.catalogs.commit import Committed
from frazil.catalogs.port import LoadedTable
from frazil.catalogs.progress import Move
from frazil.kit.errors import Refused


@contextmanager
def foreign(it: Rig) -> Iterator[Table]:
    path = it.inner._pointers._path  # type: ignore[attr-defined]
    catalog = SqlCatalog("frazil", uri=f"sqlite:///{path}")
    try:
        yield catalog.load_table(IDENT)
    finally:
        catalog.engine.dispose()


def partition_by_identity(table: Table) -> None:
    with table.update_spec() as update:
        update.add_field("_partition", IdentityTransform(), "part")


def test_f45_a_file_written_before_the_spec_changed_is_committed_under_its_own(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        base = await it.table()
        file = await it.file(0, 10)
        with foreign(it) as table:
            partition_by_identity(table)
            table.append(rows(100, 110, partition=3))
        outcome = await it.committer.commit(Landed(base=base, files=[file], moves={source(): Move(None, 10)}))
        assert isinstance(outcome, Committed)
        lines = await it.committer.lists.lines(outcome.table.metadata["snapshots"][-1])
        assert sorted((line.partition_spec_id, line.added_files_count) for line in lines) == [(0, 1), (1, 1)]
        assert offsets(outcome.table) == list(range(10))
        assert offsets(outcome.table, partition=3) == list(range(100, 110))
        (later,) = await it.writer.write(outcome.table, rows(10, 20, partition=7))
        assert (file.spec_id, file.partition, later.spec_id, later.partition) == (0, (), 1, (7,))

    run_virtual(run())


def test_merging_keeps_specs_apart_and_partition_values(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        for end in range(1, 7):
            await it.land(end)
        with foreign(it) as table:
            partition_by_identity(table)
            for number in range(6):
                table.append(rows(number * 10, number * 10 + 10, partition=number % 2 + 1))
        before = partitions(await it.table())
        care = Care(it.committer, CareSettings(manifests_max=4))
        assert await care.merge_manifests(IDENT) > 0
        table_now = await it.table()
        assert partitions(table_now) == before
        lines = await it.committer.lists.lines(table_now.metadata["snapshots"][-1])
        assert {line.partition_spec_id for line in lines} == {0, 1}
        assert len(lines) <= 4
        with connect() as connection:
            source_of = f"iceberg_scan('{table_now.metadata_location}')"
            query = f"SELECT _partition, count(*) FROM {source_of} WHERE _partition >= 1 GROUP BY 1 ORDER BY 1"
            assert connection.execute(query).fetchall() == [(1, 30), (2, 30)]
        assert offsets(table_now) == list(range(6))

    run_virtual(run())


def partitions(table: object) -> list[tuple[object, ...]]:
    found = StaticTable.from_metadata(table.metadata_location).inspect.files().to_pylist()  # type: ignore[attr-defined]
    return sorted((item["file_path"], str(item["partition"]), item["spec_id"], item["record_count"]) for item in found)


@pytest.mark.parametrize("version", [1, 3])
def test_a_table_of_another_format_version_is_refused_by_that_name(tmp_path: pathlib.Path, version: int) -> None:
    """Version 1 has no sequence numbers and version 3 has row lineage: a snapshot without or with those would damage the table."""

    async def run() -> None:
        it = await rig(tmp_path)
        base = await it.table()
        file = await it.file(0, 10)
        strange = LoadedTable(
            ident=base.ident, metadata={**base.metadata, "format-version": version}, metadata_location=base.metadata_location
        )
        with pytest.raises(Refused, match=f"format version {version}"):
            await it.writer.write(strange, rows(10, 20))
        with pytest.raises(Refused, match=f"format version {version}"):
            await it.committer.commit(Landed(base=strange, files=[file], moves={source(): Move(None, 10)}))
        assert (await it.table()).metadata == base.metadata

    run_virtual(run())
