"""Signing in: what is asked for, when it is asked for again, and that secrets stay out of every message."""

from __future__ import annotations

import asyncio
import json
import logging
import pathlib
from collections.abc import Callable, Mapping
from urllib.parse import parse_qs

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from tests.simulation.loop import run_virtual
from tests.standins.rest_catalog import DoubleRules, RestCatalogDouble
from tests.unit.catalogs.restrig import PROPERTIES, opened, with_double
from tests.unit.catalogs.rig import IDENT, SCHEMA

from frazil.catalogs import CreateTable
from frazil.catalogs.rest.answers import Words
from frazil.catalogs.rest.client import Call, RestClient
from frazil.catalogs.rest.http import Answer, Http, Request
from frazil.catalogs.rest.properties import rest_properties
from frazil.kit.clock import LoopClock
from frazil.kit.errors import FrazilError, OutcomeUnknown, Refused, RetryLater
from frazil.kit.tasks import InlineOffload

LOAD = Call(method="GET", path="namespaces/a/tables/t", what="loading table a.t")


class Server(Http):
    """Answers in virtual time: tokens live 100 s unless told otherwise."""

    def __init__(self, life_s: object = 100) -> None:
        self.life_s = life_s
        self.requests: list[Request] = []
        self.asked = 0
        self.answers: list[Answer | Exception] = []
        """To anything but a sign-in, before the good ones."""
        self.sign_ins: list[Answer | Exception] = []
        self.delay_s = 0.0

    async def send(self, request: Request) -> Answer:
        await asyncio.sleep(self.delay_s)
        self.requests.append(request)
        if request.url.endswith("/tokens"):
            self.asked += 1
            return _next(self.sign_ins, {"access_token": f"token-{self.asked}", "expires_in": self.life_s})
        if "/config" in request.url:
            return answer(200, {"defaults": {}, "overrides": {}})
        return _next(self.answers, {"fine": True})

    async def close(self) -> None:
        return


def answer(status: int, value: object, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status=status, headers=headers or {}, body=value if isinstance(value, bytes) else json.dumps(value).encode())


def _next(planned: list[Answer | Exception], value: object) -> Answer:
    found = planned.pop(0) if planned else answer(200, value)
    if isinstance(found, Exception):
        raise found
    return found


def client(server: Http, **more: str) -> RestClient:
    properties = {"credential": "me:hush-hush-secret", **{name.replace("_", "-"): value for name, value in more.items()}}
    return RestClient(rest_properties("rest+https://cat.test/api", properties), server, clock=LoopClock(), offload=InlineOffload())


def bearer(request: Request) -> str:
    return request.headers["Authorization"]


def test_what_is_asked_for() -> None:
    async def run() -> None:
        server = Server()
        await client(server, scope="all-apis", audience="https://aud", resource="urn:x").send(LOAD)
        form = parse_qs(server.requests[0].body.decode())
        assert form == {
            "grant_type": ["client_credentials"],
            "client_id": ["me"],
            "client_secret": ["hush-hush-secret"],
            "scope": ["all-apis"],
            "audience": ["https://aud"],
            "resource": ["urn:x"],
        }
        assert server.requests[0].url == "https://cat.test/api/v1/oauth/tokens"
        assert server.requests[0].headers["Content-Type"] == "application/x-www-form-urlencoded"
        elsewhere = Server()
        await client(elsewhere, oauth2_server_uri="https://id.test/oidc/v1/tokens").send(LOAD)
        assert elsewhere.requests[0].url == "https://id.test/oidc/v1/tokens"
        assert parse_qs(elsewhere.requests[0].body.decode())["scope"] == ["catalog"]

    run_virtual(run())


@pytest.mark.parametrize(("life_s", "fresh_s", "old_s"), [(100, 74, 76), (3600, 3539, 3541), ("100", 74, 76)])
def test_a_token_is_renewed_before_it_ends(life_s: object, fresh_s: float, old_s: float) -> None:
    """A minute before, or at three quarters of a short life: nobody ever sends one that has ended."""

    async def run() -> None:
        server = Server(life_s)
        catalog = client(server)
        await catalog.send(LOAD)
        await asyncio.sleep(fresh_s)
        await catalog.send(LOAD)
        assert server.asked == 1
        await asyncio.sleep(old_s - fresh_s)
        await catalog.send(LOAD)
        assert server.asked == 2
        assert bearer(server.requests[-1]) == "Bearer token-2"

    run_virtual(run())


@pytest.mark.parametrize("life_s", [None, 0])
def test_a_token_without_an_end_is_kept_until_it_is_refused(life_s: object) -> None:
    async def run() -> None:
        server = Server(life_s)
        catalog = client(server)
        await catalog.send(LOAD)
        await asyncio.sleep(10**6)
        server.answers.append(answer(401, {"error": {"message": "no"}}))
        assert await catalog.send(LOAD) == {"fine": True}
        assert server.asked == 2

    run_virtual(run())


@pytest.mark.parametrize("status", [401, 419])
def test_of_many_refused_callers_one_signs_in(status: int) -> None:
    async def run() -> None:
        server = Server()
        catalog = client(server)
        await catalog.send(LOAD)
        server.delay_s = 1.0
        server.answers += [answer(status, {"error": {"message": "expired"}})] * 10
        assert await asyncio.gather(*(catalog.send(LOAD) for _ in range(10))) == [{"fine": True}] * 10
        assert server.asked == 2

    run_virtual(run())


def test_a_given_token_cannot_be_renewed() -> None:
    async def run() -> None:
        server = Server()
        properties = rest_properties("rest+https://cat.test", {"token": "given-token"})
        catalog = RestClient(properties, server, clock=LoopClock(), offload=InlineOffload())
        await catalog.send(LOAD)
        server.answers.append(answer(401, {"error": {"message": "given-token is old", "type": "NotAuthorizedException"}}))
        with pytest.raises(Refused, match=r"NotAuthorizedException: \*{8} is old \(status 401\)"):
            await catalog.send(LOAD)
        assert server.asked == 0

    run_virtual(run())


@pytest.mark.parametrize(
    ("planned", "kind", "words"),
    [
        (answer(400, {"error": "invalid_scope", "error_description": "no such scope"}), Refused, "invalid_scope: no such scope"),
        (answer(401, {"error": "invalid_client"}), Refused, "invalid_client"),
        (answer(404, b"nothing here"), Refused, "nothing here"),
        (answer(429, b"slow", {"retry-after": "5"}), RetryLater, "slow"),
        (answer(500, b"oops"), RetryLater, "oops"),
        (answer(200, b"<html>"), Refused, "no access_token"),
        (answer(200, {"token": "x"}), Refused, "no access_token"),
        (OutcomeUnknown("cut"), RetryLater, "cut"),
        (RetryLater("unreachable"), RetryLater, "unreachable"),
    ],
)
def test_a_sign_in_that_fails(planned: Answer | Exception, kind: type[FrazilError], words: str) -> None:
    """Never an unknown outcome: a commit was not even sent."""

    async def run() -> None:
        server = Server()
        server.sign_ins.append(planned)
        with pytest.raises(kind, match=words) as caught:
            await client(server).send(Call(method="POST", path="namespaces/a/tables/t", body={}, what="committing to table a.t"))
        assert type(caught.value) is kind
        assert [request.url for request in server.requests] == ["https://cat.test/api/v1/oauth/tokens"]

    run_virtual(run())


def test_a_sign_in_that_hangs_is_no_unknown_outcome() -> None:
    async def run() -> None:
        server = Server()
        catalog = client(server, timeout_ms="500")
        await catalog.config()
        server.answers.append(answer(401, {}))

        async def slow(request: Request) -> Answer:
            if request.url.endswith("/tokens"):
                await asyncio.sleep(10)
            return await Server.send(server, request)

        server.send = slow  # type: ignore[method-assign]
        with pytest.raises(RetryLater) as caught:
            await catalog.send(Call(method="POST", path="namespaces/a/tables/t", body={}, what="committing"))
        assert not isinstance(caught.value, OutcomeUnknown)

    run_virtual(run())


def test_secrets_are_in_no_message(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    """A server that repeats secrets in its answers, at every place it can; logs at their lowest level."""
    caplog.set_level(logging.DEBUG, logger="frazil")
    secrets = ["a-secret-text", "vended-secret-key", "vended-session-token"]

    def vend(_: str, location: str) -> Mapping[str, object]:
        keys = {"s3.access-key-id": "AKVENDED", "s3.secret-access-key": secrets[1], "s3.session-token": secrets[2]}
        return {"storage-credentials": [{"prefix": location, "config": keys}]}

    async def work(double: RestCatalogDouble) -> list[str]:
        texts: list[str] = []
        async with opened(double, {**PROPERTIES, "credential": "wrong:a-secret-text"}) as catalog:
            texts += await _failure(lambda: catalog.load(IDENT))
        async with opened(double) as catalog:
            base = await catalog.create(IDENT, CreateTable(schema=SCHEMA))
            texts += [repr(catalog), repr(base)]
            double.issued.clear()
            double.script("401", "401")
            texts += await _failure(lambda: catalog.commit(IDENT, base, [], []))
            echo = " ".join([*secrets, *double.issued])
            for status in (400, 403, 409, 500):
                double.say(status, echo)
                texts += await _failure(lambda: catalog.commit(IDENT, base, [], []))
            double.say(403, echo)
            texts += await _failure(lambda: catalog.drop(IDENT))
        secrets.extend(double.issued)
        return texts

    texts = with_double(tmp_path, work, vend=vend)
    assert len(texts) >= 8
    shown = "\n".join([*texts, caplog.text, *capsys.readouterr()])
    assert "********" in shown
    assert [secret for secret in secrets if secret in shown] == []


async def _failure(call: Callable[[], object]) -> list[str]:
    try:
        await call()  # type: ignore[misc]  # an awaitable of any kind
    except FrazilError as error:
        chain: list[str] = []
        link: BaseException | None = error
        while link is not None:
            chain += [str(link), repr(link)]
            link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
        return chain
    raise AssertionError("did not fail")


@pytest.mark.parametrize(
    "rules",
    [
        DoubleRules(client_id="an-id", client_secret="a-secret-text", scope="other"),
        DoubleRules(client_id="an-id", client_secret="a-secret-text", scope="all-apis", audience="aud"),
        DoubleRules(client_id="an-id", client_secret="other-secret", scope="all-apis"),
        DoubleRules(tokens=frozenset({"t"})),
        DoubleRules(client_id="an-id", client_secret="a-secret-text", scope="all-apis", warehouse="wh"),
        DoubleRules(client_id="an-id", client_secret="a-secret-text", scope="all-apis", headers={"X-Account": "7"}),
    ],
)
def test_a_strict_catalog_refuses_with_the_reason(tmp_path: pathlib.Path, rules: DoubleRules) -> None:
    async def work(double: RestCatalogDouble) -> None:
        async with opened(double) as catalog:
            with pytest.raises(Refused, match=r"must be|is not known|is missing"):
                await catalog.load(IDENT)

    with_double(tmp_path, work, rules)


def test_a_strict_catalog_is_satisfied(tmp_path: pathlib.Path) -> None:
    rules = DoubleRules(
        client_id="an-id",
        client_secret="a-secret-text",
        scope="all-apis",
        audience="aud",
        resource="res",
        token_path="/oidc/token",
        token_seconds=1.0,
        prefix="ws/main",
        warehouse="wh",
        delegation=True,
        headers={"X-Account": "7"},
    )

    async def work(double: RestCatalogDouble) -> None:
        properties = {
            **PROPERTIES,
            "audience": "aud",
            "resource": "res",
            "oauth2-server-uri": f"{double.uri}/oidc/token",
            "warehouse": "wh",
            "header.X-Account": "7",
        }
        async with opened(double, properties) as catalog:
            base = await catalog.create(IDENT, CreateTable(schema=SCHEMA))
            for number in range(6):
                await asyncio.sleep(0.3)
                base = await catalog.commit(IDENT, base, [], [{"action": "set-properties", "updates": {"n": str(number)}}])
            assert double.metadata(IDENT)["properties"]["n"] == "5"
            assert 401 not in [seen.status for seen in double.seen], "an ended token was sent"
            assert len(double.issued) >= 2

    with_double(tmp_path, work, rules)


def test_signatures_are_those_of_botocore() -> None:
    """The signed headers cover method, address, query and body; another body would have another signature."""

    async def run() -> None:
        server = Server()
        properties = {
            "rest.sigv4-enabled": "true",
            "rest.signing-name": "s3tables",
            "rest.signing-region": "eu-west-1",
            "s3.access-key-id": "AKID",
            "s3.secret-access-key": "a-signing-secret",
            "s3.session-token": "a-session",
        }
        catalog = RestClient(
            rest_properties("rest+https://cat.test/iceberg", properties), server, clock=LoopClock(), offload=InlineOffload()
        )
        await catalog.send(Call(method="POST", path="namespaces/a%1Fb/tables/t", query={"q": "1 2"}, body={"a": 1}, what="committing"))
        sent = server.requests[-1]
        assert "Credential=AKID/" in sent.headers["Authorization"]
        assert "/eu-west-1/s3tables/aws4_request" in sent.headers["Authorization"]
        assert sent.headers["X-Amz-Security-Token"] == "a-session"
        for body, equal in ((sent.body, True), (b'{"a":2}', False)):
            headers = {"content-type": "application/json", "accept": "application/json", "Host": "cat.test"}
            again = AWSRequest(method="POST", url=sent.url, data=body, headers=headers)
            signer = SigV4Auth(Credentials("AKID", "a-signing-secret", "a-session"), "s3tables", "eu-west-1")
            again.context["timestamp"] = sent.headers["X-Amz-Date"]
            again.headers["X-Amz-Date"] = sent.headers["X-Amz-Date"]
            again.headers["X-Amz-Security-Token"] = "a-session"
            signature = signer.signature(signer.string_to_sign(again, signer.canonical_request(again)), again)
            assert sent.headers["Authorization"].endswith(f"Signature={signature}") is equal

    run_virtual(run())


def test_with_a_token_below_a_signature() -> None:
    async def run() -> None:
        server = Server()
        more = {"rest.sigv4-enabled": "true", "rest.signing-region": "r", "s3.access-key-id": "AKID", "s3.secret-access-key": "secret-key"}
        catalog = client(server, **more)
        await catalog.send(LOAD)
        server.answers.append(answer(401, {}))
        await catalog.send(LOAD)
        assert server.requests[-1].headers["Original-Authorization"] == "Bearer token-2"
        assert server.requests[-1].headers["Authorization"].startswith("AWS4-HMAC-SHA256 ")

    run_virtual(run())


@pytest.mark.parametrize(
    ("url", "properties", "why"),
    [
        ("rest+ftp://x", {}, "rest"),
        ("rest:", {}, "rest"),
        ("rest+https://user:pass-word@x", {}, "user or password"),
        ("rest+https://x?y=1", {}, "rest"),
        ("rest+https://x", {"scop": "x"}, "scop"),
        ("rest+https://x", {"token": "a", "credential": "b:c"}, "not both"),
        ("rest+https://x", {"rest.sigv4-enabled": "maybe"}, "true or false"),
        ("rest+https://x", {"rest.sigv4-enabled": "true"}, "signing-region"),
        ("rest+https://x", {"timeout-ms": "soon"}, "milliseconds"),
        ("rest+https://x", {"credential": "a:b", "oauth2-server-uri": "file:///x"}, "oauth2-server-uri"),
        ("rest+https://x", {"credential": "a:b", "oauth2-server-uri": "https://user:pass-word@x/token"}, "user or password"),
        ("rest+https://x", {"credential": "a:b", "oauth2-server-uri": "https://[x"}, "no address"),
        ("rest+https://[x", {}, "no address"),
    ],
)
def test_properties_that_make_no_sense(url: str, properties: Mapping[str, str], why: str) -> None:
    with pytest.raises(Refused, match=why) as caught:
        rest_properties(url, properties)
    assert "pass-word" not in str(caught.value)


def test_the_address_may_end_as_people_write_it() -> None:
    for url in ("https://h/api", "rest+https://h/api/", "rest+https://h/api/v1", "rest+https://h/api/v1/"):
        assert rest_properties(url, {}).uri == "https://h/api"


def test_what_was_secret_is_forgotten_when_it_is_replaced() -> None:
    words = Words({"a-property"})
    for number in range(1000):
        words.hide("token", f"token-{number}", f"token-{number - 1}")
        words.hide("table a.t", f"key-{number}")
    assert words.clean("a-property token-999 token-998 key-999 key-3 abc") == f"{4 * '******** '}key-3 abc"
    assert sum(len(found) for found in words._secrets.values()) == 4
