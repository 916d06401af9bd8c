"""By which name a table's progress knows the log of a partition (F03, R27)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from frazil.catalogs.progress import SourcePartition
from frazil.kit.names import PartitionKey
from frazil.log.listing import Identity
from frazil.log.refs import Bounds

_MARK: Final = re.compile(r"#([0-9]+)\.([0-9a-f]{8})\.(-?[0-9]+)$")


class SourceNaming(Protocol):
    """Recognises logs."""

    def name(self, key: PartitionKey, progress: Mapping[SourcePartition, int]) -> str:
        """The source of ``key`` as progress has it, or a new one when progress does not know this log."""
        ...


class ListedNaming:
    """Names logs that are only listed: ``{root}#{base}.{crc}.{created}`` of the lowest segment that was seen at first.

    The lowest segment may go, by retention; then the log is still the same when what is left is younger and reaches as far as progress.
    A log whose lowest segment is another one, begins lower, or ends before progress is another log, and is landed from its beginning.
    """

    def __init__(self, root: str, identity: Callable[[PartitionKey], Identity | None], bounds: Callable[[PartitionKey], Bounds]) -> None:
        self._root = root
        self._identity = identity
        self._bounds = bounds

    def name(self, key: PartitionKey, progress: Mapping[SourcePartition, int]) -> str:
        """See ``SourceNaming.name``."""
        now = self._identity(key)
        if now is None:
            return f"{self._root}#none"  # an empty log: nothing will be landed under this name
        known = [
            (Identity(base=int(mark[1]), crc=int(mark[2], 16), created_ms=int(mark[3])), at, offset)
            for at, offset in progress.items()
            if at.topic_id == key.topic_id
            and at.partition == int(key.partition)
            and at.source.startswith(f"{self._root}#")
            and (mark := _MARK.search(at.source))
        ]
        for identity, at, offset in sorted(known, key=lambda item: -item[0].created_ms):
            if identity == now or (now.base > identity.base and now.created_ms >= identity.created_ms and offset <= self._bounds(key).end):
                return at.source
        return f"{self._root}#{now.base}.{now.crc:08x}.{now.created_ms}"
