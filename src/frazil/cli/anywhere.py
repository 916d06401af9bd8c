"""Global options may also stand after the command: ``frazil land status -o json``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from frazil.cli.session import Session, pairs


def accept_after(root: click.Group) -> None:
    """Gives every command below ``root`` the options of ``root``, hidden, unless it has one of that name itself."""
    options = [parameter for parameter in root.params if isinstance(parameter, click.Option) and parameter.name in _STORE]
    for command in _below(root):
        taken = {flag for parameter in command.params for flag in parameter.opts}
        command.params += [_hidden(option) for option in options if not taken & set(option.opts)]


def keep_changes(session: Session, changes: tuple[str, ...]) -> None:
    """``NAME=VALUE`` texts as flags of the session."""
    session.flags.update({name: value or "" for name, value in pairs(changes).items()})


def _store_output(session: Session, value: str) -> None:
    session.output = value


def _store_bootstrap(session: Session, value: str) -> None:
    session.bootstrap = value


def _store_config(session: Session, value: str) -> None:
    session.config = value


def _store_data_dir(session: Session, value: str) -> None:
    session.flags["data_dir"] = value


_STORE: dict[str, Callable[[Session, Any], None]] = {
    "output": _store_output,
    "bootstrap": _store_bootstrap,
    "config": _store_config,
    "data_dir": _store_data_dir,
    "changes": keep_changes,
}


def _below(group: click.Group) -> list[click.Command]:
    found: list[click.Command] = []
    for command in group.commands.values():
        found.append(command)
        if isinstance(command, click.Group):
            found += _below(command)
    return found


def _hidden(option: click.Option) -> click.Option:
    return click.Option(
        [*option.opts, str(option.name)],
        type=option.type,
        multiple=option.multiple,
        expose_value=False,
        hidden=True,
        callback=_keep,
    )


def _keep(context: click.Context, parameter: click.Parameter, value: object) -> object:
    if value is not None and value != () and parameter.name is not None:
        _STORE[parameter.name](context.ensure_object(Session), value)
    return value
