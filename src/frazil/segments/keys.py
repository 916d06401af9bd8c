"""The grammar of object keys: segments under the public prefix, bundles under ``bundles/``.

| object  | key                                                                                                |
|---------|----------------------------------------------------------------------------------------------------|
| segment | ``{namespace}/{topic}/{partition}/segment-{base:020d}.kfs``, same stem ``.index`` and ``.fzx``     |
| bundle  | ``bundles/{2 hex digits}/{ulid}.kfb``                                                              |

The k-th incarnation of a topic name (k ≥ 2) is ``{topic}!{k}``: ``!`` is not legal in a topic name, so foreign readers see
another topic, never old bytes under a new topic's key (R05). The hex digits spread bundles over the store's key space (R12).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from frazil.kit.errors import Refused
from frazil.kit.names import is_topic_name

_RESERVED_NAMESPACES: Final = frozenset({"bundles", "compacted"})
_OFFSET_MAX: Final = 2**63 - 1
_PARTITION_MAX: Final = 2**31 - 1
_SEGMENT: Final = re.compile(r"([^/]+)/([^/!]+)(?:!([1-9][0-9]{0,9}))?/(0|[1-9][0-9]{0,9})/segment-([0-9]{20})\.kfs", re.ASCII)
_BUNDLE: Final = re.compile(r"bundles/([0-9a-f]{2})/([0-7][0-9A-HJKMNP-TV-Z]{25})\.kfb", re.ASCII)
_ULID: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SegmentKey:
    """Names one segment. Raises Refused for names and numbers that have no key: nothing may leave its own prefix."""

    namespace: str
    topic: str
    incarnation: int
    """1 for the first topic of this name, k for the k-th."""
    partition: int
    base_offset: int

    def __post_init__(self) -> None:
        for word, name in (("namespace", self.namespace), ("topic", self.topic)):
            if not is_topic_name(name):
                raise Refused(f"{word} {name!r} cannot be part of a key; use 1-249 characters of A-Z a-z 0-9 . _ -")
        if self.namespace in _RESERVED_NAMESPACES:
            raise Refused(f"namespace {self.namespace!r} is reserved; choose another")
        if self.incarnation < 1 or not 0 <= self.partition <= _PARTITION_MAX or not 0 <= self.base_offset <= _OFFSET_MAX:
            raise Refused(f"incarnation {self.incarnation}, partition {self.partition}, offset {self.base_offset} name no segment")

    def kfs(self) -> str:
        """Key of the segment itself."""
        return f"{self._stem()}.kfs"

    def index(self) -> str:
        """Key of its sparse index."""
        return f"{self._stem()}.index"

    def sidecar(self) -> str:
        """Key of its private sidecar."""
        return f"{self._stem()}.fzx"

    def _stem(self) -> str:
        topic = self.topic if self.incarnation == 1 else f"{self.topic}!{self.incarnation}"
        return f"{self.namespace}/{topic}/{self.partition}/segment-{self.base_offset:020d}"


def parse_segment_key(key: str) -> SegmentKey | None:
    """What a ``.kfs`` key names, or None for any other key. ``parse_segment_key(k.kfs()) == k``, and back."""
    match = _SEGMENT.fullmatch(key)
    if match is None:
        return None
    namespace, topic, incarnation, partition, base = match.groups()
    if incarnation == "1":  # written without "!1"
        return None
    try:
        return SegmentKey(
            namespace=namespace, topic=topic, incarnation=int(incarnation or 1), partition=int(partition), base_offset=int(base)
        )
    except Refused:
        return None


def bundle_key(ulid: str) -> str:
    """Key of the bundle ``ulid``. Raises Refused when it is no ULID."""
    if _ULID.fullmatch(ulid) is None:
        raise Refused(f"{ulid!r} is not a ULID, so it names no bundle")
    return f"bundles/{_spread(ulid)}/{ulid}.kfb"


def bundle_ulid(key: str) -> str | None:
    """The ULID of a bundle's key, or None for any other key."""
    match = _BUNDLE.fullmatch(key)
    return match[2] if match is not None and match[1] == _spread(match[2]) else None


def _spread(ulid: str) -> str:
    return f"{crc32c(ulid.encode()) & 0xFF:02x}"
