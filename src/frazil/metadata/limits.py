"""What every back-end demands of a transaction, so that one written on SQLite also fits etcd (R10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from frazil.kit.errors import Bug, Refused
from frazil.metadata.port import Check, RangeDelete, Write

OPERATIONS_MAX: Final = 100
"""Checks and changes are counted apart, as etcd does (its own limit is 128 of each)."""
BYTES_MAX: Final = 512 * 1024


def check_key(key: str) -> None:
    """Raises Bug for a key that not every back-end can hold: empty, with NUL, or not UTF-8."""
    if not key or "\0" in key or not _is_utf8(key):
        raise Bug(f"metadata key {key!r}: must be non-empty UTF-8 text without NUL")


def check_transaction(checks: Sequence[Check], writes: Sequence[Write], range_deletes: Sequence[RangeDelete]) -> None:
    """Raises Bug for a malformed transaction, Refused for one with too many bytes."""
    changes = len(writes) + len(range_deletes)
    if len(checks) > OPERATIONS_MAX or changes > OPERATIONS_MAX:
        raise Bug(f"metadata transaction with {len(checks)} checks and {changes} changes; at most {OPERATIONS_MAX} of each")
    size = 0
    keys: set[str] = set()
    for check in checks:
        check_key(check.key)
        size += len(check.key)
    for write in writes:
        check_key(write.key)
        if write.key in keys:
            raise Bug(f"metadata transaction writes {write.key!r} twice")
        keys.add(write.key)
        size += len(write.key) + len(write.value or b"")
    for gone in range_deletes:
        if any(gone.start <= key < gone.end for key in keys):
            raise Bug(f"metadata transaction writes into the range it deletes, [{gone.start!r}, {gone.end!r})")
        size += len(gone.start) + len(gone.end)
    if size > BYTES_MAX:
        raise Refused(f"metadata transaction of {size} bytes; at most {BYTES_MAX}: store less in one record")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
