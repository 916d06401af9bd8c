"""Properties of a REST catalog under the names that PyIceberg and Iceberg's Java client use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, urlsplit

from frazil.kit.errors import Refused

_TRUE: Final = frozenset({"true", "1", "yes", "on"})
_FALSE: Final = frozenset({"false", "0", "no", "off", ""})
_HEADER: Final = "header."
_PASSED_ON: Final = ("s3.", "client.")
_SECRET_WORDS: Final = ("secret", "token", "credential", "password", "header.", "access-key-id", "proxy")
_KNOWN: Final = frozenset(
    {
        "warehouse",
        "prefix",
        "token",
        "credential",
        "oauth2-server-uri",
        "scope",
        "audience",
        "resource",
        "rest.sigv4-enabled",
        "rest.signing-name",
        "rest.signing-region",
        "ssl.cabundle",
        "proxy",
        "vended-credentials",
        "timeout-ms",
    }
)
_TIMEOUT_MS: Final = 60_000
DEFAULT_SCOPE: Final = "catalog"
"""Iceberg's own default of the OAuth2 scope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth2Properties:
    """Client credentials and what is asked for with them (RFC 6749 §4.4)."""

    client_id: str
    """Empty when the credential has no ``id:`` part."""
    client_secret: str = field(repr=False)
    server_uri: str
    """Token endpoint."""
    scope: str = DEFAULT_SCOPE
    audience: str = ""
    resource: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SigV4Properties:
    """Signing of requests with AWS Signature Version 4. Empty keys: the usual chain (environment, profile, instance role)."""

    service: str
    region: str
    access_key_id: str = field(default="", repr=False)
    secret_access_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestProperties:
    """A REST catalog's address and everything said about it, checked."""

    uri: str
    """``https://host/path``, without ``/v1`` and trailing slash."""
    warehouse: str = ""
    prefix: str | None = None
    """Between ``/v1/`` and the resource; None: what the catalog says itself."""
    token: str = field(default="", repr=False)
    oauth2: OAuth2Properties | None = None
    sigv4: SigV4Properties | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_file: str = ""
    proxy: str = field(default="", repr=False)
    vended: bool = True
    timeout_ms: int = _TIMEOUT_MS
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    """``s3.*`` and ``client.*``: for the tables' files."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Texts that no message may show."""


def rest_properties(url: str, properties: Mapping[str, str]) -> RestProperties:
    """Checks ``rest+https://…`` and its properties. Raises Refused naming the property and what would be right."""
    uri = _uri(url)
    for name in properties:
        if name not in _KNOWN and not name.startswith((_HEADER, *_PASSED_ON)):
            raise Refused(f"catalog property {name!r} is not known; known: {', '.join(sorted(_KNOWN))}, header.*, s3.*, client.*")
    given = {name: value for name, value in properties.items() if value != ""}
    if "token" in given and "credential" in given:
        raise Refused("catalog: set token or credential, not both")
    return RestProperties(
        uri=uri,
        warehouse=given.get("warehouse", ""),
        prefix=given.get("prefix"),
        token=given.get("token", ""),
        oauth2=_oauth2(uri, given),
        sigv4=_sigv4(given),
        headers={name[len(_HEADER) :]: value for name, value in given.items() if name.startswith(_HEADER)},
        ca_file=given.get("ssl.cabundle", ""),
        proxy=given.get("proxy", ""),
        vended=flag(given, "vended-credentials", default=True),
        timeout_ms=_whole(given, "timeout-ms", _TIMEOUT_MS),
        storage={
            **({"s3.cabundle": given["ssl.cabundle"]} if "ssl.cabundle" in given else {}),
            **{name: value for name, value in given.items() if name.startswith(_PASSED_ON)},
        },
        secrets=secrets_in(given),
    )


def secrets_in(properties: Mapping[str, str]) -> frozenset[str]:
    """Values of properties that hold secrets, also the parts of ``id:secret``."""
    found: set[str] = set()
    for name, value in properties.items():
        if any(word in name for word in _SECRET_WORDS) and name not in ("oauth2-server-uri", "vended-credentials"):
            found.add(value)
            found.add(value.partition(":")[2] if name == "credential" else value)
    return frozenset(text for text in found if len(text) >= 4)


def flag(properties: Mapping[str, str], name: str, *, default: bool) -> bool:
    """A property that is true or false. Raises Refused for anything else."""
    text = properties.get(name, "true" if default else "false").strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise Refused(f"catalog property {name}: write true or false, not {text!r}")


def _uri(url: str) -> str:
    uri = url.removeprefix("rest+").removeprefix("rest:")
    parts = _split(uri, "catalog url")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise Refused(f"catalog url {_bare(url)!r}: write rest+https://host/path, the part before /v1")
    if parts.username or parts.password:
        raise Refused("catalog url: it holds a user or password; use the properties token or credential")
    return uri.rstrip("/").removesuffix("/v1").rstrip("/")


def _split(address: str, what: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError as error:
        raise Refused(f"{what}: it is no address: {error}") from None


def _bare(url: str) -> str:
    """The address without what may be secret in it."""
    return url.split("?")[0].rpartition("@")[2][:200]


def _oauth2(uri: str, given: Mapping[str, str]) -> OAuth2Properties | None:
    credential = given.get("credential")
    if credential is None:
        return None
    client_id, colon, secret = credential.partition(":")  # at the first colon, as Iceberg's Java client does
    if not colon:
        client_id, secret = "", credential
    server = given.get("oauth2-server-uri", f"{uri}/v1/oauth/tokens")
    parts = _split(server, "catalog property oauth2-server-uri")
    if parts.username is not None:
        raise Refused("catalog property oauth2-server-uri: it holds a user or password; use credential")
    if parts.scheme not in ("http", "https"):
        raise Refused(f"catalog property oauth2-server-uri: {_bare(server)!r} is not an http or https address")
    return OAuth2Properties(
        client_id=client_id,
        client_secret=secret,
        server_uri=server,
        scope=given.get("scope", DEFAULT_SCOPE),
        audience=given.get("audience", ""),
        resource=given.get("resource", ""),
    )


def _sigv4(given: Mapping[str, str]) -> SigV4Properties | None:
    if not flag(given, "rest.sigv4-enabled", default=False):
        return None
    region = given.get("rest.signing-region") or given.get("client.region") or given.get("s3.region")
    if not region:
        raise Refused("catalog: signing with SigV4 needs rest.signing-region")

    def key(name: str) -> str:
        return given.get(f"client.{name}") or given.get(f"s3.{name}", "")

    return SigV4Properties(
        service=given.get("rest.signing-name", "execute-api"),
        region=region,
        access_key_id=key("access-key-id"),
        secret_access_key=key("secret-access-key"),
        session_token=key("session-token"),
    )


def _whole(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name, str(default))
    if not text.isdigit() or int(text) == 0:
        raise Refused(f"catalog property {name}: write a whole number of milliseconds, not {text[:40]!r}")
    return int(text)
