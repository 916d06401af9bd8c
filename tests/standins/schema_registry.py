"""A schema registry as Confluent's documentation describes it, over HTTP on loopback, that can be away, slow, or behind a strange proxy."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

Reply = tuple[int, bytes, dict[str, str]]


def reply(status: int, body: object, **headers: str) -> Reply:
    return status, json.dumps(body).encode(), headers


NO_SCHEMA = reply(404, {"error_code": 40403, "message": "Schema not found"})


class SchemaRegistry:
    """``schemas``: id → entry as the API answers it. ``seen``: every path asked for. ``fault`` answers instead, if it does."""

    def __init__(self, *, prefix: str = "", basic_auth: str = "", token: str = "", context: ssl.SSLContext | None = None) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[tuple[str, int], int] = {}
        self.seen: list[str] = []
        self.fault: Callable[[str], Reply | None] = lambda _: None
        self._prefix = prefix
        self._wanted = f"Bearer {token}" if token else f"Basic {base64.b64encode(basic_auth.encode()).decode()}" if basic_auth else ""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._scheme = "http" if context is None else "https"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), name="schema registry", daemon=True).start()

    @property
    def url(self) -> str:
        return f"{self._scheme}://localhost:{self._server.server_address[1]}{self._prefix}"

    def register(self, subject: str, schema: object, *, kind: str = "AVRO", references: list[dict[str, Any]] | None = None) -> int:
        """The id of a new version of ``subject``."""
        schema_id = len(self.schemas) + 1
        entry: dict[str, Any] = {"schema": schema if isinstance(schema, str) else json.dumps(schema)}
        if kind != "AVRO":
            entry["schemaType"] = kind
        if references:
            entry["references"] = references
        self.schemas[schema_id] = entry
        version = 1 + sum(name == subject for name, _ in self.subjects)
        self.subjects[subject, version] = schema_id
        return schema_id

    def answer(self, path: str, authorization: str) -> Reply:
        self.seen.append(path)
        faulty = self.fault(path)
        if faulty is not None:
            return faulty
        if authorization != self._wanted:
            return reply(401, {"error_code": 401, "message": "Unauthorized"})
        parts = [unquote(part) for part in urlsplit(path).path.removeprefix(self._prefix).strip("/").split("/")]
        match parts:
            case ["schemas", "ids", number]:
                entry = self.schemas.get(int(number))
                return NO_SCHEMA if entry is None else reply(200, entry)
            case ["subjects", subject, "versions", version]:
                schema_id = self.subjects.get((subject, int(version)))
                if schema_id is None:
                    return reply(404, {"error_code": 40402, "message": "Version not found"})
                return reply(200, {"subject": subject, "version": int(version), "id": schema_id, **self.schemas[schema_id]})
            case _:
                return reply(404, {"error_code": 404, "message": "HTTP 404 Not Found"})

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(registry: SchemaRegistry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, body, headers = registry.answer(self.path, self.headers.get("authorization", ""))
            self.send_response(status)
            for name, value in {"content-type": "application/vnd.schemaregistry.v1+json", **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    return Handler
