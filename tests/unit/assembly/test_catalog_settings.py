"""The catalog group of settings: what it becomes, what it refuses, what is shown of it, and the doctor's word."""

from __future__ import annotations

import asyncio
import dataclasses
import pathlib

import pytest
from tests.standins.rest_catalog import DoubleRules, RestCatalogDouble

from frazil.assembly.catalogs import catalog_address, catalog_properties
from frazil.assembly.doctor import _catalog
from frazil.assembly.settings import CatalogSettings, FrazilSettings, S3Settings, StoreSettings
from frazil.catalogs.metastores.properties import glue_properties, hive_properties
from frazil.catalogs.rest.properties import rest_properties
from frazil.kit.errors import Refused
from frazil.kit.settings import Sources, load

REST = CatalogSettings(uri="https://cat.test/api", credential="me:hush-secret", warehouse="wh")


def settings(catalog: CatalogSettings, **more: object) -> FrazilSettings:
    return FrazilSettings(catalog=catalog, **more)  # type: ignore[arg-type]


def test_every_setting_is_a_property_that_the_catalog_knows() -> None:
    full = CatalogSettings(
        uri="rest+https://cat.test/api",
        warehouse="wh",
        prefix="main",
        credential="me:hush-secret",
        oauth2_server_uri="https://id.test/token",
        scope="all-apis",
        audience="aud",
        resource="res",
        sigv4=True,
        signing_name="s3tables",
        signing_region="eu-west-1",
        headers="X-A=1, X-B = two=2",
        ca_file="",
        vended=False,
        timeout_ms=5_000,
        s3_endpoint="https://s3.test",
        s3_region="eu-west-1",
        s3_access_key_id="AKID",
        s3_secret_access_key="a-key-secret",
    )
    given = rest_properties(catalog_address(settings(full)), catalog_properties(settings(full)))
    assert given.oauth2 is not None and given.sigv4 is not None
    assert (given.uri, given.warehouse, given.prefix, given.vended, given.timeout_ms) == (
        "https://cat.test/api",
        "wh",
        "main",
        False,
        5_000,
    )
    assert (given.oauth2.client_id, given.oauth2.scope, given.oauth2.audience, given.oauth2.resource) == ("me", "all-apis", "aud", "res")
    assert (given.sigv4.service, given.sigv4.region, given.sigv4.access_key_id) == ("s3tables", "eu-west-1", "AKID")
    assert given.headers == {"X-A": "1", "X-B": "two=2"}
    assert given.storage["s3.endpoint"] == "https://s3.test"
    named = {field.name for field in dataclasses.fields(CatalogSettings)}
    tested = {name for name in named if getattr(full, name) != getattr(CatalogSettings(), name)}
    assert named - tested == {"token", "ca_file", "proxy", "managed", "glue_id", "hive_locks"}


def test_the_keys_of_the_log_are_those_of_the_tables_unless_others_are_given() -> None:
    log = S3Settings(endpoint="https://s3.test", region="r", access_key_id="LOG", secret_access_key="log-secret")
    assert catalog_properties(settings(REST, s3=log))["s3.access-key-id"] == "LOG"
    own = dataclasses.replace(REST, s3_access_key_id="OWN", s3_secret_access_key="own-secret")
    assert catalog_properties(settings(own, s3=log))["s3.access-key-id"] == "OWN"
    assert "s3.session-token" not in catalog_properties(settings(own, s3=log))


def test_where_the_catalog_is() -> None:
    assert catalog_address(settings(REST)) == "rest+https://cat.test/api"
    assert catalog_address(FrazilSettings(data_dir="/x")) == "sql:///x/catalog.db"
    assert catalog_address(FrazilSettings(store=StoreSettings(catalog="rest+http://h"))) == "rest+http://h"
    with pytest.raises(Refused, match="two catalogs"):
        catalog_address(settings(REST, store=StoreSettings(catalog="sql:///y.db")))
    with pytest.raises(Refused, match=r"catalog\.uri names none"):
        catalog_properties(settings(CatalogSettings(warehouse="wh")))
    with pytest.raises(Refused, match="Name=value"):
        catalog_properties(settings(dataclasses.replace(REST, headers="nonsense")))


def test_secrets_are_masked_where_settings_are_shown() -> None:
    secrets = {
        "credential": "id:hush-1",
        "token": "hush-2",
        "headers": "X=hush-3",
        "proxy": "http://u:hush-4@p:1",
        "s3_secret_access_key": "hush-5",
        "s3_access_key_id": "hush-6",
    }
    sources = Sources(file={"catalog": secrets}, file_name="frazil.yaml", environment={}, flags={})
    shown = load(FrazilSettings, sources).explained
    assert "hush" not in "".join(leaf.value for leaf in shown)
    assert {leaf.name for leaf in shown if leaf.value == "********"} == {f"catalog.{name}" for name in secrets}


@pytest.mark.parametrize(("scope", "level", "word"), [("all", "ok", "lets us in"), ("none", "problem", "scope must be all")])
def test_the_doctor_knocks_at_the_catalog(tmp_path: pathlib.Path, scope: str, level: str, word: str) -> None:
    with RestCatalogDouble(tmp_path, DoubleRules(client_id="id", client_secret="hush-secret", scope="all")) as double:
        catalog = CatalogSettings(uri=double.uri, credential="id:hush-secret", scope=scope)
        (found,) = asyncio.run(_catalog(settings(catalog)))
    assert (found.level, word in found.text, "hush" in found.text) == (level, True, False)
    assert asyncio.run(_catalog(FrazilSettings())) == []


def test_glue_and_hive_take_the_settings_they_have() -> None:
    log = S3Settings(access_key_id="LOG", secret_access_key="LOGSECRET", region="eu-central-1")
    glue = CatalogSettings(uri="glue:", warehouse="s3://a/b", signing_region="eu-west-1", glue_id="123", proxy="http://p:1")
    found = glue_properties(catalog_address(settings(glue, s3=log)), catalog_properties(settings(glue, s3=log)))
    assert (found.sigv4.region, found.catalog_id, found.warehouse, found.proxy) == ("eu-west-1", "123", "s3://a/b", "http://p:1")
    assert found.sigv4.access_key_id == "LOG" and found.storage["s3.access-key-id"] == "LOG"
    hive = CatalogSettings(uri="hive://ms:9083", hive_locks=False, proxy="http://p:1")
    metastore = hive_properties(catalog_address(settings(hive)), catalog_properties(settings(hive)))
    assert (metastore.host, metastore.port, metastore.locks) == ("ms", 9083, False)
    with pytest.raises(Refused, match="token"):
        catalog_properties(settings(CatalogSettings(uri="hive://ms", token="a-token")))
