"""A broker's stop ends in bounded time and says what it left undecided."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from frazil.assembly import broker as module
from frazil.kit.errors import OutcomeUnknown


def stop(close: Any) -> None:
    async def nothing(*_: object) -> None:
        return None

    parts: Any = SimpleNamespace(
        appender=SimpleNamespace(close=close, unanswered=3), index=SimpleNamespace(state=SimpleNamespace(shards=[]))
    )
    marks: Any = SimpleNamespace(advance=nothing)
    stopping: Any = SimpleNamespace(stop=nothing)
    asyncio.run(module._stop(stopping, parts, marks))


def test_a_commit_without_an_answer_does_not_hold_the_stop_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STOP_S", 0.05)

    async def hangs() -> None:
        await asyncio.Event().wait()

    with pytest.raises(OutcomeUnknown, match=r"3 produce request\(s\) are undecided"):
        stop(hangs)


def test_a_clean_stop_raises_nothing() -> None:
    async def closes() -> None:
        return None

    stop(closes)
