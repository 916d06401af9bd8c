"""A strict Iceberg REST catalog on loopback: real HTTP, a real warehouse, and every fault on a script.

Requirements and updates are parsed and applied by PyIceberg, so what it accepts was not judged by our own code. It checks what real
catalogs check: token, scope, audience, resource, expiry, prefix, warehouse, delegation header; a wrong one is an answer with the reason.

    with RestCatalogDouble(directory, DoubleRules(client_id="id", client_secret="secret", scope="all-apis", prefix="main")) as double:
        double.uri            # http://127.0.0.1:port, what stands before /v1
        double.script("500/a", "ok", "409")   # what the next commits meet
        double.seen           # every request: Seen(method, path, status, headers)

Words of ``script`` (commits) — /n: not applied, /a: applied all the same:
    ok 400 401 403 404 409 409/a 429 503 500/n 500/a 502/n 504/a cut/n cut/a late(seconds) hang(seconds) garbage/a
"""

from __future__ import annotations

import base64
import json
import secrets
import socket
import threading
import time
import urllib.parse
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import load_file_io
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import update_table_metadata

from tests.standins.rest_products import as_nessie, place_outside
from tests.standins.scripted import WORD, Scripted


@dataclass(frozen=True, kw_only=True)
class DoubleRules:
    """What the catalog insists on. Empty: does not care."""

    tokens: frozenset[str] = frozenset()
    """Bearer tokens accepted besides those it issued. With no tokens and no client id everybody may come in."""
    client_id: str = ""
    client_secret: str = ""
    scope: str = ""
    audience: str = ""
    resource: str = ""
    token_path: str = "/v1/oauth/tokens"
    token_seconds: float = 3600.0
    prefix: str = ""
    warehouse: str = ""
    """The ``warehouse`` that /v1/config must be asked with."""
    delegation: bool = False
    """Loads and creates must ask for vended credentials."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers every request must carry."""
    overrides: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    page: int = 1000
    """Tables per page of a listing."""
    credentials_endpoint: bool = False
    read_only: bool = False
    """/v1/config does not offer to create tables and to commit."""
    inside: bool = False
    """As Polaris: a commit that names a file outside the table's location is refused."""
    nessie: bool = False
    """As Nessie: metadata shows the newest snapshot only, without its parent, tags and log; ``gc.enabled`` is false."""
    root: str = ""
    """Where tables are, for example s3://bucket/wh; empty: the directory."""
    io: Mapping[str, str] = field(default_factory=dict)
    """PyIceberg FileIO properties with which the catalog itself writes metadata files."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One request as it came in, and what it got (0: no answer)."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    status: int


Vend = Callable[[str, str], Mapping[str, Any]]
"""(ident, location) → more members of a load result: ``{"config": {...}}`` and/or ``{"storage-credentials": [...]}``."""


class _Refuse(Exception):
    def __init__(self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.message, self.headers = status, kind, message, dict(headers or {})


class _Cut(Exception):
    """The connection closes without an answer."""


@dataclass
class _Table:
    metadata: TableMetadata
    location: str


class RestCatalogDouble(Scripted):
    """See the module."""

    def __init__(self, directory: Path, rules: DoubleRules | None = None, *, vend: Vend | None = None) -> None:
        self.rules = rules or DoubleRules()
        self.vend = vend
        self.seen: list[Seen] = []
        self.issued: dict[str, float] = {}
        self.commits = 0
        """Commits applied."""
        self.faults: deque[str] = deque()
        self.load_faults: deque[str] = deque()
        """Words that the next loads meet."""
        self.create_faults: deque[str] = deque()
        self.said: deque[tuple[int, str]] = deque()
        self._root = self.rules.root or f"file://{directory.resolve()}"
        self._tables: dict[tuple[str, ...], _Table] = {}
        self._namespaces: set[tuple[str, ...]] = set()
        self._lock = threading.RLock()
        self.late: list[threading.Timer] = []
        self._io = load_file_io(dict(self.rules.io), self._root)
        double = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _any(self) -> None:
                double._serve(self)

            do_GET = do_POST = do_DELETE = do_HEAD = _any

            def log_message(self, *args: object) -> None:
                return

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                return  # a client that hung up

        self._server = Server(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="rest double", daemon=True)

    # --- life ----------------------------------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def end_server(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def say(self, status: int, message: str) -> None:
        """The next request for a table gets this answer."""
        self.said.append((status, message))

    def expire_tokens(self) -> None:
        """No token issued so far is accepted any more."""
        self.issued = dict.fromkeys(self.issued, 0.0)

    def metadata(self, ident: str) -> dict[str, Any]:
        return json.loads(self._tables[tuple(ident.split("."))].metadata.model_dump_json())

    def count(self, method: str, part: str) -> int:
        return sum(1 for seen in self.seen if seen.method == method and part in seen.path)

    # --- one request -----------------------------------------------------------------------------------------------------

    def _serve(self, http: BaseHTTPRequestHandler) -> None:
        body = http.rfile.read(int(http.headers.get("Content-Length") or 0))
        parts = urllib.parse.urlsplit(http.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        headers = {name.lower(): value for name, value in http.headers.items()}
        more: dict[str, str] = {}
        status, payload = 0, b""
        try:
            value = self._route(http.command, parts.path, query, headers, body)
            status = 204 if value is None else 200
            payload = b"" if value is None else value if isinstance(value, bytes) else json.dumps(value).encode()
        except _Refuse as refusal:
            status, more = refusal.status, refusal.headers
            payload = json.dumps({"error": {"message": refusal.message, "type": refusal.kind, "code": refusal.status}}).encode()
            if parts.path == self.rules.token_path:
                payload = json.dumps({"error": refusal.kind, "error_description": refusal.message}).encode()
        except _Cut:
            http.close_connection = True
        self.seen.append(Seen(method=http.command, path=parts.path, query=query, headers=headers, body=body, status=status))
        if status == 0:
            http.connection.shutdown(socket.SHUT_RDWR)
            return
        http.send_response(status)
        for name, text in more.items():
            http.send_header(name, text)
        http.send_header("Content-Type", "application/json")
        http.send_header("Content-Length", str(len(payload)))
        http.end_headers()
        if http.command != "HEAD":
            http.wfile.write(payload)

    def _route(self, method: str, path: str, query: dict[str, str], headers: dict[str, str], body: bytes) -> Any:
        if path == self.rules.token_path and method == "POST":
            return self._token(headers, body)
        self._admit(headers)
        if path == "/v1/config":
            return self._config(query)
        steps = [urllib.parse.unquote(step) for step in path.removeprefix("/v1/").split("/")]
        if self.rules.prefix:
            own = self.rules.prefix.split("/")
            if steps[: len(own)] != own:
                raise _Refuse(404, "NoSuchWarehouseException", f"no such prefix in {path}")
            steps = steps[len(own) :]
        value = json.loads(body) if body else {}
        with self._lock:
            return self._resource(method, steps, query, headers, value)

    def _resource(self, method: str, steps: list[str], query: dict[str, str], headers: dict[str, str], value: Any) -> Any:
        if steps == ["namespaces"] and method == "POST":
            return self._make_namespace(value)
        namespace = tuple(steps[1].split("\x1f")) if len(steps) > 1 else ()
        if steps[:1] != ["namespaces"] or len(steps) < 2:
            raise _Refuse(404, "NotFoundException", f"no such resource: {steps}")
        if namespace not in self._namespaces:
            raise _Refuse(404, "NoSuchNamespaceException", f"Namespace does not exist: {'.'.join(namespace)}")
        match (method, steps[2:]):
            case ("GET", []):
                return {"namespace": list(namespace), "properties": {}}
            case ("GET", ["tables"]):
                return self._list(namespace, query)
            case ("POST", ["tables"]):
                self._delegated(headers)
                return self._create(namespace, value)
            case (_, ["tables", name, *rest]):
                return self._table(method, (*namespace, name), rest, headers, value)
        raise _Refuse(404, "NotFoundException", f"no such resource: {steps}")

    def _table(self, method: str, ident: tuple[str, ...], rest: list[str], headers: dict[str, str], value: Any) -> Any:
        if self.said:
            status, message = self.said.popleft()
            raise _Refuse(status, "ScriptedException", message)
        if method in ("GET", "HEAD") and self.load_faults:
            self._meet(self.load_faults.popleft(), lambda: None)
        table = self._tables.get(ident)
        if table is None and not any(item.get("type") == "assert-create" for item in value.get("requirements", ())):
            raise _Refuse(404, "NoSuchTableException", f"Table does not exist: {'.'.join(ident)}")
        match (method, rest):
            case ("HEAD", []):
                return None
            case ("GET", []):
                self._delegated(headers)
                return self._result(ident)
            case ("GET", ["credentials"]) if self.rules.credentials_endpoint:
                return {"storage-credentials": self._vended(ident).get("storage-credentials", [])}
            case ("POST", []):
                return self._meet(self.faults.popleft() if self.faults else "ok", lambda: self._commit(ident, value))
            case ("DELETE", []):
                del self._tables[ident]
                return None
        raise _Refuse(404, "NotFoundException", f"no such resource: {rest}")

    # --- sign-in -----------------------------------------------------------------------------------------------------------

    def _token(self, headers: dict[str, str], body: bytes) -> Any:
        rules = self.rules
        if not headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
            raise _Refuse(400, "invalid_request", "the body must be form-encoded")
        form = dict(urllib.parse.parse_qsl(body.decode()))
        if headers.get("authorization", "").startswith("Basic "):
            user, _, password = base64.b64decode(headers["authorization"][6:]).decode().partition(":")
            form = {"client_id": user, "client_secret": password, **form}
        if form.get("grant_type") != "client_credentials":
            raise _Refuse(400, "unsupported_grant_type", "only client_credentials")
        if (form.get("client_id"), form.get("client_secret")) != (rules.client_id, rules.client_secret):
            raise _Refuse(401, "invalid_client", f"client {form.get('client_id')} with secret {form.get('client_secret')} is not known")
        for name in ("scope", "audience", "resource"):
            wanted = getattr(rules, name)
            if wanted and form.get(name) != wanted:
                raise _Refuse(
                    400, "invalid_scope" if name == "scope" else "invalid_target", f"{name} must be {wanted}, not {form.get(name)}"
                )
        token = f"issued-{secrets.token_hex(8)}"
        self.issued[token] = time.monotonic() + rules.token_seconds
        return {"access_token": token, "token_type": "bearer", "expires_in": int(rules.token_seconds) or 1}

    def _admit(self, headers: dict[str, str]) -> None:
        for name, wanted in self.rules.headers.items():
            if headers.get(name.lower()) != wanted:
                raise _Refuse(403, "ForbiddenException", f"header {name} is missing or wrong")
        if not self.rules.tokens and not self.rules.client_id:
            return
        token = headers.get("authorization", "").removeprefix("Bearer ")
        if token in self.rules.tokens:
            return
        if token not in self.issued:
            raise _Refuse(401, "NotAuthorizedException", f"token {token or 'missing'} is not known")
        if self.issued[token] <= time.monotonic():
            raise _Refuse(401, "AuthenticationTimeoutException", f"token {token} has expired")

    def _delegated(self, headers: dict[str, str]) -> None:
        if self.rules.delegation and headers.get("x-iceberg-access-delegation") != "vended-credentials":
            raise _Refuse(400, "BadRequestException", "X-Iceberg-Access-Delegation: vended-credentials is required")

    def _config(self, query: dict[str, str]) -> Any:
        if self.rules.warehouse and query.get("warehouse") != self.rules.warehouse:
            raise _Refuse(400, "BadRequestException", f"warehouse must be {self.rules.warehouse}, not {query.get('warehouse')}")
        overrides = {**({"prefix": self.rules.prefix} if self.rules.prefix else {}), **self.rules.overrides}
        namespaces, tables = "/v1/{prefix}/namespaces", "/v1/{prefix}/namespaces/{namespace}/tables"
        endpoints = [f"POST {namespaces}", f"GET {namespaces}/{{namespace}}", f"GET {tables}", f"POST {tables}"]
        endpoints += [f"{method} {tables}/{{table}}" for method in ("GET", "HEAD", "POST", "DELETE")]
        if self.rules.read_only:
            endpoints = [text for text in endpoints if not text.startswith(f"POST {tables}")]
        if self.rules.credentials_endpoint:
            endpoints.append(f"GET {tables}/{{table}}/credentials")
        return {"defaults": dict(self.rules.defaults), "overrides": overrides, "endpoints": endpoints}

    # --- namespaces and tables -----------------------------------------------------------------------------------------------

    def _make_namespace(self, value: Any) -> Any:
        name = tuple(value["namespace"])
        if name in self._namespaces:
            raise _Refuse(409, "AlreadyExistsException", f"Namespace already exists: {'.'.join(name)}")
        if len(name) > 1 and name[:-1] not in self._namespaces:
            raise _Refuse(404, "NoSuchNamespaceException", f"Namespace does not exist: {'.'.join(name[:-1])}")
        self._namespaces.add(name)
        return {"namespace": list(name), "properties": value.get("properties", {})}

    def _list(self, namespace: tuple[str, ...], query: dict[str, str]) -> Any:
        names = sorted(ident[-1] for ident in self._tables if ident[:-1] == namespace)
        at = int(query.get("pageToken") or 0)
        page = names[at : at + self.rules.page]
        more = str(at + self.rules.page) if at + self.rules.page < len(names) else None
        return {"identifiers": [{"namespace": list(namespace), "name": name} for name in page], "next-page-token": more}

    def _create(self, namespace: tuple[str, ...], value: Any) -> Any:
        request = CreateTableRequest.model_validate({"location": None, **value})
        ident = (*namespace, request.name)
        if ident in self._tables:
            raise _Refuse(409, "AlreadyExistsException", f"Table already exists: {'.'.join(ident)}")
        metadata = new_table_metadata(
            schema=request.table_schema,
            partition_spec=request.partition_spec or UNPARTITIONED_PARTITION_SPEC,
            sort_order=request.write_order or UNSORTED_SORT_ORDER,
            location=request.location or "/".join((self._root, *ident)),
            properties=request.properties,
        )

        def make() -> Any:
            self._tables[ident] = _Table(metadata=metadata, location=self._write(metadata, 0))
            return self._result(ident)

        return self._meet(self.create_faults.popleft() if self.create_faults else "ok", make)

    def _commit(self, ident: tuple[str, ...], value: Any) -> Any:
        try:
            request = CommitTableRequest.model_validate(value)
        except ValueError as error:
            raise _Refuse(400, "BadRequestException", f"not a commit: {error}") from error
        if (*request.identifier.namespace.root, request.identifier.name) != ident:
            raise _Refuse(400, "BadRequestException", f"identifier {request.identifier} is not that of the path")
        table = self._tables.get(ident)
        if table is None:
            raise _Refuse(404, "NoSuchTableException", f"Table does not exist: {'.'.join(ident)}")
        if self.rules.inside and (outside := place_outside(value["updates"], table.metadata.location)):
            raise _Refuse(403, "ForbiddenException", f"Invalid locations '[{outside}]' for identifier: not in the allowed locations")
        try:
            for requirement in request.requirements:
                requirement.validate(table.metadata)
            changed = update_table_metadata(table.metadata, request.updates, enforce_validation=True, metadata_location=table.location)
        except CommitFailedException as error:
            raise _Refuse(409, "CommitFailedException", str(error)) from error
        except (ValueError, TypeError) as error:
            late = "sequence number" in str(error)
            raise _Refuse(409 if late else 400, "CommitFailedException" if late else "BadRequestException", str(error)) from error
        version = int(table.location.rpartition("/")[2].split("-")[0]) + 1
        self._tables[ident] = _Table(metadata=changed, location=self._write(changed, version))
        self.commits += 1
        result = self._result(ident)
        return {"metadata-location": result["metadata-location"], "metadata": result["metadata"]}

    def _write(self, metadata: TableMetadata, version: int) -> str:
        location = f"{metadata.location}/metadata/{version:05d}-{uuid.uuid4()}.metadata.json"
        ToOutputFile.table_metadata(metadata, self._io.new_output(location))
        return location

    def _result(self, ident: tuple[str, ...]) -> dict[str, Any]:
        table = self._tables[ident]
        metadata = json.loads(table.metadata.model_dump_json())
        if self.rules.nessie:
            metadata = as_nessie(metadata)
        return {"metadata-location": table.location, "metadata": metadata, "config": {}, **self._vended(ident)}

    def _vended(self, ident: tuple[str, ...]) -> Mapping[str, Any]:
        if self.vend is None:
            return {}
        return self.vend(".".join(ident), self._tables[ident].metadata.location)

    # --- faults ----------------------------------------------------------------------------------------------------------------

    def _meet(self, word: str, apply: Callable[[], Any]) -> Any:
        found = WORD.fullmatch(word)
        assert found, word
        kind, applied, seconds = found.group(1), found.group(2), float(found.group(3) or 0)
        if kind == "ok":
            return apply()
        if kind == "late":
            self._apply_later(seconds, apply)
            raise _Cut
        if applied == "a":
            apply()
        if kind == "hang":
            self._lock.release()
            try:
                time.sleep(seconds)
            finally:
                self._lock.acquire()
            raise _Cut
        if kind == "cut":
            raise _Cut
        if kind == "garbage":
            return b"<html>not json"
        retry = {"Retry-After": str(int(seconds))} if kind in ("429", "503") and found.group(3) else {}
        raise _Refuse(int(kind), _KINDS.get(kind, "ServerError"), f"scripted {word}", retry)

    def _apply_later(self, seconds: float, apply: Callable[[], Any]) -> None:
        def arrive() -> None:
            with self._lock:
                try:
                    apply()
                except _Refuse as refusal:
                    self.seen.append(Seen(method="LATE", path=refusal.kind, query={}, headers={}, body=b"", status=refusal.status))

        timer = threading.Timer(seconds, arrive)
        timer.daemon = True
        self.late.append(timer)
        timer.start()


_KINDS = {
    "400": "BadRequestException",
    "401": "NotAuthorizedException",
    "403": "ForbiddenException",
    "404": "NoSuchTableException",
    "409": "CommitFailedException",
    "429": "TooManyRequestsException",
    "503": "ServiceUnavailableException",
    "500": "InternalServerError",
    "502": "BadGateway",
    "504": "GatewayTimeout",
}
