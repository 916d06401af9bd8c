"""The s3 group, AWS' variables and the flush presets."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

import pytest

from frazil.assembly.catalogs import storage_options
from frazil.assembly.cloud import cloud_access, flush_policy
from frazil.assembly.load import load_settings
from frazil.assembly.settings import FrazilSettings
from frazil.kit.errors import Refused

SECRET = "do-not-show-me"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)


def settings(flags: Mapping[str, str] | None = None) -> FrazilSettings:
    return load_settings(config=None, flags=flags or {}).settings


def told(flags: Mapping[str, str] | None = None) -> dict[str, tuple[str, str]]:
    return {leaf.name: (leaf.value, leaf.source) for leaf in load_settings(config=None, flags=flags or {}).explained}


@pytest.mark.parametrize(
    ("objects", "preset", "expected"),
    [
        ("", "auto", (0, 2, 0.0)),
        ("file:///x", "auto", (0, 2, 0.0)),
        ("memory:", "auto", (0, 2, 0.0)),
        ("s3://bucket/p", "auto", (40, 4, 0.05)),
        ("s3://bucket/p", "economy", (250, 2, 0.05)),
        ("s3://bucket/p", "local", (0, 2, 0.05)),
        ("file:///x", "balanced", (40, 4, 0.0)),
    ],
)
def test_r13_presets(objects: str, preset: str, expected: tuple[int, int, float]) -> None:
    policy = flush_policy(settings({"store.objects": objects, "broker.flush_preset": preset}))
    assert (policy.interval_ms, policy.inflight, policy.hedge_share) == expected


def test_r13_what_is_set_beside_the_preset_holds() -> None:
    flags = {"store.objects": "s3://b", "broker.flush_interval_ms": "0", "broker.flush_inflight": "7", "broker.flush_hedge_percent": "0"}
    policy = flush_policy(settings(flags))
    assert (policy.interval_ms, policy.inflight, policy.hedge_share) == (0, 7, 0.0)


def test_a_preset_that_does_not_exist_is_refused() -> None:
    with pytest.raises(Refused, match="auto, local, balanced, economy"):
        flush_policy(settings({"broker.flush_preset": "fast"}))


def test_variables_of_aws_hold_where_nothing_else_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AK")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", SECRET)
    explained = told()
    assert explained["s3.region"] == ("eu-west-1", "env AWS_REGION")
    assert explained["s3.secret_access_key"] == ("********", "env AWS_SECRET_ACCESS_KEY")
    assert explained["s3.session_token"] == ("********", "env AWS_SESSION_TOKEN")
    assert SECRET not in str(explained)
    access = cloud_access(settings())
    assert (access.region, access.access_key_id, access.secret_access_key, access.session_token) == ("eu-west-1", "AK", SECRET, SECRET)
    monkeypatch.setenv("FRAZIL_S3_REGION", "us-east-1")
    assert told()["s3.region"] == ("us-east-1", "env FRAZIL_S3_REGION")


def test_a_session_token_of_other_keys_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OTHER")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", SECRET)
    flags = {"s3.access_key_id": "MINE", "s3.secret_access_key": "s"}
    assert cloud_access(settings(flags)).session_token == ""
    assert cloud_access(settings()).session_token == SECRET


def test_secrets_are_in_no_repr_of_what_is_made_of_the_settings() -> None:
    flags = {"s3.access_key_id": "AK", "s3.secret_access_key": SECRET, "s3.session_token": SECRET}
    assert SECRET not in repr(cloud_access(settings(flags)))
    assert SECRET not in repr(settings(flags))


def test_tables_of_a_catalog_without_keys_use_those_of_the_log() -> None:
    flags = {"s3.access_key_id": "AK", "s3.secret_access_key": SECRET, "s3.endpoint": "https://s3.example", "s3.region": "r"}
    options = storage_options(settings(flags))
    assert (options["s3.endpoint"], options["s3.access-key-id"], options["s3.region"]) == ("https://s3.example", "AK", "r")


def test_a_settings_file_that_is_not_yaml_is_refused_without_its_line(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(f"catalog:\n  token: {SECRET}: x\n")
    with pytest.raises(Refused, match=r"is not YAML: .*line 2") as caught:
        load_settings(config=str(path), flags={})
    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__
