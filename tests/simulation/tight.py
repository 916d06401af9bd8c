"""Limits turned down, so that tens of records reach what millions would: several chunks of one commit, of one plan, of one sweep."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

from frazil.catalogs import condemned as catalog_condemned
from frazil.catalogs import progress
from frazil.log import append, attempt, collect, commit, read, remove, retain, seal

_LIMITS = (
    (attempt, "OPERATIONS_MAX", 4),
    (attempt, "GROUPS_MAX", 1),
    (append, "BATCHES_MAX", 4),
    (commit, "LOSSES_MAX", 1),
    (seal, "PLANS_MAX", 1),
    (seal, "CUTS_MAX", 2),
    (collect, "BUNDLES_MAX", 3),
    (collect, "RANGES_MAX", 2),
    (collect, "DELETE_KEYS_MAX", 2),
    (remove, "DELETE_KEYS_MAX", 2),
    (retain, "SEGMENTS_MAX", 1),
    (read, "COALESCE_GAP_BYTES", 16),
    (read, "_SLACK_BYTES", 64),
    (progress, "INLINE_BYTES_MAX", 10),
    (progress, "RANGES_BYTES_MAX", 40),
    (catalog_condemned, "KEYS_MAX", 3),
)


@contextlib.contextmanager
def tight_limits() -> Iterator[None]:
    """While a world runs."""
    with contextlib.ExitStack() as stack:
        for module, name, value in _LIMITS:
            stack.enter_context(mock.patch.object(module, name, value))
        yield
