"""The registry client against a registry on loopback: who gets in, what is asked how often, and what is a miss and what an outage (F42)."""

from __future__ import annotations

import asyncio
import pathlib
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import pytest
import trustme
from tests.standins.schema_registry import NO_SCHEMA, SchemaRegistry, reply

from frazil.kit.clock import SystemClock
from frazil.kit.errors import Refused, RetryLater
from frazil.schemas.framing import Found, Unknown, WriterSchema
from frazil.schemas.registry import Access, HttpxFetch, RegistryClient
from frazil.schemas.registry.client import MISS_MS


class HandClock(SystemClock):
    """Moved by hand."""

    def __init__(self) -> None:
        self.at_ms = 0.0

    def monotonic_ms(self) -> float:
        return self.at_ms


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    found = SchemaRegistry()
    yield found
    found.close()


def ask(work: Callable[[RegistryClient], Awaitable[Any]], *, clock: SystemClock | None = None, most: int = 100, **access: Any) -> Any:
    async def main() -> Any:
        client = RegistryClient(HttpxFetch(Access(**access)), clock or SystemClock(), schemas_max=most)
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(main())


def find(*ids: int, **access: Any) -> Mapping[int, Found]:
    found: Mapping[int, Found] = ask(lambda client: client.find(ids), **access)
    return found


def test_a_schema_is_asked_for_once_however_many_ask(registry: SchemaRegistry) -> None:
    number = registry.register("t-value", {"type": "string"})

    async def work(client: RegistryClient) -> None:
        for found in await asyncio.gather(*(client.find([number, number]) for _ in range(20))):
            assert found == {number: WriterSchema(kind="AVRO", text='{"type": "string"}')}
        assert await client.find([number]) == found
        assert registry.seen == [f"/schemas/ids/{number}"]

    ask(work, url=registry.url)


def test_apicurio_has_the_same_api_below_a_path() -> None:
    apicurio = SchemaRegistry(prefix="/apis/ccompat/v7")
    number = apicurio.register("s", '{"type": "object"}', kind="JSON")
    assert find(number, url=apicurio.url + "/") == {number: WriterSchema(kind="JSON", text='{"type": "object"}')}
    apicurio.close()


def test_references_come_with_what_needs_them_last(registry: SchemaRegistry) -> None:
    registry.register("a/b", "one")
    registry.register("c", "two", references=[{"name": "A", "subject": "a/b", "version": 1}])
    references = [{"name": "C", "subject": "c", "version": 1}, {"name": "A", "subject": "a/b", "version": 1}]
    number = registry.register("d", "three", references=references)
    found = find(number, url=registry.url)[number]
    assert found == WriterSchema(kind="AVRO", text="three", references=(("A", "one"), ("C", "two")))
    assert registry.seen.count("/subjects/a%2Fb/versions/1?deleted=true") == 1


def test_a_reference_that_is_gone_or_goes_in_a_circle_is_a_bad_schema(registry: SchemaRegistry) -> None:
    gone = registry.register("a", "x", references=[{"name": "N", "subject": "nowhere", "version": 3}])
    circle = registry.register("b", "y", references=[{"name": "B", "subject": "b", "version": 1}])
    found = find(gone, circle, url=registry.url)
    assert isinstance(found[gone], Unknown) and found[gone].code == "bad-schema" and "nowhere" in found[gone].why
    assert isinstance(found[circle], Unknown) and "circle" in found[circle].why


def test_f42_a_miss_is_believed_for_thirty_seconds(registry: SchemaRegistry) -> None:
    clock = HandClock()

    async def work(client: RegistryClient) -> None:
        for _ in range(1000):
            found = (await client.find([1]))[1]
            assert isinstance(found, Unknown) and found.code == "unknown-schema" and "1" in found.why
        assert len(registry.seen) == 1
        registry.register("late", "string")
        clock.at_ms = MISS_MS - 1
        assert isinstance((await client.find([1]))[1], Unknown)
        clock.at_ms = MISS_MS
        assert (await client.find([1]))[1] == WriterSchema(kind="AVRO", text="string")
        clock.at_ms = 1e12
        await client.find([1])
        assert len(registry.seen) == 2

    ask(work, url=registry.url, clock=clock)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (reply(500, {"error_code": 50001, "message": "store"}), RetryLater),
        (reply(503, {}), RetryLater),
        (reply(429, {}, retry_after="7"), RetryLater),
        ((200, b"<html>sign in</html>", {}), RetryLater),
        (reply(200, {"schema": 5}), RetryLater),
        ((404, b"<html>no such page</html>", {}), Refused),
        (reply(404, {"error_code": 404, "message": "HTTP 404 Not Found"}), Refused),
        (reply(302, {}, location="http://localhost/"), Refused),
        (reply(401, {}), Refused),
        (reply(403, {}), Refused),
    ],
)
def test_f42_only_the_registrys_own_word_makes_a_miss(registry: SchemaRegistry, answer: Any, error: type[Exception]) -> None:
    number = registry.register("t", "string")
    registry.fault = lambda _: answer

    async def work(client: RegistryClient) -> None:
        with pytest.raises(error):
            await client.find([number])
        registry.fault = lambda _: None
        assert isinstance((await client.find([number]))[number], WriterSchema), "what failed is not remembered"

    ask(work, url=registry.url)


def test_one_failure_fails_the_call_and_what_came_is_kept(registry: SchemaRegistry) -> None:
    for _ in range(3):
        registry.register("t", "string")
    registry.fault = lambda path: reply(503, {}) if path.endswith("/2") else None

    async def work(client: RegistryClient) -> None:
        with pytest.raises(RetryLater):
            await client.find([1, 2, 3])
        registry.fault = lambda _: None
        registry.seen.clear()
        assert len(await client.find([1, 2, 3])) == 3
        assert registry.seen == ["/schemas/ids/2"]

    ask(work, url=registry.url)


def test_memory_is_bounded(registry: SchemaRegistry) -> None:
    for _ in range(5):
        registry.register("t", "string")

    async def work(client: RegistryClient) -> None:
        for number in (1, 2, 3, 1, 4, 1):
            await client.find([number])
        assert [path[-1] for path in registry.seen] == ["1", "2", "3", "4"]
        registry.seen.clear()
        await client.find([2])
        assert registry.seen, "2 was used longest ago"

    ask(work, url=registry.url, most=3)


def test_an_answer_that_never_comes_has_a_deadline(registry: SchemaRegistry) -> None:
    registry.fault = lambda _: time.sleep(1)  # type: ignore[func-returns-value]
    with pytest.raises(RetryLater, match=r"no answer within 0\.1 s"):
        find(1, url=registry.url, timeout_ms=100)


def test_nobody_there_is_an_outage(registry: SchemaRegistry) -> None:
    url = registry.url
    registry.close()
    with pytest.raises(RetryLater, match="does not answer"):
        find(1, url=url)


@pytest.mark.parametrize("access", [{"basic_auth": "me:pass:word"}, {"token": "abc"}])
def test_who_asks_is_told(access: dict[str, str]) -> None:
    registry = SchemaRegistry(**access)
    number = registry.register("t", "string")
    assert isinstance(find(number, url=registry.url, **access)[number], WriterSchema)
    with pytest.raises(Refused, match="access denied"):
        find(number, url=registry.url)
    registry.close()


def test_a_private_authority_is_trusted_when_it_is_named(tmp_path: pathlib.Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    registry = SchemaRegistry(context=context)
    number = registry.register("t", "string")
    assert isinstance(find(number, url=registry.url, ca_file=str(ca_file))[number], WriterSchema)
    with pytest.raises(RetryLater, match="does not answer"):
        find(number, url=registry.url)
    registry.close()


@pytest.mark.parametrize(
    "access",
    [
        {"url": "localhost:8081"},
        {"url": "http://"},
        {"url": "http://[h"},
        {"url": "http://h", "basic_auth": "nobody"},
        {"url": "http://h", "basic_auth": "a:b", "token": "t"},
        {"url": "https://h", "ca_file": "/does/not/exist"},
    ],
)
def test_settings_that_can_never_work_are_refused(access: dict[str, str]) -> None:
    with pytest.raises(Refused, match="registry"):
        HttpxFetch(Access(**access))


def test_secrets_are_not_shown() -> None:
    for url in ("http://me:pass-word@h", "ftp://me:pass-word@h"):
        with pytest.raises(Refused, match=r"registry\.url") as refusal:
            HttpxFetch(Access(url=url))
        assert "pass-word" not in str(refusal.value)
    assert "pass" not in repr(Access(url="http://h", basic_auth="me:pass", token="")) and NO_SCHEMA[0] == 404
