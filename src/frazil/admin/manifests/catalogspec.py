# ruff: noqa: RUF009 - entry() makes a dataclass field, as dataclasses.field() does
"""The block that names an Iceberg catalog: in ``kind: Catalog`` and in ``spec.sink.catalog`` of an ``IcebergProcessor``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from frazil.admin.manifests.fields import Rule, Secret, entry
from frazil.admin.manifests.interpolate import is_template

TYPES: Final = ("rest", "polaris", "snowflake", "unity", "nessie", "s3tables", "glue", "hive")
_NEED_ENDPOINT: Final = ("rest", "polaris", "snowflake", "unity", "nessie", "hive")
SECRET_KEYS: Final = {
    "client_id": "OAuth2 client, with client_secret",
    "client_secret": "its secret",
    "token": "a bearer token, instead of a client",
    "scope": "OAuth2 scope; default as the type has it",
    "audience": "OAuth2 audience; default none",
    "token_endpoint": "where tokens are given out; default as the type has it",
    "s3_access_key_id": "S3 key for the tables' files, where the catalog vends none",
    "s3_secret_access_key": "its secret",
}
"""The keys of a secret that are read, and what they are."""
_URL: Final = r"https?://[^\s/?#@]+(/[^\s?#]*)?"
_PLACE: Final = r"(https?|thrift)://[^\s/?#@]+(/[^\s?#]*)?"
_SECRET_WORDS: Final = ("secret", "token", "password", "credential", "authorization", "cookie", "api-key", "apikey")
_NO_SECRETS: Final = ("vended-credentials", "header.x-iceberg-access-delegation")
_NAME: Final = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?"


def is_secret_property(name: str, written: str) -> bool:
    """Whether a property's value must not be kept or shown: by its name, and any header that is written with a variable."""
    low = name.lower()
    if low in _NO_SECRETS:
        return False
    return any(word in low for word in _SECRET_WORDS) or (low.startswith("header.") and is_template(written))


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Credentials that are kept elsewhere."""

    secret_ref: str = entry(
        Rule(
            about="name of the secret: a Kubernetes Secret, elsewhere the directory $FRAZIL_SECRETS_DIR/<name> with one file per key",
            pattern=_NAME,
            wanted="a secret's name: letters, digits, '.', '_' and '-', at most 253",
            example="polaris-credentials",
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Auth:
    """Credentials in the manifest itself, best as ``${VARIABLE}``."""

    REQUIRED_WHEN: ClassVar = (
        ("type", "oauth", ("client_id", "client_secret")),
        ("type", "bearer", ("token",)),
        ("type", "sigv4", ("region",)),
    )
    type: str = entry(
        Rule(about="oauth (OAuth2 client credentials), bearer (a token) or sigv4 (AWS signatures)", choices=("oauth", "bearer", "sigv4"))
    )
    client_id: str | None = entry(Rule(about="OAuth2 client", key="client_id", example="${CLIENT_ID}"), None)
    client_secret: Secret | None = entry(
        Rule(about="secret of the client", key="client_secret", characters_max=8192, example="${CLIENT_SECRET}"), None
    )
    token: Secret | None = entry(Rule(about="bearer token", characters_max=16384, example="${TOKEN}"), None)
    scope: str | None = entry(
        Rule(about="OAuth2 scope; default PRINCIPAL_ROLE:ALL for polaris and snowflake, all-apis for unity, else catalog"), None
    )
    audience: str | None = entry(Rule(about="OAuth2 audience"), None)
    token_endpoint: str | None = entry(
        Rule(about="where tokens are given out; default as the type has it", key="token_endpoint", pattern=_URL, wanted="an http(s) URL"),
        None,
    )
    region: str | None = entry(Rule(about="AWS region to sign for", example="eu-central-1"), None)
    service: str | None = entry(Rule(about="AWS service to sign for; default s3tables for s3tables, else glue", example="s3tables"), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSpec:
    """Where an Iceberg catalog is and how to get in."""

    EXCLUSIVE: ClassVar = (("credentials", "auth"),)
    REQUIRED_WHEN: ClassVar = (
        *(("type", kind, ("endpoint",)) for kind in _NEED_ENDPOINT),
        ("type", "s3tables", ("warehouse", "auth")),
        ("type", "glue", ("auth",)),
    )
    type: str = entry(
        Rule(
            about="kind of catalog: an Iceberg REST catalog (rest, or by product), AWS Glue by its own API, or a Hive metastore",
            choices=TYPES,
            example="polaris",
        )
    )
    endpoint: str = entry(
        Rule(
            about="address of the Iceberg REST catalog, up to but without /v1; thrift://host:9083 for hive; "
            "for glue and s3tables that of the region unless given",
            pattern=_PLACE,
            wanted="an http(s) URL without a user, a query or a fragment (thrift://… for hive)",
            example="https://polaris.internal:8181/api/catalog",
        ),
        "",
    )
    warehouse: str = entry(
        Rule(
            about="the warehouse as the catalog names it; for unity the catalog's name, which is the first part of /Volumes/<name>/…",
            example="s3://lakehouse/warehouse",
        ),
        "",
    )
    credentials: Credentials | None = entry(Rule(about="credentials that are kept elsewhere"), None)
    auth: Auth | None = entry(Rule(about="credentials in the manifest itself, best as ${VARIABLE}"), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCatalogSpec(CatalogSpec):
    """``kind: Catalog``: a catalog that tables name."""

    properties: Mapping[str, str | Secret] = entry(
        Rule(
            about="further properties in PyIceberg's words: s3.endpoint, s3.region, s3.path-style-access, header.…, vended-credentials",
            numbers_too=True,
            hides=is_secret_property,
        ),
        dict,
    )
