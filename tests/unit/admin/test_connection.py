"""Connecting, and what a broker's refusal is told as."""

from __future__ import annotations

import asyncio
import socket

import pytest

from frazil.admin.connection import BrokerConnection, check
from frazil.kit.errors import Refused, RetryLater
from frazil.wire.errors import ErrorCode


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_broker_that_comes_up_meanwhile_is_found_and_waiting_is_said_once() -> None:
    port, told = free_port(), list[str]()

    async def nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def work() -> None:
        connection = BrokerConnection("127.0.0.1", port)
        opening = asyncio.create_task(connection.open(patience_s=20, notice=told.append))
        await asyncio.sleep(0.5)
        assert not opening.done()
        async with await asyncio.start_server(nothing, "127.0.0.1", port):
            await opening
            await connection.close()

    asyncio.run(work())
    assert told == [f"waiting up to 20 s for a broker at 127.0.0.1:{port}"]


def test_without_patience_it_fails_at_once_and_quietly() -> None:
    port, told = free_port(), list[str]()
    with pytest.raises(RetryLater, match=f"no broker answers at 127.0.0.1:{port}"):
        asyncio.run(BrokerConnection("127.0.0.1", port).open(notice=told.append))
    assert told == []


def test_a_name_nobody_knows_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    told = list[str]()
    with pytest.raises(RetryLater, match="Name or service not known"):
        asyncio.run(BrokerConnection("nowhere.invalid", 9092).open(patience_s=60, notice=told.append))
    assert told == []


@pytest.mark.parametrize(
    ("code", "about", "message", "words"),
    [
        (ErrorCode.TOPIC_ALREADY_EXISTS, "topic x", "topic x exists", "topic x exists (TOPIC_ALREADY_EXISTS)"),
        (ErrorCode.INVALID_CONFIG, "topic x", "no such setting", "topic x: no such setting (INVALID_CONFIG)"),
        (ErrorCode.GROUP_ID_NOT_FOUND, "group g", None, "group g: there is no such group (GROUP_ID_NOT_FOUND)"),
        (ErrorCode.INVALID_REQUEST, "x", None, "x: refused (INVALID_REQUEST)"),
        (31_999, "x", None, "x: refused (error 31999)"),
    ],
)
def test_a_refusal_has_words_a_name_and_says_nothing_twice(code: int, about: str, message: str | None, words: str) -> None:
    with pytest.raises(Refused) as caught:
        check(code, about, message)
    assert str(caught.value) == words


def test_no_error_is_no_refusal() -> None:
    check(0, "anything", "words")
