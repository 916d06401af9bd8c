"""Random messages of our generated classes, from a seed; values that every oracle can hold (times within year 9999, known error codes)."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator

from frazil.kit.errors import Bug
from frazil.wire import APIS, ErrorCode
from frazil.wire.codec import encode_parts
from frazil.wire.layout import Layouts, Message
from frazil.wire.messages import consumer_protocol_assignment, consumer_protocol_subscription

_BITS = {"Int8": 7, "Int16": 15, "Int32": 31, "Int64": 63, "UInt16": 16, "UInt32": 32}
_ALPHABET = "abcXYZ019._-é漢🧊"
_CODES = [code.value for code in ErrorCode if code.value <= 120]


def all_layouts() -> Iterator[tuple[Layouts, int]]:
    """Every (layouts, version) spoken."""
    for api in APIS.values():
        for layouts in api.load():
            for version in layouts.readers:
                yield layouts, version
    for module in (consumer_protocol_subscription, consumer_protocol_assignment):
        for version in module.DATA.readers:
            yield module.DATA, version


def random_bytes_of(layouts: Layouts, version: int, chance: random.Random) -> tuple[Message, bytes]:
    """A random message that this version can carry, and its bytes."""
    while True:
        message = random_message(layouts.kind, chance)
        try:
            return message, b"".join(encode_parts(layouts, version, message))
        except Bug as bug:  # null where this version allows none: another one
            if "may not be null" not in str(bug):
                raise


def random_message(kind: type[Message], chance: random.Random) -> Message:
    """An instance with random fields; half of all tagged-like defaults stay."""
    annotations = kind.__annotations__
    return kind(**{name: _value(name, text, kind, chance) for name, text in annotations.items() if chance.random() < 0.85})


def _value(name: str, text: str, kind: type[Message], chance: random.Random) -> object:
    if text.endswith(" | None"):
        text = text.removesuffix(" | None")
        if chance.random() < 0.2:
            return None
    inner = re.fullmatch(r"Sequence\[(\w+)\]", text)
    if inner:
        return [_value(name, inner[1], kind, chance) for _ in range(chance.choice((0, 1, 1, 2, 3, 130 if inner[1] == "Int32" else 3)))]
    if text in _BITS:
        return _number(name, text, chance)
    if text == "bool":
        return chance.random() < 0.5
    if text == "Uuid":
        return chance.choice((bytes(16), chance.randbytes(16)))
    if text == "str":
        return "".join(chance.choices(_ALPHABET, k=chance.choice((0, 1, 5, 20, 200))))
    if text in ("bytes", "Blob"):
        return chance.randbytes(chance.choice((0, 1, 60, 127, 128, 300, 17000)))
    return random_message(getattr(sys.modules[kind.__module__], text), chance)


def _number(name: str, text: str, chance: random.Random) -> int:
    if name == "error_code" or name.endswith("_error_code"):
        return chance.choice(_CODES)
    if text == "Int64" and ("time" in name or name.endswith("_ms")):
        return chance.choice((-1, chance.randrange(0, 4_000_000_000_000)))
    high = (1 << _BITS[text]) - 1
    low = 0 if text.startswith("U") else -1 - high
    return chance.choice((0, 1, -1 if low else 1, low, high, chance.randint(low, high)))
