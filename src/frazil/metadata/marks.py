"""Marks: numbers that metadata and bucket count together, so that a copy of either that is put back shows (R22).

A mark is taken in metadata first (compare-and-swap), then its object is stored, create-only; the next one is taken only when that
is there. So in one history the bucket's newest mark has metadata's number or the one before it, and the token metadata remembers
for that number. Anything else is another history: an older copy, or two copies that both went on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from frazil.kit.errors import Refused
from frazil.kit.names import PartitionId, PartitionKey, TopicId
from frazil.metadata.change import settle
from frazil.metadata.opening import read_one
from frazil.metadata.port import Entry, MetadataStore, Write
from frazil.metadata.values import decode, encode

MARK_KEY: Final = "mark"
MARK_PREFIX: Final = "frazil/mark-"
"""Objects with this prefix are marks; the last one in key order counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The newest mark as metadata has it. ``token`` is random; ``before`` is the token of the mark before."""

    number: int = 0
    token: str = ""
    before: str = ""

    def encode(self) -> bytes:
        """The value of ``mark``."""
        return encode({"number": self.number, "token": self.token, "before": self.before})

    @classmethod
    def decode(cls, value: bytes) -> Mark:
        """Reads ``encode``'s bytes. Raises Corrupt or Refused."""
        fields = decode(value, where=MARK_KEY)
        return cls(number=fields.number("number"), token=fields.text("token"), before=fields.text("before"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkObject:
    """A mark as the bucket has it. ``ends``: offsets below these had been given out when it was made."""

    number: int = 0
    token: str = ""
    ends: Mapping[PartitionKey, int]

    def encode(self) -> bytes:
        """The object's bytes."""
        ends = {f"{key.topic_id.hex()}/{key.partition}": end for key, end in sorted(self.ends.items())}
        return encode({"number": self.number, "token": self.token, "ends": {key: str(end) for key, end in ends.items()}})

    @classmethod
    def decode(cls, value: bytes, *, where: str) -> MarkObject:
        """Reads ``encode``'s bytes. Raises Corrupt or Refused."""
        fields = decode(value, where=where)
        ends: dict[PartitionKey, int] = {}
        for name, end in fields.text_map("ends").items():
            topic, _, partition = name.partition("/")
            ends[PartitionKey(TopicId(bytes.fromhex(topic)), PartitionId(int(partition)))] = int(end)
        return cls(number=fields.number("number"), token=fields.text("token"), ends=ends)


NO_MARK_OBJECT: Final = MarkObject(ends={})


def mark_object_key(number: int) -> str:
    """Where the bucket keeps a mark."""
    return f"{MARK_PREFIX}{number:010d}.json"


async def read_mark(store: MetadataStore) -> Mark:
    """Metadata's newest mark. Raises RetryLater."""
    entry = await read_one(store, MARK_KEY)
    return Mark.decode(entry.value) if entry.version else Mark()


def is_behind(mark: Mark, found: MarkObject) -> bool:
    """The bucket lags by more than one mark. Of two reads, bucket first, this may also be others' progress in between: read again."""
    return found.number < mark.number - 1


def check_mark(mark: Mark, found: MarkObject) -> None:
    """Raises Refused unless the bucket's newest mark ``found``, read before ``mark``, belongs to the same history (R22)."""
    if found.number > mark.number:
        raise Refused(
            f"metadata is older than the bucket (mark {mark.number}, the bucket has {found.number}): it was put back from a copy, and "
            f"going on would give out offsets a second time. {_WAY}"
        )
    if is_behind(mark, found):
        raise Refused(f"the bucket is older than metadata (mark {found.number}, metadata has {mark.number}): {_OBJECTS} {_WAY}")
    if found.token != (mark.token if found.number == mark.number else mark.before):
        raise Refused(f"metadata and bucket went on apart from each other: both have mark {found.number}, and it is not the same. {_WAY}")


_OBJECTS: Final = "its newest objects are missing."
_WAY: Final = "Put the right one back, or stop every process and run `frazil restore`"


async def take_mark(store: MetadataStore, mark: Mark, token: str) -> Mark | None:
    """The mark after ``mark`` with ``token``; None when somebody else has taken it. Raises RetryLater."""
    wanted = Mark(number=mark.number + 1, token=token, before=mark.token)
    return wanted if await put_mark(store, mark, wanted) else None


async def put_mark(store: MetadataStore, mark: Mark, wanted: Mark) -> bool:
    """Replaces ``mark`` by ``wanted``; False when metadata has neither. Raises RetryLater."""
    done = False

    def decide(entries: Mapping[str, Entry]) -> list[Write]:
        nonlocal done
        entry = entries[MARK_KEY]
        current = Mark.decode(entry.value) if entry.version else Mark()
        done = current in (mark, wanted)
        return [Write(key=MARK_KEY, value=wanted.encode())] if current == mark else []

    await settle(store, (MARK_KEY,), decide)
    return done
