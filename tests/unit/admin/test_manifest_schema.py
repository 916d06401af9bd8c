"""The published JSON Schemas agree with the reader, and the corpus passes both."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import jsonschema
import pytest
import yaml
from referencing import Registry, Resource

from frazil.admin.manifests import ManifestFault, read_manifests
from frazil.admin.manifests.kinds import SPECS
from frazil.admin.manifests.schema import schema_file, schema_files

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCHEMAS = ROOT / "docs" / "schemas"
CORPUS = ROOT / "tests" / "corpus" / "manifests"


def validator(name: str = "manifest.schema.json") -> jsonschema.Draft202012Validator:
    loaded = {file.name: json.loads(file.read_text()) for file in SCHEMAS.glob("*.json")}
    registry: Any = Registry().with_resources((schema["$id"], Resource.from_contents(schema)) for schema in loaded.values())
    return jsonschema.Draft202012Validator(loaded[name], registry=registry)


def test_published_schemas_are_those_of_the_code_and_no_others() -> None:
    assert {file.name for file in SCHEMAS.glob("*.json")} == set(schema_files())


@pytest.mark.parametrize("name", sorted(schema_files()))
def test_each_schema_is_a_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads((SCHEMAS / name).read_text()))


@pytest.mark.parametrize("name", ["polaris.yaml", "unity-oauth.yaml", "unity-secret.yaml"])
def test_the_three_documents_are_valid_as_they_stand(name: str) -> None:
    validator().validate(yaml.safe_load((CORPUS / name).read_text()))


CASES: list[tuple[str, dict[str, Any]]] = [
    ("Topic", {"partitions": 3, "configs": {"retention.ms": 5, "cleanup.policy": "delete"}}),
    ("Topic", {"partitions": 0}),
    ("Topic", {"partitions": "3"}),
    ("Topic", {"topicName": "a/b"}),
    ("Topic", {"partitons": 3}),
    ("Table", {"topics": ["a"], "table": "x.y"}),
    ("Table", {"topics": [], "table": "x.y"}),
    ("Table", {"topics": ["a", "a"], "table": "x.y"}),
    ("Table", {"table": "x.y"}),
    ("Table", {"topics": ["a"], "table": "x"}),
    ("Table", {"topics": ["a"], "table": "x.y", "value": "avro"}),
    ("Table", {"topics": ["a"], "table": "x.y", "paused": "no"}),
    ("Table", {"topics": ["a"], "table": "x.y", "commitIntervalSeconds": 86_401}),
    ("Catalog", {"type": "rest", "endpoint": "https://c/x"}),
    ("Catalog", {"type": "glue", "endpoint": "https://c/x"}),
    ("Catalog", {"type": "rest", "endpoint": "c"}),
    ("Catalog", {"type": "rest"}),
    ("Catalog", {"type": "rest", "endpoint": "https://c", "auth": {"type": "bearer"}}),
    ("Catalog", {"type": "rest", "endpoint": "https://c", "auth": {"type": "bearer", "token": "t"}}),
    ("Catalog", {"type": "rest", "endpoint": "https://c", "auth": {"type": "oauth", "client_id": "t"}}),
    ("Catalog", {"type": "rest", "endpoint": "https://c", "auth": {"type": "bearer", "token": "t"}, "credentials": {"secretRef": "s"}}),
    ("Catalog", {"type": "rest", "endpoint": "https://c", "credentials": {}}),
    ("Catalog", {"type": "rest", "endpoint": "https://c", "credentials": {"secretRef": "a/b"}}),
    ("Catalog", {"type": "rest", "endpoint": "https://c", "properties": {"s3.path-style-access": True}}),
    ("Catalog", {"type": "rest", "endpoint": "https://c", "properties": {"s3.path-style-access": []}}),
]


@pytest.mark.parametrize(("kind", "spec"), CASES)
def test_schema_and_reader_say_the_same(kind: str, spec: dict[str, Any]) -> None:
    document = {"apiVersion": "frazil.dev/v1", "kind": kind, "metadata": {"name": "lake"}, "spec": spec}
    try:
        read_manifests(json.dumps(document), "m.json", {})
        taken = True
    except ManifestFault:
        taken = False
    assert validator(schema_file("frazil.dev/v1", kind)).is_valid(document) == taken
    assert validator().is_valid(document) == taken


def test_the_manifests_that_pages_show_are_taken() -> None:
    shown = 0
    for page in ("docs/manifests.md", "README.md"):
        for block in re.findall(r"```yaml\n(.*?)```", (ROOT / page).read_text(), re.S):
            if "apiVersion:" in block:
                shown += len(read_manifests(block, page, {}))
                assert all(validator().is_valid(document) for document in yaml.safe_load_all(block))
    assert shown >= 3


def test_every_kind_has_its_schema_and_its_table_in_the_page() -> None:
    page = (ROOT / "docs" / "manifests.md").read_text()
    for version, kind in SPECS:
        assert (SCHEMAS / schema_file(version, kind)).exists()
        assert f"### `{version}` `{kind}`" in page
