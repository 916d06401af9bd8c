"""``frazil completion``: what a shell needs to complete commands, options, and names of topics, groups and tables."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from frazil.admin.port import KafkaAdmin
from frazil.cli.session import Session, fail
from frazil.kit.errors import FrazilError

_VARIABLE = "_FRAZIL_COMPLETE"
_PATIENCE_S = 2.0
"""A person waits with a finger on the Tab key."""
_PLACES = {
    "bash": 'eval "$(frazil completion bash)"  in ~/.bashrc',
    "zsh": 'eval "$(frazil completion zsh)"  in ~/.zshrc, after compinit',
    "fish": "frazil completion fish > ~/.config/fish/completions/frazil.fish",
}

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


@click.command(
    epilog="\b\nWhere it goes:\n" + "\n".join(f"  {line}" for line in _PLACES.values()),
)
@click.argument("shell", type=click.Choice(list(_PLACES)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell. It completes names too, as long as the broker or the stores answer."""
    found = get_completion_class(shell)
    if found is None:
        fail(f"no completion for {shell}")
    root = context.find_root()
    click.echo(found(root.command, {}, "frazil", _VARIABLE).source())


def topic_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Topics of the broker."""
    return _from_broker(context, incomplete, lambda kafka: kafka.list_topics(), "name")


def group_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Consumer groups of the broker."""
    return _from_broker(context, incomplete, lambda kafka: kafka.list_groups(), "group")


def table_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Tables of the embedded stores."""
    from frazil.assembly.tables import open_tables

    async def ask(session: Session) -> list[str]:
        async with open_tables(session.settings().settings) as tables:
            return [row.table for row in await tables.status()]

    return _quietly(context, incomplete, ask)


def _from_broker(
    context: click.Context, incomplete: str, ask: Callable[[KafkaAdmin], Awaitable[tuple[Any, ...]]], field: str
) -> list[CompletionItem]:
    from frazil.assembly.verbs import open_kafka

    async def work(session: Session) -> list[str]:
        host, port = session.broker_address()
        async with open_kafka(host, port, patience_s=0.0, notice=lambda _: None) as kafka:
            return [str(getattr(row, field)) for row in await ask(kafka)]

    return _quietly(context, incomplete, work)


def _quietly(context: click.Context, incomplete: str, ask: Callable[[Session], Coroutine[Any, Any, list[str]]]) -> list[CompletionItem]:
    """No names rather than a message in the middle of somebody's command line."""

    async def work() -> list[str]:
        async with asyncio.timeout(_PATIENCE_S):
            return await ask(_session(context))

    try:
        with contextlib.redirect_stderr(io.StringIO()):
            found = asyncio.run(work())
    except (FrazilError, OSError, TimeoutError, SystemExit):
        return []
    return [CompletionItem(name) for name in found if name.startswith(incomplete)]


def _session(context: click.Context) -> Session:
    """The session that the options typed so far would make."""
    typed = context.find_root().params
    session = Session(config=typed.get("config"), bootstrap=typed.get("bootstrap") or "")
    for change in typed.get("changes") or ():
        name, _, value = change.partition("=")
        session.flags[name] = value
    if typed.get("data_dir"):
        session.flags["data_dir"] = typed["data_dir"]
    return session
