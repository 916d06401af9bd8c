"""Where catalog credentials come from, and what the REST catalog back-end is told with them. Pure: the reader is an argument."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import urlsplit

from frazil.admin.manifests.catalogspec import SECRET_KEYS, Auth, CatalogSpec, NamedCatalogSpec
from frazil.admin.manifests.fields import Secret
from frazil.kit.errors import Refused

_SCOPES: Final = {"polaris": "PRINCIPAL_ROLE:ALL", "snowflake": "PRINCIPAL_ROLE:ALL", "unity": "all-apis"}
_SCOPE: Final = "catalog"
_MANAGED: Final = frozenset({"unity", "s3tables"})


class SecretReader(Protocol):
    """A Kubernetes Secret, or a directory of files."""

    def __call__(self, name: str) -> Mapping[str, str]:
        """The keys of one secret, of those that are known. Raises Refused when there is no such secret."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogAddress:
    """What opens a catalog. ``managed``: the service cares for its tables itself, so Frazil's care stays away."""

    url: str
    properties: Mapping[str, str] = field(repr=False)
    """In PyIceberg's words; they hold secrets."""
    managed: bool = False


def catalog_address(spec: CatalogSpec, read_secret: SecretReader) -> CatalogAddress:
    """How to open the catalog of ``spec``. Raises Refused when its secret is not there or lacks a key."""
    given = _given(spec, read_secret)
    further = spec.properties if isinstance(spec, NamedCatalogSpec) else {}
    properties = {"warehouse": _warehouse(spec)}
    properties |= {name: text.value if isinstance(text, Secret) else text for name, text in further.items()}
    if spec.auth is not None and spec.auth.type == "sigv4":
        properties |= _signing(spec, spec.auth)
    elif spec.type in ("glue", "s3tables"):
        raise Refused(f"a catalog of type {spec.type} needs auth: {{type: sigv4, region: …}}")
    if spec.type == "hive":
        _check_hive(spec, given)
    elif "token" in given:
        properties["token"] = given["token"]
    elif "client_secret" in given:
        properties |= {
            "credential": f"{given['client_id']}:{given['client_secret']}",
            "scope": given.get("scope") or _SCOPES.get(spec.type, _SCOPE),
            "oauth2-server-uri": given.get("token_endpoint") or _token_endpoint(spec),
        }
        if given.get("audience"):
            properties["audience"] = given["audience"]
    for key, name in (("s3_access_key_id", "s3.access-key-id"), ("s3_secret_access_key", "s3.secret-access-key")):
        if key in given:
            properties[name] = given[key]
    kept = {name: value for name, value in properties.items() if value}
    return CatalogAddress(url=_url(spec), properties=kept, managed=spec.type in _MANAGED)


def _url(spec: CatalogSpec) -> str:
    """The address as ``open_catalog`` wants it."""
    endpoint = spec.endpoint.rstrip("/")
    region = spec.auth.region if spec.auth is not None else ""
    if spec.type == "glue":
        return f"glue+{endpoint}" if endpoint else "glue:"
    if spec.type == "hive":
        return endpoint.replace("thrift://", "hive://", 1)
    if spec.type == "s3tables" and not endpoint:
        return f"rest+https://s3tables.{region}.amazonaws.com/iceberg"
    return f"rest+{endpoint}"


def _signing(spec: CatalogSpec, auth: Auth) -> dict[str, str]:
    if spec.type == "glue":
        return {"glue.region": auth.region or ""}
    return {
        "rest.sigv4-enabled": "true",
        "rest.signing-region": auth.region or "",
        "rest.signing-name": auth.service or ("s3tables" if spec.type == "s3tables" else "glue"),
    }


def _check_hive(spec: CatalogSpec, given: Mapping[str, str]) -> None:
    if not spec.endpoint.startswith("thrift://"):
        raise Refused("a catalog of type hive: its endpoint is thrift://host:9083")
    if "token" in given or "client_secret" in given or (spec.auth is not None and spec.auth.type == "sigv4"):
        raise Refused("a catalog of type hive: signing in to a metastore (Kerberos, tokens) is not there; leave auth away")


def _given(spec: CatalogSpec, read_secret: SecretReader) -> dict[str, str]:
    if spec.auth is not None:
        return _of_manifest(spec.auth)
    if spec.credentials is None:
        return {}
    name = spec.credentials.secret_ref
    found = {key: value for key, value in read_secret(name).items() if key in SECRET_KEYS}
    if "token" not in found and spec.type != "hive":
        missing = [key for key in ("client_id", "client_secret") if key not in found]
        if len(missing) == 1 or not ({"s3_access_key_id"} & found.keys() or not missing):
            raise Refused(f"secret {name} has no key {' and no key '.join(missing)}; give it client_id and client_secret, or token")
    return found


def _of_manifest(auth: Auth) -> dict[str, str]:
    texts = {
        "client_id": auth.client_id if auth.type == "oauth" else None,
        "client_secret": auth.client_secret.value if auth.type == "oauth" and auth.client_secret else None,
        "token": auth.token.value if auth.type == "bearer" and auth.token else None,
        "scope": auth.scope,
        "audience": auth.audience,
        "token_endpoint": auth.token_endpoint,
    }
    return {key: text for key, text in texts.items() if text is not None}


def _token_endpoint(spec: CatalogSpec) -> str:
    """Databricks gives tokens for the whole workspace; every other catalog beside its own paths, as Iceberg's REST specification has it."""
    if spec.type == "unity":
        parts = urlsplit(spec.endpoint)
        return f"{parts.scheme}://{parts.netloc}/oidc/v1/token"
    return f"{spec.endpoint.rstrip('/')}/v1/oauth/tokens"


def _warehouse(spec: CatalogSpec) -> str:
    """Unity wants a catalog's name; a volume's path begins with it: /Volumes/{catalog}/{schema}/{volume}."""
    parts = spec.warehouse.split("/")
    if spec.type == "unity" and len(parts) > 2 and parts[:2] == ["", "Volumes"]:
        return parts[2]
    return spec.warehouse
