"""The S3 store against a scripted server: what each answer means, how often a call is sent, what a lost answer is."""

from __future__ import annotations

import asyncio
import logging
import pathlib
import random
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import trustme

from frazil.kit.clock import SystemClock
from frazil.kit.errors import Conflict, Corrupt, FrazilError, Missing, OutcomeUnknown, Refused, RetryLater
from frazil.kit.tasks import InlineOffload
from frazil.objects import open_objects
from frazil.objects.access import CloudAccess, CloudKeys
from frazil.objects.port import ObjectStore

SECRET = "this-must-never-be-shown"
OK = "200:"


@dataclass
class Server:
    """Answers each request by the next entry of ``script`` (the last one repeats): ``status:code``, ``cut``, ``hang``, ``short``."""

    script: list[str]
    body: bytes = b"0123456789"
    seen: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    writers: set[asyncio.StreamWriter] = field(default_factory=set)
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        self.writers.add(writer)
        try:
            await self._serve(reader, writer)
        finally:
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while not self.over.is_set():
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = next((int(line.split(":")[1]) for line in head.split("\r\n") if line.lower().startswith("content-length:")), 0)
                await reader.readexactly(length)
                self.seen.append(head.split(" ")[0])
                self.heads.append(head)
                step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
                if not await self._answer(step, head, writer):
                    return

    async def close(self) -> None:
        self.over.set()
        for writer in self.writers:
            writer.transport.abort()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _answer(self, step: str, head: str, writer: asyncio.StreamWriter) -> bool:
        if step == "cut":
            return False
        if step.startswith("hang"):
            with suppress(TimeoutError):
                await asyncio.wait_for(self.over.wait(), float(step[4:] or 60))
            step = OK
        status, _, code = step.partition(":")
        body = f"<Error><Code>{code}</Code><Message>because</Message></Error>".encode() if code and status != "short" else b""
        if step == OK and head.startswith("GET"):
            body = self.body
        announced = len(body)
        if status == "short":
            status, body, announced = "200", b"012", 10
        head_lines = f'HTTP/1.1 {status} X\r\nContent-Length: {announced}\r\nLast-Modified: Tue, 01 Dec 2026 04:56:31 GMT\r\nETag: "e"\r\n'
        writer.write(head_lines.encode() + b"\r\n" + (b"" if head.startswith("HEAD") else body))
        await writer.drain()
        return announced == len(body)


def run(script: list[str], work: Callable[[ObjectStore, Server], Awaitable[Any]], **access: Any) -> Server:
    server = Server(script)

    async def main() -> None:
        listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        options = {"check_conditions": False, "deadline_ms": 700, **access}
        given = CloudAccess(
            endpoint=f"http://127.0.0.1:{port}", region="r", access_key_id="AK", secret_access_key=SECRET, allow_http=True, **options
        )
        store = open_objects("s3://bucket/pre", offload=InlineOffload(), clock=SystemClock(), access=given, chance=random.Random(1))
        try:
            await work(store, server)
        finally:
            listener.close()
            await server.close()

    asyncio.run(main())
    return server


def fails(
    kind: type[FrazilError], call: Callable[[ObjectStore], Awaitable[Any]], *words: str
) -> Callable[[ObjectStore, Server], Awaitable[None]]:
    async def work(store: ObjectStore, server: Server) -> None:
        with pytest.raises(FrazilError) as found:
            await call(store)
        assert type(found.value) is kind, repr(found.value)
        for word in words:
            assert word in str(found.value)
        assert SECRET not in str(found.value)

    return work


def put(store: ObjectStore) -> Awaitable[None]:
    return store.put_if_absent("a/b", b"data")


def get(store: ObjectStore) -> Awaitable[bytes]:
    return store.get("a/b")


async def listed(store: ObjectStore) -> list[str]:
    return [info.key async for info in store.list("a/")]


def delete(store: ObjectStore) -> Awaitable[None]:
    return store.delete(["a/b", "a/c"])


@pytest.mark.parametrize(
    ("step", "kind", "words"),
    [
        ("412:PreconditionFailed", Conflict, ("s3://bucket/pre/a/b",)),
        ("409:ConditionalRequestConflict", RetryLater, ("under way",)),
        ("503:SlowDown", RetryLater, ("slow down",)),
        ("429:", RetryLater, ("slow down",)),
        ("500:InternalError", OutcomeUnknown, ("may have been applied",)),
        ("502:", OutcomeUnknown, ()),
        ("cut", OutcomeUnknown, ("connection broke",)),
        ("hang", OutcomeUnknown, ("no answer in time",)),
        ("400:BadDigest", RetryLater, ("nothing was stored",)),
        ("403:AccessDenied", Refused, ("s3:PutObject", "s3://bucket/pre/a/b", "because")),
        ("403:InvalidAccessKeyId", Refused, ("s3.access_key_id",)),
        ("403:SignatureDoesNotMatch", Refused, ("s3.secret_access_key",)),
        ("403:RequestTimeTooSkewed", Refused, ("clock",)),
        ("400:ExpiredToken", Refused, ("credentials",)),
        ("404:NoSuchBucket", Refused, ("no bucket bucket", "http://127.0.0.1")),
        ("301:PermanentRedirect", Refused, ("s3.region",)),
        ("501:NotImplemented", Refused, ("If-None-Match",)),
        ("400:InvalidRequest", Refused, ("because",)),
    ],
)
def test_a_put_is_sent_once_and_its_answer_has_one_meaning(step: str, kind: type[FrazilError], words: tuple[str, ...]) -> None:
    server = run([step], fails(kind, put, *words))
    assert server.seen == ["PUT"]
    assert "if-none-match: *" in server.heads[0].lower()


def test_r25_no_retry_hides_a_lost_answer() -> None:
    """obstore would send the PUT again, meet its own object and say 412 (F87); it must not."""
    server = run(["cut", "412:PreconditionFailed"], fails(OutcomeUnknown, put))
    assert server.seen == ["PUT"]


@pytest.mark.parametrize(("call", "verb"), [(get, "GET"), (listed, "GET"), (delete, "POST")])
@pytest.mark.parametrize("step", ["503:SlowDown", "500:InternalError", "cut"])
def test_what_may_be_repeated_is_repeated(step: str, call: Callable[[ObjectStore], Awaitable[Any]], verb: str) -> None:
    async def work(store: ObjectStore, server: Server) -> None:
        with suppress(FrazilError):  # what follows the retry is no valid answer for a list; only the retry counts here
            await call(store)

    assert run([step, step, "404:NoSuchKey"], work).seen[:3] == [verb] * 3


@pytest.mark.parametrize(
    ("call", "step", "kind", "requests"),
    [
        (get, "503:SlowDown", RetryLater, 4),
        (get, "404:NoSuchKey", Missing, 1),
        (get, "404:NoSuchBucket", Refused, 1),
        (get, "403:AccessDenied", Refused, 1),
        (listed, "403:AccessDenied", Refused, 1),
        (listed, "404:NoSuchBucket", Refused, 1),
        (listed, "503:SlowDown", RetryLater, 4),
        (delete, "403:AccessDenied", Refused, 1),
        (delete, "cut", OutcomeUnknown, 4),
    ],
)
def test_reading_listing_deleting(call: Callable[[ObjectStore], Awaitable[Any]], step: str, kind: type[FrazilError], requests: int) -> None:
    assert len(run([step], fails(kind, call)).seen) == requests


def test_a_range_behind_the_end_is_empty() -> None:
    async def work(store: ObjectStore, server: Server) -> None:
        assert await store.get("a/b", start=50, end=60) == b""

    run(["416:InvalidRange"], work)


def test_an_answer_that_breaks_off_is_read_again() -> None:
    async def work(store: ObjectStore, server: Server) -> None:
        assert await store.get("a/b") == b"0123456789"

    assert run(["short", OK], work).seen == ["GET", "GET"]


def test_nobody_listens() -> None:
    async def main() -> None:
        access = CloudAccess(endpoint="http://127.0.0.1:1", region="r", access_key_id="AK", secret_access_key=SECRET, allow_http=True)
        store = open_objects("s3://bucket", offload=InlineOffload(), clock=SystemClock(), access=replace(access, check_conditions=False))
        with pytest.raises(RetryLater, match="cannot connect") as found:
            await store.put_if_absent("a", b"x")
        assert not isinstance(found.value, OutcomeUnknown)  # nothing was sent

    asyncio.run(main())


def test_f87_a_store_that_ignores_conditions_is_refused() -> None:
    run([OK], fails(Refused, put, "ignores If-None-Match"), check_conditions=True)


def test_f87_an_honest_store_is_asked_once() -> None:
    async def work(store: ObjectStore, server: Server) -> None:
        await store.put_if_absent("a", b"x")
        await store.put_if_absent("b", b"x")

    server = run([OK, "412:PreconditionFailed", OK, OK], work, check_conditions=True)
    assert [head.split(" ")[1] for head in server.heads] == ["/bucket/pre/.frazil/probe"] * 2 + ["/bucket/pre/a", "/bucket/pre/b"]


def test_a_slow_get_is_sent_again_and_the_faster_counts() -> None:
    async def work(store: ObjectStore, server: Server) -> None:
        for _ in range(40):
            await store.get("a/b")
        server.script[:] = ["hang5", OK]
        started = asyncio.get_running_loop().time()
        assert await store.get("a/b") == b"0123456789"
        assert asyncio.get_running_loop().time() - started < 3
        gets: Any = store
        assert (gets.gets.hedged, gets.gets.won) >= (1, 1)

    run([OK], work, deadline_ms=10_000)


def test_keys_that_end_are_asked_for_again() -> None:
    asked: list[int] = []

    async def renew() -> CloudKeys:
        asked.append(1)
        expires_ms = SystemClock().now_ms() + (1000 if len(asked) == 1 else 3_600_000)
        return CloudKeys(access_key_id=f"K{len(asked)}", secret_access_key=SECRET, session_token="t", expires_ms=expires_ms)

    async def work(store: ObjectStore, server: Server) -> None:
        for _ in range(3):
            await store.get("a/b")
            await asyncio.sleep(0.2)  # keys about to end are asked for again at most ten times a second

    server = run([OK], work, renew=renew)
    assert len(asked) == 2  # the first keys are about to end, the second live for an hour
    assert "Credential=K1/" in server.heads[0]
    assert "Credential=K2/" in server.heads[-1]
    assert "x-amz-security-token: t" in server.heads[-1].lower()


def test_secrets_are_in_no_repr_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    access = CloudAccess(access_key_id="AK", secret_access_key=SECRET, session_token=SECRET)
    assert SECRET not in repr(access)
    assert SECRET not in repr(CloudKeys(access_key_id="AK", secret_access_key=SECRET, session_token=SECRET))
    with caplog.at_level(logging.DEBUG):
        run(["403:SignatureDoesNotMatch"], fails(Refused, put))
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    "url", ["s3://", "s3:bucket", "s3://bucket?x=1", "s3://key:secret@bucket/p", "s3://bucket/a//b", "s3://bucket/../x"]
)
def test_addresses_that_are_refused(url: str) -> None:
    with pytest.raises(Refused):
        open_objects(url, offload=InlineOffload(), clock=SystemClock())


@pytest.mark.parametrize(
    ("access", "word"),
    [
        (CloudAccess(access_key_id="AK"), "go together"),
        (CloudAccess(endpoint="http://store:9000"), "s3.allow_http"),
        (CloudAccess(endpoint="https://me:must-not-show@store:9000"), "user or password"),
        (CloudAccess(endpoint="https://[store"), "no address"),
        (CloudAccess(endpoint="https://store:9000", ca_file="/nowhere/ca.pem"), "/nowhere/ca.pem"),
    ],
)
def test_access_that_is_refused(access: CloudAccess, word: str) -> None:
    with pytest.raises(Refused, match=word) as caught:
        open_objects("s3://bucket", offload=InlineOffload(), clock=SystemClock(), access=access)
    assert "must-not-show" not in str(caught.value)


def test_an_announced_length_that_is_not_kept_is_corrupt() -> None:
    """Should the client library ever hand over fewer bytes than the answer announced."""

    class Fewer:
        range = (0, 10)

        async def bytes_async(self) -> bytes:
            return b"012"

    async def work(store: ObjectStore, server: Server) -> None:
        async def answer(*_: object) -> Fewer:
            return Fewer()

        any_store: Any = store
        any_store._answer = answer
        with pytest.raises(Corrupt, match="s3://bucket/pre/a/b"):
            await store.get("a/b")

    run([OK], work)


def test_given_keys_do_not_mix_with_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-other-keys")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OTHER")

    async def work(store: ObjectStore, server: Server) -> None:
        await store.get("a")

    head = run([OK], work).heads[0]
    assert "Credential=AK/" in head
    assert "of-other-keys" not in head


def test_a_private_authority_is_trusted_when_it_is_named(tmp_path: pathlib.Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)

    async def main() -> None:
        server = Server([OK])
        listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
        access = CloudAccess(
            endpoint=f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}", region="r", access_key_id="AK", secret_access_key=SECRET
        )
        try:
            trusting = replace(access, ca_file=str(tmp_path / "ca.pem"))
            store = open_objects("s3://bucket", offload=InlineOffload(), clock=SystemClock(), access=trusting)
            assert await store.get("a") == b"0123456789"
            store = open_objects("s3://bucket", offload=InlineOffload(), clock=SystemClock(), access=access)
            with pytest.raises(Refused, match="ca_file"):
                await store.get("a")
        finally:
            listener.close()
            await server.close()

    asyncio.run(main())
