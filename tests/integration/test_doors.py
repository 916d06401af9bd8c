"""The stand-ins are strict: what a real Polaris or Unity refuses is refused here. Otherwise the processors' tests would prove nothing."""

from __future__ import annotations

import http.client
import json
import pathlib
import socket
import ssl
import time
import urllib.parse
from collections.abc import Iterator

import pytest
import trustme
from tests.servers import SeaweedFs
from tests.standins.catalog_gateway import POLARIS, UNITY, Door, Gateway, running_gateway
from tests.standins.connect_proxy import running_proxy

pytestmark = pytest.mark.server


class Client:
    """Asks one door with a trusted certificate."""

    def __init__(self, gateway: Gateway, authority: trustme.CA) -> None:
        self.gateway = gateway
        self.context = ssl.create_default_context()
        authority.configure_trust(self.context)

    def ask(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> tuple[int, dict]:  # type: ignore[type-arg]
        raw = socket.create_connection(("127.0.0.1", self.gateway.port), timeout=20)
        connection = http.client.HTTPConnection("door.test")
        connection.sock = self.context.wrap_socket(raw, server_hostname="door.test")
        connection.request(method, path, body or None, headers or {})
        answer = connection.getresponse()
        found = json.loads(answer.read() or b"{}")
        connection.close()
        return answer.status, found

    def token(self, **changes: str) -> tuple[int, dict]:  # type: ignore[type-arg]
        door = self.gateway.door
        form = {
            "grant_type": "client_credentials",
            "client_id": door.client_id,
            "client_secret": door.client_secret,
            "scope": door.scope,
            "audience": door.audience,
            **changes,
        }
        return self.ask(
            "POST", door.token_path, urllib.parse.urlencode(form).encode(), {"Content-Type": "application/x-www-form-urlencoded"}
        )

    def get(self, path: str, token: str) -> int:
        return self.ask("GET", self.gateway.door.base + path, headers={"Authorization": f"Bearer {token}"})[0]


@pytest.fixture(params=[POLARIS, UNITY], ids=["polaris", "unity"])
def client(request: pytest.FixtureRequest, seaweedfs: SeaweedFs) -> Iterator[Client]:
    door: Door = request.param
    authority = trustme.CA()
    with running_gateway(door, seaweedfs, authority, "door.test") as gateway:
        yield Client(gateway, authority)


@pytest.mark.parametrize(
    ("change", "status"),
    [("client_id", 401), ("client_secret", 401), ("scope", 400), ("grant_type", 400), ("audience", 400)],
)
def test_a_token_needs_the_right_words(client: Client, change: str, status: int) -> None:
    assert client.token()[0] == 200
    if change == "audience" and not client.gateway.door.audience:
        assert client.token(audience="anybody")[0] == 200  # this door has no audience
        return
    assert client.token(**{change: "wrong"})[0] == status
    assert client.gateway.refusals() == [f"token asked for with {change}='wrong'"]


def test_the_catalog_needs_a_token_of_this_door_that_has_not_ended(client: Client) -> None:
    door = client.gateway.door
    config = f"/v1/config?warehouse={urllib.parse.quote(door.warehouse, safe='')}"
    assert client.get(config, "made-up") == 401
    token = client.token()[1]["access_token"]
    assert client.get(config, token) == 200
    client.gateway.tokens[token] = time.monotonic() - 1
    assert client.get(config, token) == 401
    assert client.gateway.refusals() == ["no token of this service", "the token has ended"]


def test_the_catalog_needs_its_warehouse_and_its_prefix(client: Client) -> None:
    door = client.gateway.door
    token = client.token()[1]["access_token"]
    assert client.get("/v1/config?warehouse=other", token) == 404
    assert client.get("/v1/config", token) == 404
    assert client.get(f"/v1/{door.prefix}/namespaces", token) == 200
    assert client.get("/v1/namespaces", token) == 404
    assert client.get("/v1/other/namespaces", token) == 404


def test_the_proxy_goes_to_its_routes_and_nowhere_else(tmp_path: pathlib.Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, running_proxy({"a.test:443": server.getsockname()[1]}) as proxy:
        for place, word in (("a.test:443", b"200"), ("b.test:443", b"403")):
            with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as client:
                client.sendall(f"CONNECT {place} HTTP/1.1\r\n\r\n".encode())
                assert word in client.recv(100)
        assert proxy.seen == ["a.test:443", "b.test:443"]
