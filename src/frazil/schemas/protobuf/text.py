"""Reads .proto files as far as messages need it: fields, enums, oneofs, maps, nesting. Options and services are skipped."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from frazil.schemas.avro.tree import bad_schema

_TOKEN: Final = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<word>\.?[A-Za-z_][\w.]*)|(?P<number>[-+]?[\d.][\w.+-]*)|(?P<mark>.)""",
    re.DOTALL | re.ASCII,
)
_DEPTH_MAX: Final = 32
_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """``label``: optional, required, repeated, map or empty; ``key``: the key type of a map. ``presence``: absent differs from default."""

    name: str
    number: int
    label: str
    type: str
    key: str = ""
    presence: bool = False
    oneof: str = ""


@dataclass(slots=True, kw_only=True, eq=False)
class Message:
    """``name`` in full, with package and outer messages."""

    name: str
    fields: list[Field] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class File:
    """One file: its messages in order, and every name it defines."""

    messages: list[Message] = field(default_factory=list)
    names: dict[str, Message | dict[int, str]] = field(default_factory=dict)
    """Full name to a message, or to an enum as number to symbol."""


def read_file(text: str) -> File:
    """Raises Unfit with code bad-schema."""
    if len(text) > _BYTES_MAX:
        raise bad_schema(f"a file of more than {_BYTES_MAX} characters")
    return _Parser(text).file()


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = [match[0] for match in _TOKEN.finditer(text) if match.lastgroup]
        self._at = 0
        self._explicit = True
        """proto2 and editions: a scalar field that is absent is told from one with the default."""
        self._file = File()

    def file(self) -> File:
        package = ""
        while self._at < len(self._tokens):
            match self._next():
                case "syntax" | "edition":
                    self._take("=")
                    self._explicit = self._next()[1:-1] != "proto3"
                    self._take(";")
                case "package":
                    package = self._next() + "."
                    self._take(";")
                case "message":
                    self._file.messages.append(self._message(package, 0))
                case "enum":
                    self._enum(package)
                case ";":
                    continue
                case _:
                    self._skip()
        return self._file

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise bad_schema("the .proto text ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _take(self, mark: str) -> None:
        found = self._next()
        if found != mark:
            raise bad_schema(f"the .proto text has {found[:40]!r} where {mark!r} should be")

    def _skip(self) -> None:
        """To the end of a statement or of its block."""
        depth = 0
        while True:
            word = self._next()
            depth += (word == "{") - (word == "}")
            if depth <= 0 and word in (";", "}"):
                return

    def _number(self) -> int:
        text = self._next()
        try:
            return int(text, 0) if text.lstrip("+-")[:2].lower() == "0x" or text.lstrip("+-") == "0" else int(text.lstrip("+"), 10)
        except ValueError:
            raise bad_schema(f"{text[:40]!r} is no number") from None

    def _define(self, name: str, what: Message | dict[int, str]) -> None:
        if name in self._file.names:
            raise bad_schema(f"{name[:100]!r} is defined twice")
        self._file.names[name] = what

    def _message(self, scope: str, depth: int) -> Message:
        if depth > _DEPTH_MAX:
            raise bad_schema(f"messages nested deeper than {_DEPTH_MAX}")
        message = Message(name=scope + self._next())
        self._define(message.name, message)
        self._take("{")
        while (word := self._next()) != "}":
            match word:
                case "message":
                    message.messages.append(self._message(message.name + ".", depth + 1))
                case "enum":
                    self._enum(message.name + ".")
                case "oneof":
                    self._oneof(message)
                case "option" | "reserved" | "extensions" | "extend":
                    self._skip()
                case ";":
                    continue
                case _:
                    message.fields.append(self._field(word, ""))
        for what in ("name", "number"):
            if len({getattr(one, what) for one in message.fields}) != len(message.fields):
                raise bad_schema(f"message {message.name[:100]!r} has a field {what} twice")
        return message

    def _oneof(self, message: Message) -> None:
        name = self._next()
        self._take("{")
        while (word := self._next()) != "}":
            if word == "option":
                self._skip()
            elif word != ";":
                message.fields.append(self._field(word, name))

    def _field(self, word: str, oneof: str) -> Field:
        label, key = "", ""
        if word in ("optional", "required", "repeated"):
            label, word = word, self._next()
        if word == "map" and self._peek() == "<":
            self._take("<")
            key = self._next()
            self._take(",")
            label, word = "map", self._next()
            self._take(">")
        if word == "group":
            raise bad_schema("groups are not read")
        name = self._next()
        self._take("=")
        number = self._number()
        if self._peek() == "[":
            self._options()
        self._take(";")
        presence = bool(oneof) or label == "optional" or self._explicit
        return Field(name=name, number=number, label=label, type=word, key=key, presence=presence, oneof=oneof)

    def _options(self) -> None:
        """Over ``[…]``, which may hold lists itself."""
        depth = 0
        while True:
            word = self._next()
            depth += (word == "[") - (word == "]")
            if not depth:
                return

    def _enum(self, scope: str) -> None:
        name = scope + self._next()
        symbols: dict[int, str] = {}
        self._take("{")
        while (word := self._next()) != "}":
            if word in ("option", "reserved"):
                self._skip()
            elif word != ";":
                self._take("=")
                symbols.setdefault(self._number(), word)
                while self._next() != ";":
                    continue
        self._define(name, symbols)
