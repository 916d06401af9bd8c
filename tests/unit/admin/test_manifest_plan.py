"""Manifests compared with a cluster: created, changed, unchanged; one owner per table (R35); secrets stay references."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field

import pytest

from frazil.admin.manifests import ManifestFault, read_manifests
from frazil.admin.manifests.plan import Step, carry_out, plan_steps
from frazil.admin.manifests.secrets import catalog_address
from frazil.admin.manifests.wanted import LandingDefaults, WantedCatalog, WantedTopic, document_of, wanted_of
from frazil.kit.errors import Refused
from frazil.metadata.landings import LandingSpec

DEFAULTS = LandingDefaults(commit_interval_ms=5_000, commit_bytes=1 << 26)
TOPIC = "apiVersion: frazil.dev/v1\nkind: Topic\nmetadata: {name: orders}\nspec: {partitions: 3, configs: {retention.ms: 1000}}\n---\n"
TABLE = "apiVersion: frazil.dev/v1\nkind: Table\nmetadata: {name: shop.orders}\nspec: {topics: [orders]}\n---\n"
CATALOG = (
    "apiVersion: frazil.dev/v1\nkind: Catalog\nmetadata: {name: lake}\nspec:\n  type: unity\n  endpoint: https://w.example/api/2.1/unity-catalog/iceberg\n"
    "  warehouse: /Volumes/main/default/warehouse\n  auth: {type: oauth, client_id: '${ID}', client_secret: '${PW}'}\n---\n"
)
VARIABLES = {"ID": "an-id", "PW": "hunter2"}


@dataclass
class Cluster:
    """A target that keeps what it is given."""

    topics: dict[str, WantedTopic] = field(default_factory=dict)
    catalogs: dict[str, str] = field(default_factory=dict)
    landings: dict[str, LandingSpec] = field(default_factory=dict)
    writes: int = 0

    async def topic(self, name: str) -> WantedTopic | None:
        return self.topics.get(name)

    async def create_topic(self, topic: WantedTopic) -> None:
        self.writes += 1
        self.topics[topic.name] = WantedTopic(name=topic.name, partitions=topic.partitions, configs={"other": "x", **topic.configs})

    async def change_topic(self, topic: WantedTopic, before: WantedTopic) -> None:
        self.writes += 1
        self.topics[topic.name] = WantedTopic(name=topic.name, partitions=topic.partitions, configs={**before.configs, **topic.configs})

    async def catalog(self, name: str) -> str | None:
        return self.catalogs.get(name)

    async def put_catalog(self, catalog: WantedCatalog) -> None:
        self.writes += 1
        self.catalogs[catalog.name] = catalog.document

    async def landing(self, table: str) -> LandingSpec | None:
        return self.landings.get(table)

    async def put_landing(self, landing: LandingSpec) -> None:
        self.writes += 1
        self.landings[landing.table] = landing


def plan(text: str, cluster: Cluster) -> tuple[Step, ...]:
    return asyncio.run(plan_steps(wanted_of(read_manifests(text, "m.yaml", VARIABLES), DEFAULTS), cluster))


def apply(text: str, cluster: Cluster) -> dict[str, str]:
    steps = plan(text, cluster)

    async def work() -> None:
        for step in steps:
            await carry_out(step, cluster)

    asyncio.run(work())
    return {step.title: step.verdict for step in steps}


def test_apply_creates_then_changes_nothing() -> None:
    cluster = Cluster()
    text = TABLE + CATALOG + TOPIC
    assert apply(text, cluster) == {"topic orders": "created", "catalog lake": "created", "table shop.orders": "created"}
    writes = cluster.writes
    assert set(apply(text, cluster).values()) == {"unchanged"}
    assert cluster.writes == writes
    assert "".join(step.diff() for step in plan(text, cluster)) == ""


def test_what_changed_is_shown_and_done() -> None:
    cluster = Cluster()
    apply(TOPIC + TABLE, cluster)
    text = (TOPIC + TABLE).replace("partitions: 3", "partitions: 4")
    text = text.replace("topics: [orders]", "topics: [orders], value: raw, key: string")
    diff = "".join(step.diff() for step in plan(text, cluster))
    assert "-partitions: 3\n+partitions: 4\n" in diff and "-value: json\n+value: raw\n" in diff
    assert diff.startswith("--- topic orders (cluster)\n+++ topic orders (manifest)\n@@ ")
    assert set(apply(text, cluster).values()) == {"changed"}
    assert cluster.topics["orders"].partitions == 4 and cluster.landings["shop.orders"].value == "raw"
    assert cluster.landings["shop.orders"].options["key"] == "string"


def test_a_setting_that_the_manifest_does_not_name_is_left_alone() -> None:
    cluster = Cluster()
    apply(TOPIC, cluster)
    cluster.topics["orders"] = WantedTopic(name="orders", partitions=3, configs={"retention.ms": "1000", "compression.type": "zstd"})
    assert apply(TOPIC, cluster) == {"topic orders": "unchanged"}


def test_a_topic_does_not_shrink() -> None:
    cluster = Cluster()
    apply(TOPIC, cluster)
    with pytest.raises(Refused, match="cannot shrink to 2"):
        plan(TOPIC.replace("3", "2"), cluster)


def test_r35_two_manifests_that_write_one_table_are_refused() -> None:
    other = TABLE.replace("shop.orders", "mine.orders").replace("spec: {", "spec: {table: shop.orders, ")
    with pytest.raises(
        ManifestFault, match=r"m.yaml:6:1: Table/mine.orders writes table shop.orders, which Table/shop.orders at m.yaml:1:1"
    ):
        plan(TABLE + other, Cluster())
    cluster = Cluster()
    apply(TABLE, cluster)
    with pytest.raises(Refused, match=r"table shop.orders is written by Table/shop.orders, and Table/mine.orders would write it too"):
        plan(other, cluster)


def test_r35_two_processors_that_write_one_table_are_refused() -> None:
    def processor(name: str) -> str:
        return (
            f"apiVersion: kafscale.io/v1\nkind: IcebergProcessor\nmetadata: {{name: {name}}}\nspec:\n"
            "  source: {topics: [a.b, c], s3: {bucket: kafscale-data}}\n"
            "  sink: {catalog: {type: rest, endpoint: https://c}, database: d, tablePrefix: p_}\n---\n"
        )

    with pytest.raises(ManifestFault, match=r"writes table d.p_a__b, which IcebergProcessor/one"):
        plan(processor("one") + processor("two"), Cluster())
    cluster = Cluster()
    assert list(apply(processor("one"), cluster)) == ["catalog one", "table d.p_a__b", "table d.p_c"]
    assert cluster.landings["d.p_c"].options == {"catalog": "one", "manifest": "IcebergProcessor/one"}


def test_a_landing_made_by_hand_is_taken_over() -> None:
    cluster = Cluster(landings={"shop.orders": LandingSpec(table="shop.orders", topics=("orders",))})
    assert apply(TABLE, cluster) == {"table shop.orders": "changed"}


def test_options_of_a_landing_come_from_a_generic_map() -> None:
    cluster = Cluster()
    text = TABLE.replace("topics: [orders]", "topics: [orders], key: string, options: {a.b: 10, c: 'x', d: true}")
    assert apply(text, cluster) == {"table shop.orders": "created"}
    assert cluster.landings["shop.orders"].options == {"a.b": "10", "c": "x", "d": "true", "key": "string", "manifest": "Table/shop.orders"}
    assert plan(text.replace("10", "11"), cluster)[0].verdict == "changed"


def test_one_object_described_twice_is_refused() -> None:
    with pytest.raises(ManifestFault, match=r"m.yaml:6:1: Topic/orders is described at m.yaml:1:1 already"):
        plan(TOPIC + TOPIC, Cluster())


def test_a_table_in_a_catalog_that_is_nowhere_is_refused() -> None:
    text = TABLE.replace("topics: [orders]", "topics: [orders], catalog: lake")
    with pytest.raises(Refused, match="no catalog 'lake'"):
        plan(text, Cluster())
    assert apply(text + CATALOG, Cluster())["table shop.orders"] == "created"


def test_the_cluster_never_keeps_a_secret() -> None:
    cluster = Cluster()
    apply(CATALOG, cluster)
    assert "hunter2" not in cluster.catalogs["lake"] and "${PW}" in cluster.catalogs["lake"]
    with pytest.raises(ManifestFault, match=r"auth.client_secret is written out"):
        plan(CATALOG.replace("${PW}", "hunter2"), Cluster())
    with pytest.raises(ManifestFault, match="written out"):
        plan(CATALOG.replace("${PW}", "$${PW}"), Cluster())


def test_what_the_cluster_keeps_reads_back_the_same() -> None:
    cluster = Cluster()
    apply(CATALOG, cluster)
    (again,) = read_manifests(cluster.catalogs["lake"], "metadata", VARIABLES)
    (first,) = read_manifests(CATALOG, "m.yaml", VARIABLES)
    assert again.spec == first.spec
    assert json.loads(cluster.catalogs["lake"]) == {**document_of(first), "apiVersion": "frazil.dev/v1"} | {
        "spec": {**document_of(first)["spec"], "auth": {"type": "oauth", "client_id": "an-id", "client_secret": "${PW}"}}
    }


PROPERTIES = (
    "apiVersion: frazil.dev/v1\nkind: Catalog\nmetadata: {name: p}\n"
    "spec: {type: rest, endpoint: https://p, properties: {s3.secret-access-key: '${PW}', header.X-Mine: '${PW}', "
    "token: '${PW}', s3.access-key-id: AK, vended-credentials: false}}\n"
)


def test_the_cluster_never_keeps_a_secret_among_the_properties_of_a_catalog() -> None:
    cluster = Cluster()
    (step,) = plan(PROPERTIES, cluster)
    assert "hunter2" not in step.diff() and "hunter2" not in repr(step)
    apply(PROPERTIES, cluster)
    assert "hunter2" not in cluster.catalogs["p"] and cluster.catalogs["p"].count("${PW}") == 3
    assert address(cluster.catalogs["p"]).properties == {  # what landing makes of it
        "s3.secret-access-key": "hunter2",
        "header.X-Mine": "hunter2",
        "token": "hunter2",
        "s3.access-key-id": "AK",
        "vended-credentials": "false",
    }


@pytest.mark.parametrize("name", ["s3.secret-access-key", "token", "credential", "header.Authorization", "s3.session-token"])
def test_a_secret_written_out_among_the_properties_is_refused(name: str) -> None:
    text = PROPERTIES.replace("header.X-Mine: '${PW}'", f"{name}: hunter3").replace("token: '${PW}', ", "")
    with pytest.raises(ManifestFault, match="is written out") as caught:
        plan(text.replace("s3.secret-access-key: '${PW}', ", ""), Cluster())
    assert "hunter3" not in str(caught.value) and name in str(caught.value)


# --- addresses -------------------------------------------------------------------------------------------------------


def address(text: str, secret: dict[str, str] | None = None):  # type: ignore[no-untyped-def]
    (manifest,) = read_manifests(text, "m.yaml", VARIABLES)
    return catalog_address(manifest.spec, lambda name: secret or {})  # type: ignore[arg-type]


def test_a_unity_catalog_is_addressed_as_the_service_wants_it() -> None:
    found = address(CATALOG)
    assert found.url == "rest+https://w.example/api/2.1/unity-catalog/iceberg"
    assert found.managed
    assert found.properties == {
        "warehouse": "main",
        "credential": "an-id:hunter2",
        "scope": "all-apis",
        "oauth2-server-uri": "https://w.example/oidc/v1/token",
    }
    assert "hunter2" not in repr(found)


POLARIS = (
    "apiVersion: frazil.dev/v1\nkind: Catalog\nmetadata: {name: p}\n"
    "spec: {type: polaris, endpoint: https://p/api/catalog/, warehouse: s3://a/b, credentials: {secretRef: s}}"
)


def test_a_polaris_catalog_takes_its_client_from_the_secret() -> None:
    found = address(POLARIS, {"client_id": "i", "client_secret": "p", "audience": "aud", "nonsense": "x"})
    assert found.url == "rest+https://p/api/catalog" and not found.managed
    assert found.properties == {
        "warehouse": "s3://a/b",
        "credential": "i:p",
        "scope": "PRINCIPAL_ROLE:ALL",
        "oauth2-server-uri": "https://p/api/catalog/v1/oauth/tokens",
        "audience": "aud",
    }
    assert address(POLARIS, {"token": "t"}).properties == {"warehouse": "s3://a/b", "token": "t"}


@pytest.mark.parametrize(
    ("secret", "why"), [({}, "no key client_id and no key client_secret"), ({"client_id": "i"}, "no key client_secret")]
)
def test_a_secret_that_lacks_a_key_is_refused(secret: dict[str, str], why: str) -> None:
    with pytest.raises(Refused, match=f"secret s has {why}"):
        address(POLARIS, secret or {"scope": "x"})


def test_requests_are_signed_for_aws() -> None:
    text = POLARIS.replace("credentials: {secretRef: s}", "auth: {type: sigv4, region: eu-central-1}")
    assert address(text).properties == {
        "warehouse": "s3://a/b",
        "rest.sigv4-enabled": "true",
        "rest.signing-region": "eu-central-1",
        "rest.signing-name": "glue",
    }


AWS = "auth: {type: sigv4, region: eu-central-1}"


@pytest.mark.parametrize(
    ("spec", "url", "managed", "properties"),
    [
        ("type: glue, warehouse: s3://a/b, " + AWS, "glue:", False, {"warehouse": "s3://a/b", "glue.region": "eu-central-1"}),
        ("type: glue, endpoint: https://g, " + AWS, "glue+https://g", False, {"glue.region": "eu-central-1"}),
        ("type: hive, endpoint: 'thrift://ms:9083', warehouse: s3://a/b", "hive://ms:9083", False, {"warehouse": "s3://a/b"}),
        (
            "type: s3tables, warehouse: 'arn:aws:s3tables:eu-central-1:1:bucket/b', " + AWS,
            "rest+https://s3tables.eu-central-1.amazonaws.com/iceberg",
            True,
            {
                "warehouse": "arn:aws:s3tables:eu-central-1:1:bucket/b",
                "rest.sigv4-enabled": "true",
                "rest.signing-region": "eu-central-1",
                "rest.signing-name": "s3tables",
            },
        ),
        ("type: nessie, endpoint: 'http://n:1/iceberg/dev', warehouse: w", "rest+http://n:1/iceberg/dev", False, {"warehouse": "w"}),
        (
            "type: snowflake, endpoint: 'https://a.snowflakecomputing.com/polaris/api/catalog', warehouse: w, "
            "auth: {type: oauth, client_id: i, client_secret: '${PW}'}",
            "rest+https://a.snowflakecomputing.com/polaris/api/catalog",
            False,
            {
                "warehouse": "w",
                "credential": "i:hunter2",
                "scope": "PRINCIPAL_ROLE:ALL",
                "oauth2-server-uri": "https://a.snowflakecomputing.com/polaris/api/catalog/v1/oauth/tokens",
            },
        ),
    ],
)
def test_each_product_has_its_own_defaults(spec: str, url: str, managed: bool, properties: dict[str, str]) -> None:
    found = address("apiVersion: frazil.dev/v1\nkind: Catalog\nmetadata: {name: p}\nspec: {" + spec + "}")
    assert (found.url, found.managed, dict(found.properties)) == (url, managed, properties)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("type: polaris", "endpoint"),
        ("type: glue", "auth"),
        ("type: s3tables, " + AWS, "warehouse"),
        ("type: hive, endpoint: 'http://ms'", "thrift"),
        ("type: hive, endpoint: 'thrift://ms', auth: {type: bearer, token: '${PW}'}", "Kerberos"),
        ("type: glue, auth: {type: bearer, token: '${PW}'}", "sigv4"),
    ],
)
def test_what_a_product_needs_is_asked_for(spec: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        address("apiVersion: frazil.dev/v1\nkind: Catalog\nmetadata: {name: p}\nspec: {" + spec + "}")
