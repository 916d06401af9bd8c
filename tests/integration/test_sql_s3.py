"""DuckDB reads tables in S3 with keys of the settings and with keys of the AWS chain; a table's keys reach that table only."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from tests.servers import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, SeaweedFs

from frazil.kit.errors import FrazilError
from frazil.query.ask import TableSource
from frazil.query.platforms.duckdb import DuckdbPlatform

pytestmark = [pytest.mark.server]


@pytest.fixture
def source(seaweedfs: SeaweedFs, tmp_path: pathlib.Path) -> TableSource:
    """A table of PyIceberg's in the bucket."""
    reach = {"s3.endpoint": seaweedfs.s3, "s3.region": REGION, "s3.access-key-id": ACCESS_KEY, "s3.secret-access-key": SECRET_KEY}
    catalog = SqlCatalog("t", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"s3://{BUCKET}/{seaweedfs.new_prefix()}", **reach)
    try:
        catalog.create_namespace("a")
        data = pa.table({"i": [1, 2, 3]})
        table = catalog.create_table("a.b", data.schema)
        table.append(data)
        return TableSource(name="a.b", metadata_location=table.metadata_location, location=table.location(), storage=reach)
    finally:
        catalog.engine.dispose()


def asked(source: TableSource) -> object:
    return DuckdbPlatform().run("SELECT sum(i) FROM a.b", [source]).rows[0][0]


def test_with_keys_of_the_settings(source: TableSource) -> None:
    assert asked(source) == 6


def test_with_keys_of_the_aws_chain(source: TableSource, monkeypatch: pytest.MonkeyPatch) -> None:
    keyless = {name: value for name, value in source.storage.items() if "key" not in name}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    assert asked(TableSource(name="a.b", metadata_location=source.metadata_location, location=source.location, storage=keyless)) == 6


def test_wrong_keys_are_told_without_the_secret(source: TableSource) -> None:
    storage = {**source.storage, "s3.secret-access-key": "not-the-secret"}
    with pytest.raises(FrazilError) as found:
        asked(TableSource(name="a.b", metadata_location=source.metadata_location, location=source.location, storage=storage))
    assert "403" in str(found.value)
    assert "not-the-secret" not in str(found.value)
    assert SECRET_KEY not in repr(source)
