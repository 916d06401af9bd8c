"""Protobuf's wire format to raw values as ``avro.datum`` has them: a message is the list of its fields' values, in their order.

The last value of a field wins, parts of one message are joined, packed and unpacked lists are one, all as the encoding guide says.
A field the message does not have makes the record unfit: dropping it would lose something in silence.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from frazil.schemas.unfit import Unfit
from frazil.schemas.varints import varint

VARINT, I64, LEN, I32 = 0, 1, 2, 5
_TAG_BITS: Final = 3

Convert: TypeAlias = Callable[[Any], Any]


@dataclass(slots=True, kw_only=True)
class Slot:
    """Where a field's value goes and how it is read. ``inner``: the plan of a message; ``convert``: what else the wire's value is."""

    at: int
    wire: int
    repeated: bool = False
    convert: Convert = lambda value: value
    word: str = ""
    """The type, for the kernel: a scalar's word, ``enum``, ``message``, ``timestamp`` or ``wrapper``."""
    symbols: Mapping[int, str] = field(default_factory=dict)
    inner: Plan | None = None
    pairs: bool = False
    """A map: ``inner`` is a message of key and value."""
    rivals: tuple[int, ...] = ()
    """Other fields of the same oneof."""
    after: Convert | None = None
    """From a message's raw value to what stands for it."""


@dataclass(slots=True, kw_only=True, eq=False)
class Plan:
    """A message: fields by number, and the values of absent ones. ``required``: positions that must be there."""

    name: str
    slots: dict[int, Slot] = field(default_factory=dict)
    absent: list[Any] = field(default_factory=list)
    required: list[int] = field(default_factory=list)


def broken(why: str) -> Unfit:
    """The verdict on bytes."""
    return Unfit("not-protobuf", why)


def read_message(plan: Plan, data: bytes, depth_left: int) -> list[Any]:
    """The raw value of a message that is all of ``data``."""
    if depth_left < 0:
        raise Unfit("too-deep", f"messages within {plan.name} are nested too deep")
    reading = _Reading(values=[([] if value == [] else value) for value in plan.absent], depth_left=depth_left)
    _read_fields(plan, reading, data)
    for slot in plan.slots.values():
        if slot.at in reading.parts:
            reading.values[slot.at] = _whole(slot, reading.parts[slot.at], depth_left)
        elif slot.pairs:
            reading.values[slot.at] = _last_of_each(slot, reading.values[slot.at], depth_left)
    for place in plan.required:
        if place not in reading.seen:
            raise broken(f"a required field of {plan.name} is missing")
    return reading.values


@dataclass(slots=True, kw_only=True)
class _Reading:
    """One message on its way. ``parts``: bytes of inner messages, by place; they may come in several parts."""

    values: list[Any]
    depth_left: int
    parts: dict[int, bytes] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)

    def take(self, slot: Slot, wire: int, data: bytes, at: int) -> int:
        """One field; where the next begins."""
        self.seen.add(slot.at)
        for rival in slot.rivals:
            self.values[rival] = None
            self.parts.pop(rival, None)
        if slot.repeated and wire == LEN != slot.wire:
            return _packed(slot, data, at, self.values[slot.at])
        if wire != slot.wire:
            raise broken(f"wire type {wire} where {slot.wire} should be")
        raw, at = _value(wire, data, at)
        if slot.repeated:
            self.values[slot.at].append(_whole(slot, raw, self.depth_left))
        elif slot.inner is not None:
            self.parts[slot.at] = self.parts.get(slot.at, b"") + raw
        else:
            self.values[slot.at] = slot.convert(raw)
        return at


def _read_fields(plan: Plan, reading: _Reading, data: bytes) -> None:
    at, end = 0, len(data)
    try:
        while at < end:
            tag, at = varint(data, at)
            slot = plan.slots.get(tag >> _TAG_BITS)
            if slot is None:
                raise broken(f"field {tag >> _TAG_BITS}, which message {plan.name} does not have")
            at = reading.take(slot, tag & 7, data, at)
    except (IndexError, struct.error):
        raise broken(f"the bytes end within a field of {plan.name}") from None
    except OverflowError:
        raise broken("a number of more than 64 bits") from None


def _whole(slot: Slot, raw: bytes, depth_left: int) -> Any:  # noqa: ANN401 - raw values
    if slot.inner is None:
        return slot.convert(raw)
    value = read_message(slot.inner, raw, depth_left - 1)
    return value if slot.after is None else slot.after(value)


def _value(wire: int, data: bytes, at: int) -> tuple[Any, int]:
    if wire == VARINT:
        return varint(data, at)
    if wire == LEN:
        size, at = varint(data, at)
    else:
        size = 8 if wire == I64 else 4
    if at + size > len(data):
        raise broken(f"a length of {size} where {len(data) - at} bytes are left")
    return data[at : at + size], at + size


def _packed(slot: Slot, data: bytes, at: int, into: list[Any]) -> int:
    size, at = varint(data, at)
    end = at + size
    if end > len(data):
        raise broken(f"a length of {size} where {len(data) - at} bytes are left")
    while at < end:
        raw, at = _value(slot.wire, data, at)
        into.append(slot.convert(raw))
    if at != end:
        raise broken("a packed list ends within a value")
    return at


def _last_of_each(slot: Slot, entries: list[list[Any]], depth_left: int) -> list[tuple[str, Any]]:
    """The pairs of a map; the last one of a key wins, and a message that is not there is an empty one."""
    value_slot = slot.inner.slots[2] if slot.inner is not None else slot
    if value_slot.inner is not None:
        entries = [[key, _whole(value_slot, b"", depth_left) if value is None else value] for key, value in entries]
    return list({entry[0]: entry[1] for entry in entries}.items())
