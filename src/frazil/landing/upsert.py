"""The options of tables that follow changes (``mode=upsert``, ``envelope``) as one value. Pure; what cannot be is Refused here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from frazil.kit.errors import Refused
from frazil.landing.columns import METADATA_NAMES
from frazil.metadata.landings import LandingSpec
from frazil.schemas import parse_columns

OFFSET: Final = "offset"
OPERATION: Final = "_op"
"""Column of append-only tables of change events: what happened to the row."""
WRITES: Final = ("positions", "equality", "copy")
RECORD_KEYS: Final = ("string", "int", "long", "json")
_DELETES: Final = ("tombstone", "op", "none")
_COLUMNAR: Final = ("json", "json-schema", "avro", "protobuf")
_NAMES: Final = ("upsert.key", "upsert.order", "upsert.deletes", "upsert.record-key", "upsert.write")


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What is around a row. ``field``: the flat record's field with the operation; empty: Debezium's envelope."""

    field: str = ""

    @property
    def debezium(self) -> bool:
        """Whether rows are in ``before`` and ``after``."""
        return not self.field


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert:
    """One row per key. ``order``: the column by which the newer of two events is known, or ``offset``."""

    keys: tuple[str, ...]
    order: str = OFFSET
    tombstones: bool = False
    """A record without value deletes the row of its record key."""
    record_key: str = ""
    """What record keys are, where tombstones need them."""
    write: str = WRITES[0]

    @property
    def by_offset(self) -> bool:
        """Whether the last event of a partition wins."""
        return self.order == OFFSET


def parse_envelope(spec: LandingSpec) -> Envelope | None:
    """The option ``envelope``. Raises Refused."""
    text = spec.options.get("envelope", "none")
    if text == "none":
        return None
    if spec.value not in _COLUMNAR:
        raise _refused(spec, f"envelope={text}: values of kind {spec.value!r} have no fields")
    if text == "debezium":
        return Envelope()
    kind, colon, field = text.partition(":")
    if kind != "op" or not colon or not field:
        raise _refused(spec, f"envelope={text!r}: use debezium, op:FIELD or none")
    return Envelope(field=field)


def parse_upsert(spec: LandingSpec) -> Upsert | None:
    """The options ``mode`` and ``upsert.…``; None for a table that only grows. Raises Refused."""
    options = spec.options
    envelope = parse_envelope(spec)
    mode = options.get("mode", "append")
    if mode not in ("append", "upsert"):
        raise _refused(spec, f"mode={mode!r}: use append or upsert")
    if mode == "append":
        given = [name for name in _NAMES if name in options]
        if given:
            raise _refused(spec, f"{given[0]} is for mode=upsert")
        return None
    keys = tuple(name.strip() for name in options.get("upsert.key", "").split(",") if name.strip())
    order = options.get("upsert.order", OFFSET)
    write = options.get("upsert.write", WRITES[0])
    deletes = _deletes(spec, envelope)
    record_key = options.get("upsert.record-key", "")
    upsert = Upsert(keys=keys, order=order, tombstones="tombstone" in deletes, record_key=record_key, write=write)
    if "route" in options:
        raise _refused(spec, "mode=upsert with a route: a row whose record changes the table would stay in the old one (R23)")
    if write == "equality" and "partition" in options:
        raise _refused(
            spec,
            "upsert.write=equality in a partitioned table: a row that moves would stay in its old partition; use positions (R23)",
        )
    _check_keys(spec, upsert)
    _check_order(spec, upsert, deletes)
    _check_tombstones(spec, upsert)
    if write not in WRITES:
        raise _refused(spec, f"upsert.write={write!r}: use one of {', '.join(WRITES)}")
    return upsert


def _deletes(spec: LandingSpec, envelope: Envelope | None) -> frozenset[str]:
    text = spec.options.get("upsert.deletes", "op" if envelope is not None else "none")
    found = frozenset(word.strip() for word in text.split(","))
    if not found <= set(_DELETES) or ("none" in found and len(found) > 1):
        raise _refused(spec, f"upsert.deletes={text!r}: use tombstone, op, both with a comma between, or none")
    if "op" in found and envelope is None:
        raise _refused(spec, "upsert.deletes=op needs envelope=debezium or envelope=op:FIELD, which say where the operation is")
    if envelope is not None and "op" not in found:
        raise _refused(spec, f"upsert.deletes={text!r}: events of an envelope delete by their operation; add op")
    return found - {"none"}


def _check_keys(spec: LandingSpec, upsert: Upsert) -> None:
    if spec.value not in _COLUMNAR:
        raise _refused(spec, f"mode=upsert: values of kind {spec.value!r} have no key columns")
    if not upsert.keys:
        raise _refused(spec, "mode=upsert needs upsert.key, the columns that make a row the same row")
    if len(set(upsert.keys)) != len(upsert.keys):
        raise _refused(spec, "upsert.key names a column twice")
    for name in upsert.keys:
        if spec.metadata_columns and name in METADATA_NAMES:
            raise _refused(spec, f"upsert.key={name}: it says where a record was, which is never the same for two")
    if spec.columns:
        declared = parse_columns(spec.columns)
        for name in upsert.keys if upsert.by_offset else (*upsert.keys, upsert.order):
            if name not in declared.names:
                raise _refused(spec, f"column {name} is not among the declared columns")
        check_key_types(spec.table, upsert, declared)


def check_key_types(table: str, upsert: Upsert, columns: pa.Schema) -> None:
    """Raises Refused for a key or order column whose values are not simply equal or unequal, or have no order."""
    for name in upsert.keys:
        kind = columns.field(name).type
        if pa.types.is_floating(kind) or pa.types.is_nested(kind):
            raise Refused(f"landing {table}: key column {name} is {kind}; keys are text, whole numbers, decimals, times, uuid or bytes")
    if not upsert.by_offset and upsert.order in columns.names:
        kind = columns.field(upsert.order).type
        if not (pa.types.is_integer(kind) or pa.types.is_temporal(kind) or pa.types.is_decimal(kind)):
            raise Refused(f"landing {table}: upsert.order={upsert.order} is {kind}; take a whole number, a decimal or a time")


def _check_order(spec: LandingSpec, upsert: Upsert, deletes: frozenset[str]) -> None:
    if upsert.by_offset:
        if len(spec.topics) > 1:
            raise _refused(spec, "several topics have no common order of offsets; give upsert.order=COLUMN (R23)")
        return
    if upsert.order in upsert.keys:
        raise _refused(spec, f"upsert.order={upsert.order} is a key column: it is the same for all events of a row")
    if upsert.write == "equality":
        raise _refused(spec, "upsert.write=equality deletes without looking, so it cannot order by a column; use positions or copy (R23)")
    if deletes:
        raise _refused(
            spec,
            f"upsert.order={upsert.order} with deletes: a deleted row leaves nothing that a late event could be compared with; "
            "order by offset, or give upsert.deletes=none and keep deletion as a column",
        )


def _check_tombstones(spec: LandingSpec, upsert: Upsert) -> None:
    if not upsert.tombstones:
        if upsert.record_key:
            raise _refused(spec, "upsert.record-key is for upsert.deletes=tombstone")
        return
    if upsert.record_key not in RECORD_KEYS:
        raise _refused(
            spec, f"upsert.deletes=tombstone needs upsert.record-key, what record keys are: {', '.join(RECORD_KEYS)}; others cannot be read"
        )
    if upsert.record_key != "json" and len(upsert.keys) > 1:
        raise _refused(spec, f"upsert.record-key={upsert.record_key} is one value, upsert.key has {len(upsert.keys)} columns; use json")


def _refused(spec: LandingSpec, why: str) -> Refused:
    return Refused(f"landing {spec.table}: {why}")


def check_mode(spec: LandingSpec, _value: str) -> str:
    """What is wrong with the options of changes together; empty: nothing."""
    try:
        parse_upsert(spec)
    except Refused as error:
        return str(error).removeprefix(f"landing {spec.table}: ")
    return ""
