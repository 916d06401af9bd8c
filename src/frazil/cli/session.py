"""What every command shares: settings from flags, output format, and one way to run a coroutine and to fail."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

import click

from frazil.admin.port import KafkaAdmin
from frazil.assembly.load import load_settings
from frazil.assembly.settings import FrazilSettings
from frazil.kit.errors import FrazilError
from frazil.kit.settings import Loaded

T = TypeVar("T")

_PATIENCE_S = 10.0
"""How long a verb waits for a broker: `frazil dev &` and the next command may stand in one script."""


@dataclass(slots=True)
class Session:
    """Global options of one invocation."""

    config: str | None = None
    output: str = "table"
    bootstrap: str = ""
    flags: dict[str, str] = field(default_factory=dict)

    def settings(self, extra: Mapping[str, str] | None = None) -> Loaded[FrazilSettings]:
        """The settings tree after all sources; fails the command with a message when one is wrong."""
        return guarded(lambda: load_settings(config=self.config, flags={**self.flags, **(extra or {})}))

    def broker_address(self) -> tuple[str, int]:
        """Host and port of the broker to ask: ``--bootstrap`` or the settings."""
        if self.bootstrap:
            host, _, port = self.bootstrap.rpartition(":")
            if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
                fail(f"--bootstrap {self.bootstrap!r}: want HOST:PORT")
            return host.removeprefix("[").removesuffix("]"), int(port)
        broker = self.settings().settings.broker
        return broker.advertised_host or broker.host, broker.advertised_port or broker.port

    @asynccontextmanager
    async def kafka(self) -> AsyncIterator[KafkaAdmin]:
        """Verbs asked of the broker; a broker that is just starting is waited for."""
        from frazil.assembly.verbs import open_kafka

        host, port = self.broker_address()
        async with open_kafka(host, port, patience_s=_PATIENCE_S, notice=say) as kafka:
            yield kafka


pass_session = click.make_pass_decorator(Session, ensure=True)


def run(work: Coroutine[Any, Any, T], *, failure_code: int = 1) -> T:
    """Runs a coroutine to its end; errors of the tree become one line on stderr and exit code ``failure_code``."""
    return guarded(lambda: asyncio.run(work), failure_code=failure_code)


def guarded(work: Callable[[], T], *, failure_code: int = 1) -> T:
    """Runs ``work``; errors of the tree become one line on stderr and exit code ``failure_code``."""
    try:
        return work()
    except FrazilError as error:
        fail(str(error), code=failure_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)


def pairs(texts: Sequence[str], flag: str = "--set") -> dict[str, str | None]:
    """``NAME=VALUE`` texts as a mapping; an empty value is None."""
    found: dict[str, str | None] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            fail(f"{flag} {text!r}: want NAME=VALUE")
        found[name] = value or None
    return found


def fail(message: str, *, code: int = 1) -> NoReturn:
    """Prints ``message`` to stderr and ends the command."""
    click.echo(f"frazil: {message}", err=True)
    sys.exit(code)


def say(message: str) -> None:
    """A message for the person: stderr, so that stdout stays data."""
    click.echo(message, err=True)
