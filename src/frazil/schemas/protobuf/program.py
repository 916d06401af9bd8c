"""How the kernel reads a message into the columns of a table; see ``avro.program``, whose rules these are on another wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from frazil.schemas.avro import fit
from frazil.schemas.avro.program import INTEGER_KINDS, TWIN, Budget, OnlyTwin, Op, Program
from frazil.schemas.avro.tree import Node
from frazil.schemas.names import NameIndex
from frazil.schemas.protobuf.wire import Plan, Slot
from frazil.schemas.shape import Kind, Member, Shape

_DEPTH_MAX: Final = 48
_SIGNLESS: Final = ("uint64", "fixed64")
_PLAIN: Final = {"bool": (Kind.BOOLEAN,), "string": (Kind.STRING,), "bytes": (Kind.BINARY,)}
_KEYS_NOT: Final = ("", "float", "double", "bytes", "enum", "message", "timestamp", "wrapper")
"""Words of a map's key that the language does not have."""


def protobuf_program(plan: Plan, node: Node, members: Sequence[Member], index: NameIndex, *, strict: bool) -> Program | None:
    """The program of a message; see ``avro_program``."""
    compiler = _Compiler(strict=strict)
    if node.kind != "record":
        return None
    try:
        op = compiler.message(node, plan, members, index, (id(node.origin or node),))
    except (OnlyTwin, RecursionError):
        return None
    return None if op is TWIN else Program(op=op, spares=pa.schema(compiler.budget.spares))


class _Compiler:
    def __init__(self, *, strict: bool) -> None:
        self.budget = Budget()
        self._strict = strict

    def message(self, node: Node, plan: Plan, members: Sequence[Member], index: NameIndex, above: tuple[int, ...]) -> Op:
        """A struct of columns. ``above``: the messages that this one is within."""
        self.budget.count()
        numbers = {slot.at: number for number, slot in plan.slots.items()}
        groups: dict[int, int] = {}
        slots: list[Op] = []
        taken: set[int] = set()
        for field_at, (name, inner) in enumerate(node.fields):
            number, column = numbers[field_at], index.find(name)
            slot = plan.slots[number]
            rivals = None if not slot.rivals else groups.setdefault(min(field_at, *slot.rivals), len(groups))
            made = self._slot(inner, plan, number, None if column is None else (column, members[column]), above)
            if made is None or column in taken:
                return TWIN
            slots.append((*made[:-1], rivals, made[-1]))
            if column is not None:
                taken.add(column)
        missing = [at for at in range(len(members)) if at not in taken]
        return TWIN if any(members[at].required for at in missing) else ("message", slots, missing)

    def _slot(self, node: Node, plan: Plan, number: int, column: tuple[int, Member] | None, above: tuple[int, ...]) -> Op | None:
        """A field, as the kernel takes it but for its oneof; None when no message with it is plain."""
        slot = plan.slots[number]
        absent = plan.absent[slot.at]
        spare = column is None and not self._strict
        home = self.budget.spare(node) if spare else column
        op = TWIN if home is None else self._field(node, slot, home[1], above)
        mode = "pairs" if slot.pairs else "many" if slot.repeated else "one"
        defaults = absent is not None and mode == "one"
        key = _key(slot) if slot.pairs else None
        if (home is None and absent is not None) or (op is TWIN and defaults) or (slot.pairs and key is None):
            return None
        required = slot.at in plan.required or (absent is None and home is not None and home[1].required)
        return (number, slot.wire, None if home is None else home[0], mode, op, defaults, required, key)

    def _field(self, node: Node, slot: Slot, member: Member, above: tuple[int, ...]) -> Op:
        """The op of one value: of the field, a list's item or a map's value."""
        shape = member.shape
        if not slot.repeated:
            return self._value(node, slot, shape, above)
        wanted, kind = (Kind.MAP, "map") if slot.pairs else (Kind.LIST, "array")
        if shape.kind is not wanted or node.kind != kind:
            raise OnlyTwin  # every record has the list, and none has a place for it
        item = slot.inner.slots[2] if slot.pairs and slot.inner is not None else slot
        return self._value(node.inner[0], item, shape.members[0].shape, above)

    def _value(self, node: Node, slot: Slot, shape: Shape, above: tuple[int, ...]) -> Op:
        self.budget.count()
        match slot.word:
            case "message":
                return self._message(node, slot, shape, above)
            case "timestamp":
                return ("proto-time",) if shape.kind in (Kind.TIMESTAMPTZ, Kind.LONG) else TWIN
            case "wrapper":
                inner = _scalar(slot.inner.slots[1].word, node, shape) if slot.inner is not None else TWIN
                return TWIN if inner is TWIN else ("wrapper", inner)
            case "enum":
                return ("proto-enum", list(slot.symbols.items())) if shape.kind is Kind.STRING else TWIN
            case word:
                return _scalar(word, node, shape)

    def _message(self, node: Node, slot: Slot, shape: Shape, above: tuple[int, ...]) -> Op:
        if shape.kind is not Kind.STRUCT or slot.inner is None or id(node.origin or node) in above or len(above) > _DEPTH_MAX:
            return TWIN
        index = NameIndex([member.name for member in shape.members])
        return self.message(node, slot.inner, shape.members, index, (*above, id(node.origin or node)))


def _key(slot: Slot) -> tuple[Op, int] | None:
    key = slot.inner.slots[1] if slot.inner is not None else slot
    return None if key.word in _KEYS_NOT else (("proto", key.word), key.wire)


def _scalar(word: str, node: Node, shape: Shape) -> Op:
    fits = fit.scalar(node, shape) is not None
    if word in _PLAIN:
        return ("proto", word) if fits and shape.kind in _PLAIN[word] else TWIN
    if word in _SIGNLESS:
        return ("proto", word) if fits and shape.kind is Kind.DECIMAL else TWIN
    if word in ("float", "double"):
        return ("proto", word) if fits and shape.kind in (Kind.FLOAT, Kind.DOUBLE) else TWIN
    return ("proto", word) if fits and shape.kind in INTEGER_KINDS else TWIN
