"""Manifests: what is taken, what is refused, and where the message points."""

from __future__ import annotations

import json
import pathlib

import pytest

from frazil.admin.manifests import Manifest, ManifestFault, read_manifests
from frazil.admin.manifests.catalogspec import NamedCatalogSpec
from frazil.admin.manifests.kinds import ProcessorSpec, TableSpec, TopicSpec
from frazil.admin.manifests.tree import BYTES_MAX

CORPUS = pathlib.Path(__file__).resolve().parents[2] / "corpus" / "manifests"
DATABRICKS = {"DATABRICKS_CLIENT_ID": "an-id", "DATABRICKS_CLIENT_SECRET": "a-secret"}


def one(text: str, **variables: str) -> Manifest:
    (manifest,) = read_manifests(text, "m.yaml", variables)
    return manifest


def refusal(text: str | bytes, **variables: str) -> str:
    with pytest.raises(ManifestFault) as caught:
        read_manifests(text, "m.yaml", variables)
    return str(caught.value)


def table(spec: str) -> str:
    return f"apiVersion: frazil.dev/v1\nkind: Table\nmetadata: {{name: shop.orders}}\nspec:\n  topics: [orders]\n{spec}"


def catalog(spec: str) -> str:
    return f"apiVersion: frazil.dev/v1\nkind: Catalog\nmetadata: {{name: lake}}\nspec:\n  type: rest\n  endpoint: https://c\n{spec}"


@pytest.mark.parametrize("option", ["catalog", "key", "manifest", "paused", "recreated"])
def test_an_option_that_has_a_key_is_not_given_as_an_option(option: str) -> None:
    assert f"spec.options: option {option!r} is written as " in refusal(table(f"  options: {{{option}: x}}\n"))


# --- the three documents as they stand -------------------------------------------------------------------------------


def read_processor(name: str) -> ProcessorSpec:
    (manifest,) = read_manifests((CORPUS / name).read_bytes(), name, DATABRICKS)
    assert (manifest.api_version, manifest.kind) == ("kafscale.io/v1", "IcebergProcessor")
    assert isinstance(manifest.spec, ProcessorSpec)
    return manifest.spec


def test_polaris_field_for_field() -> None:
    spec = read_processor("polaris.yaml")
    assert spec.source.topics == ("events",)
    assert (spec.source.s3.bucket, spec.source.s3.prefix) == ("kafscale-data", "segments/")
    catalog = spec.sink.catalog
    assert (catalog.type, catalog.endpoint) == ("polaris", "https://polaris.internal:8181/api/catalog")
    assert catalog.warehouse == "s3://lakehouse/warehouse"
    assert catalog.credentials is not None and catalog.credentials.secret_ref == "polaris-credentials"
    assert catalog.auth is None
    assert (spec.sink.database, spec.sink.table_prefix) == ("analytics", "streaming_")
    assert (spec.processing.parallelism, spec.processing.commit_interval_seconds) == (4, 60)


def test_unity_with_oauth_field_for_field() -> None:
    spec = read_processor("unity-oauth.yaml")
    catalog = spec.sink.catalog
    assert (catalog.type, catalog.warehouse) == ("unity", "/Volumes/main/default/warehouse")
    assert catalog.auth is not None and catalog.auth.type == "oauth"
    assert catalog.auth.client_id == "an-id"
    assert catalog.auth.client_secret is not None and catalog.auth.client_secret.value == "a-secret"
    assert (spec.sink.database, spec.sink.table_prefix) == ("analytics", "")


def test_unity_with_a_secret_field_for_field() -> None:
    spec = read_processor("unity-secret.yaml")
    assert spec.source.topics == ("events", "transactions")
    assert spec.sink.catalog.credentials is not None
    assert spec.sink.catalog.credentials.secret_ref == "unity-catalog-credentials"
    assert (spec.sink.database, spec.sink.table_prefix) == ("analytics", "streaming_")


KEYS = """source topics s3 bucket prefix sink catalog endpoint warehouse credentials secretRef auth client_id client_secret database
tablePrefix processing parallelism commitIntervalSeconds"""


def test_every_key_of_the_three_documents_matters() -> None:
    """A key of them with a letter too much is refused and the right one is named: none is silently ignored."""
    seen = 0
    for name in ("polaris.yaml", "unity-oauth.yaml", "unity-secret.yaml"):
        text = (CORPUS / name).read_text()
        for key in KEYS.split():
            if f"{key}:" in text:
                message = refusal(text.replace(f"{key}:", f"{key}x:"), **DATABRICKS)
                assert f"unknown key '{key}x'; did you mean '{key}'?" in message, message
                seen += 1
    assert seen >= 40


def test_an_unset_variable_is_named_with_its_place() -> None:
    text = (CORPUS / "unity-oauth.yaml").read_text()
    assert refusal(text, DATABRICKS_CLIENT_ID="x") == (
        "m.yaml:13:24: spec.sink.catalog.auth.client_secret: variable DATABRICKS_CLIENT_SECRET is not set; "
        "export it before the command, or write the value here"
    )


# --- text ------------------------------------------------------------------------------------------------------------


def test_several_documents_in_a_file_and_empty_ones_between() -> None:
    text = "---\n---\n" + table("") + "\n---\n# nothing\n---\n" + catalog("")
    manifests = read_manifests(text, "m.yaml", {})
    assert [m.title for m in manifests] == ["Table/shop.orders", "Catalog/lake"]
    assert [m.place.line for m in manifests] == [3, 12]


def test_json_is_yaml() -> None:
    document = {"apiVersion": "frazil.dev/v1", "kind": "Topic", "metadata": {"name": "orders"}, "spec": {"partitions": 3}}
    spec = one(json.dumps(document)).spec
    assert isinstance(spec, TopicSpec) and spec.partitions == 3


def test_anchors_are_taken() -> None:
    spec = one(table("  columns: [&a 'id long']\n  commitBytes: &n 4096\n  commitIntervalSeconds: 7")).spec
    assert isinstance(spec, TableSpec) and spec.columns == ("id long",)
    spec = one("x: 1".replace("x: 1", table("  columns: &c ['a long']").replace("[orders]", "&t [orders]"))).spec
    assert isinstance(spec, TableSpec) and spec.topics == ("orders",)


BOMB = "a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [", "m.yaml:2:1: not YAML"),
        ("&a [*a]", "m.yaml:1:5: alias *a names no anchor that is complete before it"),
        ("a: *b", "alias"),
        ("x: 1\nx: 2", "m.yaml:2:1: key 'x' stands twice; the first is in line 1"),
        ("[" * 100, "m.yaml:1:33: nested deeper than 32 levels"),
        ("[" * 100_000, "m.yaml:1:"),
        ("- " * 5000, "nested deeper"),
        ("{a: " * 5000, "nested deeper"),
        (BOMB, "more than 20000 values"),
        ("[" + "1," * 30_000 + "]", "more than 20000 values"),
        ("a" * (BYTES_MAX + 1), "bytes are too many"),
        (b"\xff\xfe\xfd", "not UTF-8 text"),
        (b"kind: Topic\nx: \xc3\x28", "m.yaml:2:1: not UTF-8 text"),
        ("a: \x00", "not YAML"),
        ("a: \x01b", "not YAML"),
        ("a: !!python/object/apply:os.system ['true']", "tag 'tag:yaml.org,2002:python/object/apply:os.system' is not taken"),
        ("a: !!binary aGk=", "is not taken"),
        ("? [a, b]\n: c", "a key must be text"),
        ("? {a: b}\n: c", "a key must be text"),
        ("null: 1", "key 'null' must be text; quote it"),
        ("1.5: 1", "key '1.5' must be text"),
        ("a: {b: 1}\nc:\n  <<: {d: 2}", "m.yaml:3:3: merge keys (<<) are not taken"),
        ("%YAML 9.9\n---\na: 1", "not YAML"),
        ("just words", "want a mapping with apiVersion, kind, metadata, spec, not the text 'just words'"),
        ("[1]", "want a manifest: a mapping with apiVersion, kind, metadata, spec, not a list"),
    ],
)
def test_hostile_text_is_refused_where_it_goes_wrong(text: str | bytes, why: str) -> None:
    message = refusal(text)
    assert why.replace("want a mapping", "want a manifest: a mapping") in message or why in message, message
    assert len(message) < 600


# --- shape -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("kind: Topic", "m.yaml:1:1: key 'apiVersion' is missing"),
        ("apiVersion: frazil.dev/v1", "key 'kind' is missing"),
        ("apiVersion: frazil.dev/v2\nkind: Topic", "m.yaml:1:13: apiVersion: 'frazil.dev/v2' is not known; did you mean 'frazil.dev/v1'?"),
        ("apiVersion: frazil.dev/v1\nkind: Tabel", "m.yaml:2:7: kind: frazil.dev/v1 has no kind 'Tabel'; did you mean 'Table'?"),
        ("apiVersion: frazil.dev/v1\nkind: [Table]", "kind: want text, not a list"),
        (table("status: {}").replace("\nstatus", "\nstatus"), "status is Kubernetes' own"),
        (table("  topics: [a]"), "key 'topics' stands twice"),
        (table("  valeu: raw"), "m.yaml:6:3: spec: unknown key 'valeu'; did you mean 'value'?"),
        (table("  value: thrift"), "spec.value: 'thrift' is not known; did you mean 'string'? Known: json, json-schema, avro"),
        (table("  key: string\n  metadataColumns: false"), "m.yaml:6:8: spec.key: it says what the column _key holds"),
        (table("  commitIntervalSeconds: 0"), "m.yaml:6:26: spec.commitIntervalSeconds: 0 is not from 1 to 86400"),
        (table("  commitIntervalSeconds: '5'"), "want a whole number, not the text '5'"),
        (table("  commitIntervalSeconds: 5.5"), "want a whole number, not 5.5, which YAML reads as a number"),
        (table("  commitIntervalSeconds: true"), "want a whole number, not true"),
        (table("  commitIntervalSeconds:"), "no value; leave the key out, or write"),
        (table("  paused: yes"), "want true or false, not the text 'yes'"),
        (table("  columns: id long"), "want a list, not the text 'id long', for example"),
        (table("  columns: ['id long', 'at tyme']"), "m.yaml:6:24: spec.columns[1]:"),
        (table("  columns: ['id long', 'id long']"), "m.yaml:6:24: spec.columns[1]: 'id long' stands twice"),
        (table("  columns: ['id long', 'ID int']"), "m.yaml:6:12: spec.columns:"),
        (table("  columns: ['_offset long']"), "spec.columns[0]:"),
        (table("  value: raw\n  columns: ['id long']"), "leave columns out"),
        (table("").replace("[orders]", "[orders, orders]"), "m.yaml:5:20: spec.topics[1]: 'orders' stands twice"),
        (table("").replace("[orders]", "[]"), "want at least 1 in the list"),
        (table("").replace("[orders]", "[a/b]"), "spec.topics[0]: 'a/b' is not a topic name"),
        (table("").replace("[orders]", "['..']"), "is not a topic name"),
        (table("").replace("[orders]", "[12]"), "want text, not 12, which YAML reads as a number; quote it"),
        (table("").replace("shop.orders", "orders"), "metadata.name: 'orders' is not namespace.name; write the table as spec.table"),
        (table("  table: a..b"), "spec.table: 'a..b' is not namespace.name"),
        (table("").replace("shop.orders", "../x"), "metadata.name: '../x' is not a name"),
        (catalog("  auth: {type: oauth, client_id: a}"), "spec.auth: type oauth needs the key 'client_secret'"),
        (catalog("  auth: {type: bearer}"), "needs the key 'token'"),
        (catalog("  auth: {type: oauth2}"), "did you mean 'oauth'?"),
        (catalog("  auth: {type: bearer, token: t}\n  credentials: {secretRef: s}"), "spec: credentials and auth exclude each other"),
        (catalog("").replace("https://c", "ftp://c"), "spec.endpoint: 'ftp://c' is not an http(s) URL"),
        (catalog("").replace("https://c", "https://user:pw@c"), "is not an http(s) URL without a user"),
        (catalog("  credentials: {secretRef: ../../etc}"), "spec.credentials.secretRef: '../../etc' is not a secret's name"),
        (catalog("  credentials: polaris"), "want a mapping with secretRef, not the text 'polaris'"),
    ],
)  # fmt: skip
def test_what_is_not_as_declared_is_refused(text: str, why: str) -> None:
    assert why in refusal(text)


# --- variables and secrets -------------------------------------------------------------------------------------------


def test_variables_are_put_in_as_text_and_never_read_as_yaml() -> None:
    spec = one(catalog('  warehouse: "${A}-${A}/$${A}"'), A="x: [1]").spec
    assert isinstance(spec, NamedCatalogSpec) and spec.warehouse == "x: [1]-x: [1]/${A}"
    assert one(catalog("  warehouse: ${N}"), N="12").spec.warehouse == "12"  # type: ignore[union-attr]
    assert one(catalog("  warehouse: ${N}"), N="${M}").spec.warehouse == "${M}"  # type: ignore[union-attr]


@pytest.mark.parametrize("bad", ["${}", "${1A}", "${A", "${A B}", "${A:-x}"])
def test_a_variable_that_is_not_written_right_is_refused(bad: str) -> None:
    assert "is no variable; write ${NAME}" in refusal(catalog(f"  warehouse: '{bad}'"), A="a")


def test_what_a_variable_holds_is_not_shown() -> None:
    text = catalog("").replace("https://c", "'https://${SECRET}'")
    message = refusal(text, SECRET="hun ter2")
    assert "spec.endpoint: the value is not an http(s) URL" in message and "hun" not in message
    assert "hunter2" not in refusal(catalog("  auth: {type: oauth, client_id: a, client_secret: [hunter2]}"))
    long = refusal(catalog("  auth: {type: oauth, client_id: a, client_secret: ${S}}"), S="hunter2" * 3000)
    assert "hunter2" not in long


def test_a_secret_does_not_show_itself() -> None:
    manifest = one(catalog("  auth: {type: oauth, client_id: a, client_secret: hunter2}"))
    assert "hunter2" not in repr(manifest) and "hunter2" not in str(manifest)


def test_numbers_as_topic_settings_are_taken_as_they_were_written() -> None:
    text = "apiVersion: frazil.dev/v1\nkind: Topic\nmetadata: {name: t}\nspec: {configs: {a: 010, b: true, c: 1e3, d: 'x', e: 0x1F}}"
    assert one(text).spec.configs == {"a": "010", "b": "true", "c": "1e3", "d": "x", "e": "0x1F"}  # type: ignore[union-attr]


def test_words_have_the_types_of_yaml_1_2() -> None:
    spec = one(table("  table: no.on")).spec
    assert isinstance(spec, TableSpec) and spec.table == "no.on"
    assert one(table("").replace("[orders]", "[no, on, y, 12:30]".replace("12:30", "off"))).spec.topics == ("no", "on", "y", "off")  # type: ignore[union-attr]


def test_the_reserved_columns_are_those_that_landing_adds() -> None:
    from frazil.admin.manifests.documents import _LANDED_COLUMNS
    from frazil.landing.columns import METADATA_NAMES

    assert set(_LANDED_COLUMNS) == set(METADATA_NAMES)
