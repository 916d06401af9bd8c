"""Every `frazil …` line that the pages show is one the command line takes."""

from __future__ import annotations

import pathlib
import re
import shlex

import click
import pytest

from frazil.cli import main

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ["README.md", "docs/reading-tables.md", "docs/manifests.md"]


def shown(text: str) -> list[list[str]]:
    """The arguments of each call of frazil in the page's shell blocks."""
    found = []
    for block in re.findall(r"```sh\n(.*?)```", text, re.S):
        for line in block.splitlines():
            for call in re.findall(r"(?:^|[|(] ?)frazil ((?:'[^']*'|\"[^\"]*\"|[^'\"|&#])*)", line):
                found.append(shlex.split(call))
    return found


def parse(arguments: list[str]) -> str:
    """Parses without running; the path of the command. Raises UsageError."""
    command: click.Command = main
    context = main.make_context("frazil", list(arguments))
    while isinstance(command, click.Group):
        if command.invoke_without_command and not [*context._protected_args, *context.args]:
            break
        name, below, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert below is not None
        context, command = below.make_context(name, rest, parent=context), below
    return context.command_path


@pytest.mark.parametrize("page", PAGES)
def test_shown_commands_parse(page: str) -> None:
    calls = shown((ROOT / page).read_text())
    assert calls
    assert all(parse(call).startswith("frazil ") for call in calls)


def test_a_wrong_command_would_be_seen() -> None:
    (call,) = shown("```sh\nseq 1 | frazil produce numbers --colour red\n```")
    with pytest.raises(click.UsageError):
        parse(call)
