"""A strict AWS Glue Data Catalog on loopback: real HTTP, real signatures, versions that decide, limits that refuse, faults on a script.

moto's Glue takes an UpdateTable with a stale VersionId; this one refuses it, as the API reference has it (ConcurrentModificationException).

    with GlueDouble() as double:
        double.uri                            # http://127.0.0.1:port
        double.script("cut/a", "ok", "500/n")  # what the next changes of tables meet
        double.entry("lake", "events")        # an entry as it stands

Words — /n: not applied, /a: applied all the same:
    ok conflict conflict/a throttled 500/n 500/a cut/n cut/a late(seconds) expired denied
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import socket
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.standins.scripted import WORD, Scripted

REGION = "eu-central-1"
KEY, SECRET = "AKIDGLUETEST", "glue-test-secret"
_NAME = re.compile(r"[a-z0-9_]{1,255}")
_TABLE_MEMBERS = frozenset(
    {
        "Name",
        "Description",
        "Owner",
        "LastAccessTime",
        "LastAnalyzedTime",
        "Retention",
        "StorageDescriptor",
        "PartitionKeys",
        "ViewOriginalText",
        "ViewExpandedText",
        "TableType",
        "Parameters",
        "TargetTable",
        "ViewDefinition",
    }
)
"""Members of TableInput; Glue refuses others."""


class _Refuse(Exception):
    def __init__(self, kind: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.kind, self.message, self.status = kind, message, status


class _Cut(Exception):
    """The connection closes without an answer."""


@dataclass
class GlueDouble(Scripted):
    """See the module."""

    versions_max: int = 100
    """Archived versions of a table; the next one is refused (F60)."""
    entry_bytes_max: int = 400_000
    faults: deque[str] = field(default_factory=deque)
    seen: list[tuple[str, str]] = field(default_factory=list)
    """(action, name of the error or nothing)."""
    unversioned: int = 0
    """UpdateTable calls that named no version: lost updates waiting to happen."""
    databases: dict[str, dict[str, Any]] = field(default_factory=dict)
    tables: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    archived: dict[tuple[str, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self.late: list[threading.Timer] = []
        double = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                double._serve(self)

            def log_message(self, *args: object) -> None:
                return

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                return  # a client that hung up

        self._server = Server(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="glue double", daemon=True)

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def end_server(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def entry(self, database: str, name: str) -> dict[str, Any]:
        return self.tables[database, name]

    # --- one request -----------------------------------------------------------------------------------------------------

    def _serve(self, http: BaseHTTPRequestHandler) -> None:
        body = http.rfile.read(int(http.headers.get("Content-Length") or 0))
        action = http.headers.get("X-Amz-Target", "").removeprefix("AWSGlue.")
        kind = ""
        try:
            _check_signature(http, body)
            with self._lock:
                value, status = self._act(action, json.loads(body)), 200
        except _Refuse as refusal:
            kind, status = refusal.kind, refusal.status
            value = {"__type": refusal.kind, "Message": refusal.message}
        except _Cut:
            self.seen.append((action, "cut"))
            http.close_connection = True
            http.connection.shutdown(socket.SHUT_RDWR)
            return
        self.seen.append((action, kind))
        payload = json.dumps(value).encode()
        http.send_response(status)
        http.send_header("Content-Type", "application/x-amz-json-1.1")
        http.send_header("Content-Length", str(len(payload)))
        http.end_headers()
        http.wfile.write(payload)

    def _act(self, action: str, value: dict[str, Any]) -> dict[str, Any]:
        match action:
            case "CreateDatabase":
                return self._create_database(value["DatabaseInput"])
            case "GetDatabase":
                return {"Database": self._database(value["Name"])}
            case "GetTable":
                return {"Table": self._table(value["DatabaseName"], value["Name"])}
            case "GetTables":
                return self._list(value)
            case "DeleteTable":
                self._table(value["DatabaseName"], value["Name"])
                del self.tables[value["DatabaseName"], value["Name"]]
                return {}
            case "CreateTable":
                return self._meet(lambda: self._create(value))
            case "UpdateTable":
                return self._meet(lambda: self._update(value))
        raise _Refuse("UnknownOperationException", action)

    def _create_database(self, given: dict[str, Any]) -> dict[str, Any]:
        if not _NAME.fullmatch(given["Name"]):
            raise _Refuse("InvalidInputException", f"database name {given['Name']}")
        if given["Name"] in self.databases:
            raise _Refuse("AlreadyExistsException", "Database already exists.")
        self.databases[given["Name"]] = given
        return {}

    def _database(self, name: str) -> dict[str, Any]:
        if name not in self.databases:
            raise _Refuse("EntityNotFoundException", f"Database {name} not found.")
        return self.databases[name]

    def _table(self, database: str, name: str) -> dict[str, Any]:
        if (database, name) not in self.tables:
            raise _Refuse("EntityNotFoundException", f"Entity Not Found: {database}.{name}")
        return self.tables[database, name]

    def _list(self, value: dict[str, Any]) -> dict[str, Any]:
        self._database(value["DatabaseName"])
        names = sorted(name for database, name in self.tables if database == value["DatabaseName"])
        at = int(value.get("NextToken") or 0)
        more = {"NextToken": str(at + 2)} if at + 2 < len(names) else {}
        return {"TableList": [self.tables[value["DatabaseName"], name] for name in names[at : at + 2]], **more}

    def _create(self, value: dict[str, Any]) -> dict[str, Any]:
        given = value["TableInput"]
        self._check_input(given)
        self._database(value["DatabaseName"])
        key = (value["DatabaseName"], given["Name"])
        if key in self.tables:
            raise _Refuse("AlreadyExistsException", "Table already exists.")
        self.tables[key] = {**given, "DatabaseName": key[0], "VersionId": "0", "IsRegisteredWithLakeFormation": False, "CreatedBy": "test"}
        return {}

    def _update(self, value: dict[str, Any]) -> dict[str, Any]:
        given = value["TableInput"]
        self._check_input(given)
        key = (value["DatabaseName"], given["Name"])
        before = self._table(*key)
        if "VersionId" not in value:
            self.unversioned += 1
        elif value["VersionId"] != before["VersionId"]:
            raise _Refuse("ConcurrentModificationException", f"Update table failed due to concurrent modifications: {value['VersionId']}")
        if not value.get("SkipArchive"):
            self.archived[key] = self.archived.get(key, 0) + 1
            if self.archived[key] > self.versions_max:
                raise _Refuse("ResourceNumberLimitExceededException", "Number of table versions exceeds the limit")
        version = str(int(before["VersionId"]) + 1)
        self.tables[key] = {
            **given,
            "DatabaseName": key[0],
            "VersionId": version,
            "IsRegisteredWithLakeFormation": False,
            "CreatedBy": "test",
        }
        return {}

    def _check_input(self, given: dict[str, Any]) -> None:
        if not _NAME.fullmatch(given["Name"]):
            raise _Refuse("InvalidInputException", f"table name {given['Name']}")
        unknown = given.keys() - _TABLE_MEMBERS
        if unknown:
            raise _Refuse("ValidationException", f"unknown members of TableInput: {sorted(unknown)}")
        for column in given["StorageDescriptor"]["Columns"]:
            if len(column.get("Comment", "")) > 255 or not 0 < len(column["Name"]) <= 255 or len(column["Type"]) > 131_072:
                raise _Refuse("ValidationException", f"column {column['Name'][:80]}: Member must have length less than or equal to 255")
        for name, text in given["Parameters"].items():
            if not 0 < len(name) <= 255 or len(text) > 512_000:
                raise _Refuse("ValidationException", f"parameter {name[:80]}: too long")
        if len(json.dumps(given)) > self.entry_bytes_max:
            raise _Refuse("InvalidInputException", "Entry exceeds the maximum size")

    # --- faults ------------------------------------------------------------------------------------------------------------

    def _meet(self, apply: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        word = self.faults.popleft() if self.faults else "ok"
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
        if kind == "cut":
            raise _Cut
        raise _Refuse(*_ANSWERS[kind])

    def _apply_later(self, seconds: float, apply: Callable[[], Any]) -> None:
        def arrive() -> None:
            with self._lock:
                try:
                    apply()
                except _Refuse as refusal:
                    self.seen.append(("LATE", refusal.kind))

        timer = threading.Timer(seconds, arrive)
        timer.daemon = True
        self.late.append(timer)
        timer.start()


_ANSWERS: dict[str, tuple[str, str, int]] = {
    "conflict": ("ConcurrentModificationException", "scripted", 400),
    "throttled": ("ThrottlingException", "Rate exceeded", 400),
    "500": ("InternalServiceException", "scripted", 500),
    "expired": ("ExpiredTokenException", "The security token included in the request is expired", 400),
    "denied": ("AccessDeniedException", "not authorized to perform: glue:UpdateTable", 400),
}


def _check_signature(http: BaseHTTPRequestHandler, body: bytes) -> None:
    """Signature Version 4 as AWS checks it; the target must be signed."""
    found = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})",
        http.headers.get("Authorization", ""),
    )
    if not found:
        raise _Refuse("MissingAuthenticationTokenException", "Missing Authentication Token")
    key, day, region, service, names, signature = found.groups()
    if key != KEY or region != REGION or service != "glue" or not {"host", "x-amz-target", "x-amz-date"} <= set(names.split(";")):
        raise _Refuse("UnrecognizedClientException", "The security token included in the request is invalid.")
    headers = "".join(f"{name}:{http.headers[name].strip()}\n" for name in names.split(";"))
    canonical = f"POST\n/\n\n{headers}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    scope = f"{day}/{region}/glue/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{http.headers['X-Amz-Date']}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    secret = f"AWS4{SECRET}".encode()
    for part in (day, region, "glue", "aws4_request"):
        secret = hmac.new(secret, part.encode(), hashlib.sha256).digest()
    if not hmac.compare_digest(hmac.new(secret, text.encode(), hashlib.sha256).hexdigest(), signature):
        raise _Refuse("InvalidSignatureException", "The request signature we calculated does not match the signature you provided.")
