"""A REST catalog in virtual time: our own REST client, whole, before a server that answers in HTTP what the fault words say.

The server keeps its tables as ``PointerCatalog`` does, under ``s3://lake/``. What a word of ``FaultyCatalog`` makes of a commit becomes
an HTTP answer here: 409, 429 with Retry-After, 400, 401, 403, 419, 404, one of 500, 502, 503, 504, a connection that breaks, or silence.
Tokens live thirty seconds.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.simulation.processes import ObjectsDoor, Server

from frazil.catalogs.faulty import FaultyCatalog
from frazil.catalogs.kinds.rest import RestCatalog
from frazil.catalogs.port import Catalog, CatalogDeps, CreateTable, LoadedTable
from frazil.catalogs.rest.client import RestClient
from frazil.catalogs.rest.http import Answer, Request
from frazil.catalogs.rest.properties import rest_properties
from frazil.catalogs.schema import to_arrow
from frazil.kit.clock import Clock
from frazil.kit.errors import Conflict, FrazilError, Missing, OutcomeUnknown, Refused, RetryLater
from frazil.objects.port import ObjectStore

ROOT = "s3://lake/"
SERVER_ERRORS = (500, 502, 503, 504)
STATUS = {"C-400": 400, "C-401": 401, "C-403": 403, "C-419": 419, "C-404": 404, "C-409": 409, "C-409/a": 409, "C-429": 429}
TOKEN_S = 30


class Located(ObjectStore):
    """A store whose objects are at ``s3://lake/{key}``."""

    def __init__(self, inner: ObjectStore) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def uri(self, key: str) -> str:
        return ROOT + key

    async def put_if_absent(self, key: str, data: Any) -> None:
        await self._inner.put_if_absent(key, data)

    async def get(self, key: str, *, start: int = 0, end: int | None = None) -> bytes:
        return await self._inner.get(key, start=start, end=end)

    def list(self, prefix: str) -> Any:
        return self._inner.list(prefix)

    async def delete(self, keys: Any) -> None:
        await self._inner.delete(keys)


@dataclass(slots=True)
class VirtualHttp:
    """``Http`` of one client. A request that has left the process is served even if that dies."""

    server: Server
    catalog: FaultyCatalog
    clock: Clock
    chance: random.Random
    tokens: dict[str, float]

    async def send(self, request: Request) -> Answer:
        """See ``Http.send``."""
        return await self.server.call(lambda: self._answer(request))

    async def close(self) -> None:
        """See ``Http.close``."""

    async def _answer(self, request: Request) -> Answer:
        steps = [unquote(step) for step in urlsplit(request.url).path.strip("/").split("/")][1:]
        if steps == ["oauth", "tokens"]:
            token = f"token-{self.chance.getrandbits(32):08x}"
            self.tokens[token] = self.clock.monotonic_ms() + TOKEN_S * 1000
            return answer(200, {"access_token": token, "token_type": "bearer", "expires_in": TOKEN_S})
        if self.tokens.get(request.headers.get("Authorization", "").removeprefix("Bearer "), 0) < self.clock.monotonic_ms():
            return answer(401, error("NotAuthorizedException", "the token has expired"))
        try:
            return await self._route(request.method, steps, json.loads(request.body) if request.body else {})
        except (Conflict, Missing, Refused, RetryLater) as failed:
            return self._refusal(failed)

    async def _route(self, method: str, steps: list[str], body: Mapping[str, Any]) -> Answer:
        match (method, steps):
            case ("GET", ["config"]):
                return answer(200, {"defaults": {}, "overrides": {}})
            case ("POST", ["namespaces"]):
                return answer(200, {"namespace": body["namespace"]})
            case ("GET", ["namespaces", namespace, "tables"]):
                names = await self.catalog.list(namespace)
                found = [{"namespace": [namespace], "name": ident.rpartition(".")[2]} for ident in names]
                return answer(200, {"identifiers": found})
            case ("POST", ["namespaces", namespace, "tables"]):
                made = CreateTable(schema=to_arrow(body["schema"]), properties=body["properties"])
                return loaded(await self.catalog.create(f"{namespace}.{body['name']}", made))
            case ("GET", ["namespaces", namespace, "tables", name]):
                return loaded(await self.catalog.load(f"{namespace}.{name}"))
            case ("POST", ["namespaces", namespace, "tables", name]):
                base = await self.catalog.load(f"{namespace}.{name}")
                return loaded(await self.catalog.commit(f"{namespace}.{name}", base, body["requirements"], body["updates"]))
        return answer(404, error("NotFoundException", f"no such resource {steps}"))

    def _refusal(self, failed: FrazilError) -> Answer:
        """What a client sees of it: words of faults as they are meant, all else as a server would say it."""
        word = str(failed).partition(":")[0]
        if word.startswith(("C-cut", "C-late")):
            raise OutcomeUnknown("the connection was closed without an answer")
        if word.startswith("C-5xx"):
            return answer(self.chance.choice(SERVER_ERRORS), error("ServiceFailureException", str(failed)))
        plain = {Conflict: 409, Missing: 404, Refused: 400}.get(type(failed), 503)
        return answer(STATUS.get(word, plain), error(type(failed).__name__, str(failed)), {"retry-after": "1"} if word == "C-429" else {})


def answer(status: int, value: object, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status=status, headers=headers or {}, body=json.dumps(value).encode())


def error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"type": kind, "message": message}}


def loaded(table: LoadedTable) -> Answer:
    return answer(200, {"metadata": table.metadata, "metadata-location": table.metadata_location, "config": {}})


def rest_catalog(http: VirtualHttp, deps: CatalogDeps, store: ObjectsDoor) -> Catalog:
    """Our REST client before ``http``; its tables' files are in ``store``."""
    properties = {"credential": "id:secret-of-the-client", "scope": "all", "vended-credentials": "false"}
    given = rest_properties("rest+http://catalog", {name: value for name, value in properties.items() if name != "vended-credentials"})
    client = RestClient(given, http, clock=deps.clock, offload=deps.offload)
    return RestCatalog(client, deps, lambda url, options: Located(store))
