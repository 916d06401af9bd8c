"""The doors of Polaris and of Databricks Unity in front of SeaweedFS' Iceberg REST catalog: TLS, OAuth2, scope, audience, expiry, prefix.

What comes through is passed on to SeaweedFS under its own prefix with its own token; nothing about tables is made up here. Every request
and the reason of every refusal is in ``seen``.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import secrets
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import trustme

from tests.servers import ACCESS_KEY, SECRET_KEY, SeaweedFs


@dataclass(frozen=True, kw_only=True)
class Door:
    """What one service insists on."""

    base: str
    """Path of the REST catalog, what stands before /v1."""
    token_path: str
    client_id: str
    client_secret: str
    scope: str
    warehouse: str
    """What /v1/config must be asked with."""
    prefix: str
    """What it answers, and what every later path must begin with."""
    audience: str = ""
    maintains: bool = False
    """The service cares for its tables itself: a client that expires snapshots is refused."""


POLARIS = Door(
    base="/api/catalog",
    token_path="/api/catalog/v1/oauth/tokens",
    client_id="polaris-client",
    client_secret="polaris-secret-9f1c",
    scope="PRINCIPAL_ROLE:ALL",
    warehouse="s3://lakehouse/warehouse",
    prefix="lakehouse",
    audience="polaris-audience",
)
UNITY = Door(
    base="/api/2.1/unity-catalog/iceberg",
    token_path="/oidc/v1/token",
    client_id="databricks-client",
    client_secret="databricks-secret-77aa",
    scope="all-apis",
    warehouse="main",
    prefix="catalogs/main",
    maintains=True,
)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One request and what became of it."""

    method: str
    path: str
    status: int
    refusal: str = ""


@dataclass
class Gateway:
    """A running door. ``tokens``: token → when it ends (monotonic seconds)."""

    door: Door
    server: SeaweedFs
    seen: list[Seen] = field(default_factory=list)
    tokens: dict[str, float] = field(default_factory=dict)
    updates: list[str] = field(default_factory=list)
    """Actions of all commits that came through."""
    port: int = 0
    token_seconds: float = 3600.0
    _inner: tuple[str, float] = ("", 0.0)

    def refusals(self) -> list[str]:
        return [seen.refusal for seen in self.seen if seen.refusal]

    def inner_token(self) -> str:
        """SeaweedFS' own token."""
        token, ends = self._inner
        if time.monotonic() > ends:
            form = {"grant_type": "client_credentials", "client_id": ACCESS_KEY, "client_secret": SECRET_KEY, "scope": "catalog"}
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            status, body = self.ask("POST", "/v1/oauth/tokens", urllib.parse.urlencode(form).encode(), headers)
            assert status == 200, body
            token, ends = json.loads(body)["access_token"], time.monotonic() + 600
            self._inner = (token, ends)
        return token

    def ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        """One request to SeaweedFS."""
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(self.server.catalog).netloc, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, body or None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()


class _Refused(Exception):
    def __init__(self, status: int, kind: str, why: str) -> None:
        super().__init__(why)
        self.status, self.kind, self.why = status, kind, why


def _handler(gateway: Gateway) -> type[BaseHTTPRequestHandler]:
    door = gateway.door

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            return

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            refusal = ""
            try:
                status, answer = self._answer(body)
            except _Refused as error:
                status, refusal = error.status, error.why
                answer = json.dumps({"error": {"message": error.why, "type": error.kind, "code": error.status}}).encode()
            gateway.seen.append(Seen(method=self.command, path=self.path, status=status, refusal=refusal))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer)

        do_GET = do_POST = do_DELETE = do_HEAD = _serve

        def _answer(self, body: bytes) -> tuple[int, bytes]:
            path, _, query = self.path.partition("?")
            if path == door.token_path:
                return self._token(body)
            self._check_token()
            if path == f"{door.base}/v1/config":
                asked = urllib.parse.parse_qs(query).get("warehouse", [""])[0]
                if asked != door.warehouse:
                    raise _Refused(404, "NotFoundException", f"no warehouse {asked!r}")
                return 200, json.dumps({"defaults": {}, "overrides": {"prefix": door.prefix}}).encode()
            place = f"{door.base}/v1/{door.prefix}/"
            if not path.startswith(place):
                raise _Refused(404, "NotFoundException", f"path {path} is not under prefix {door.prefix}")
            self._check_updates(path, body)
            return self._pass_on(f"/v1/lake/{path[len(place) :]}" + (f"?{query}" if query else ""), body)

        def _token(self, body: bytes) -> tuple[int, bytes]:
            form = {name: values[0] for name, values in urllib.parse.parse_qs(body.decode()).items()}
            wanted = {
                "grant_type": "client_credentials",
                "scope": door.scope,
                "client_id": door.client_id,
                "client_secret": door.client_secret,
            }
            if door.audience:
                wanted["audience"] = door.audience
            if (basic := self.headers.get("Authorization", "")).startswith("Basic "):
                form["client_id"], _, form["client_secret"] = base64.b64decode(basic[6:]).decode().partition(":")
            for name, value in wanted.items():
                if form.get(name) != value:
                    status = 401 if name.startswith("client") else 400
                    raise _Refused(status, "invalid_request", f"token asked for with {name}={form.get(name)!r}")
            token = secrets.token_urlsafe(24)
            gateway.tokens[token] = time.monotonic() + gateway.token_seconds
            answer = {"access_token": token, "token_type": "Bearer", "expires_in": int(gateway.token_seconds), "scope": door.scope}
            answer["issued_token_type"] = "urn:ietf:params:oauth:token-type:access_token"
            return 200, json.dumps(answer).encode()

        def _check_token(self) -> None:
            kind, _, token = self.headers.get("Authorization", "").partition(" ")
            if kind != "Bearer" or token not in gateway.tokens:
                raise _Refused(401, "NotAuthorizedException", "no token of this service")
            if time.monotonic() > gateway.tokens[token]:
                raise _Refused(401, "NotAuthorizedException", "the token has ended")

        def _check_updates(self, path: str, body: bytes) -> None:
            if self.command != "POST" or "/tables/" not in path:
                return
            for update in json.loads(body).get("updates", []):
                gateway.updates.append(update["action"])
                if door.maintains and update["action"] == "remove-snapshots":
                    raise _Refused(403, "ForbiddenException", "snapshots of managed tables are expired by the service")

        def _pass_on(self, path: str, body: bytes) -> tuple[int, bytes]:
            headers = {"Authorization": f"Bearer {gateway.inner_token()}"}
            for name in ("Content-Type", "X-Iceberg-Access-Delegation", "If-None-Match", "Idempotency-Key"):
                if name in self.headers:
                    headers[name] = self.headers[name]
            return gateway.ask(self.command, path, body, headers)

    return Handler


@contextlib.contextmanager
def running_gateway(door: Door, server: SeaweedFs, authority: trustme.CA, host: str) -> Iterator[Gateway]:
    """The door on a loopback port, with a certificate for ``host``."""
    gateway = Gateway(door=door, server=server)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(host).configure_cert(context)
    listener = ThreadingHTTPServer(("127.0.0.1", 0), _handler(gateway))
    listener.daemon_threads = True
    listener.socket = context.wrap_socket(listener.socket, server_side=True, do_handshake_on_connect=False)
    gateway.port = listener.server_address[1]
    thread = threading.Thread(target=listener.serve_forever, name=f"gateway {host}", daemon=True)
    thread.start()
    try:
        yield gateway
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()
