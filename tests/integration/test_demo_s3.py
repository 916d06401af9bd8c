"""The demo on SeaweedFS' S3 and REST catalog, changed by nothing but a settings file."""

from __future__ import annotations

import pathlib

import pytest
from tests.demo_s3 import DEMO, local_files, run
from tests.servers import SECRET_KEY, SeaweedFs

pytestmark = [pytest.mark.server]


def test_the_demo_runs_on_s3_and_a_rest_catalog_by_configuration_only(seaweedfs: SeaweedFs, tmp_path: pathlib.Path) -> None:
    done = run(seaweedfs, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "336,776" in done.stdout
    assert "store.objects" in done.stdout  # `config explain` is shown …
    assert SECRET_KEY not in done.stdout + done.stderr + (DEMO / "dev.log").read_text()  # … and keeps its secrets
    listed = (DEMO / "bucket.txt").read_text()
    assert ".kfb" in listed
    assert "s3://lake/demo/flights/data/" in listed
    assert local_files() == []
