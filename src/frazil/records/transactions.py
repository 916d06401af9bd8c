"""Which batches of a log may be shown to a reader that wants committed records only (F20, R21). Pure.

A log as brokers store it holds the data of transactions that were aborted, or are not decided yet. A transaction of a producer ends in a
partition with the next control batch of that producer whose epoch is not below its own: a marker that says COMMIT or ABORT (KIP-98;
with KIP-890 markers carry the epoch after the transaction's). Reading stops before the first batch whose marker has not been seen.

A marker may be any distance away, so no batch waits in memory for it: a reader that was stopped looks ahead for markers alone, from where
it has looked to, and reads the batches again when the marker of the first of them is found. What is remembered meanwhile is ``Held``.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from crc32c import crc32c

from frazil.records.batches import HEADER_BYTES, OFFSET_MAX, Bytes

MARKERS_MAX: Final = 16_384
"""Markers remembered while a transaction is undecided; beyond, those of other producers are found again when they are needed."""
_HEADER: Final = struct.Struct(">qi4xbIhi8xqqh")
_CRC_START: Final = 21
_OVERHEAD: Final = 12
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_BOTH: Final = _TRANSACTIONAL | _CONTROL
_KEY: Final = struct.Struct(">hh")
_ABORT, _COMMIT = 0, 1


class Marker(NamedTuple):
    """The end of a transaction in this partition. ``producer_epoch``: data of higher epochs is not meant."""

    offset: int
    producer_epoch: int
    commits: bool


Markers = Mapping[int, tuple[Marker, ...]]
"""By producer id, in order of offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """The first batch that waits for its marker."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    timestamp_ms: int
    """The batch's largest, by the producer's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What is known of the log from an undecided batch on. Bounded, however far the marker is."""

    first: OpenTransaction
    markers: Markers
    """All that lie below ``known_to``; those of ``first``'s producer below ``looked_to``."""
    known_to: int
    looked_to: int
    """Where to look on."""
    decided: bool
    """The marker of ``first`` is among ``markers``: read from ``first.first_offset`` again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Byte ranges ``[from, to)`` of a run that may be shown, in order. ``held``: why not all of it up to its end."""

    ranges: tuple[tuple[int, int], ...]
    held: Held | None


class _Frame(NamedTuple):
    position: int
    end: int
    first_offset: int
    next_offset: int
    attributes: int
    timestamp_ms: int
    producer_id: int
    producer_epoch: int


def read_committed(run: Bytes, *, end: int, known: Held | None = None) -> Committed:
    """What of a patched run may be shown.

    ``end``: the offset after the run. ``known``: what was held when the run was stopped at its front before. Bytes that cannot be walked,
    and batches whose CRC is wrong, are left in the ranges: whoever scans them says what is wrong.
    """
    frames = list(_special_frames(run))
    if not frames:
        return Committed(ranges=((0, len(run)),) if len(run) else (), held=None)
    markers = _joined(_markers(run, frames), known, end)
    ranges: list[tuple[int, int]] = []
    begin = 0
    for frame in frames:
        if frame.attributes & _CONTROL:
            continue
        marker = _decision(markers, frame.producer_id, frame.producer_epoch, frame.first_offset)
        if marker is not None and marker.commits:
            continue
        if frame.position > begin:
            ranges.append((begin, frame.position))
        begin = frame.end
        if marker is None:
            return Committed(ranges=tuple(ranges), held=_hold(frame, markers, end, known))
    if len(run) > begin:
        ranges.append((begin, len(run)))
    return Committed(ranges=tuple(ranges), held=None)


def look_ahead(run: Bytes, held: Held, *, end: int) -> Held:
    """``held`` after the markers of a run that begins at ``held.looked_to`` and ends before the offset ``end``."""
    found: dict[int, list[Marker]] = {}
    count = sum(map(len, held.markers.values()))
    whole = held.known_to >= held.looked_to
    known_to = end if whole else held.known_to
    for producer_id, marker in _markers(run, list(_special_frames(run))):
        if marker.offset < held.looked_to:
            continue  # a run may begin before the offset that was asked for
        if whole and count >= MARKERS_MAX:
            whole, known_to = False, marker.offset
        if whole or producer_id == held.first.producer_id:
            found.setdefault(producer_id, []).append(marker)
            count += 1
    markers = {**held.markers, **{one: (*held.markers.get(one, ()), *more) for one, more in found.items()}}
    return _decided(Held(first=held.first, markers=markers, known_to=known_to, looked_to=max(end, held.looked_to), decided=False))


def _hold(frame: _Frame, markers: Markers, end: int, known: Held | None) -> Held:
    """Everything from ``frame`` on that is known, with which to look on."""
    first = OpenTransaction(
        producer_id=frame.producer_id,
        producer_epoch=frame.producer_epoch,
        first_offset=frame.first_offset,
        timestamp_ms=frame.timestamp_ms,
    )
    known_to = end if known is None else max(end, known.known_to)
    offsets = sorted(item.offset for found in markers.values() for item in found if frame.first_offset < item.offset < known_to)
    if len(offsets) > MARKERS_MAX:
        known_to = offsets[MARKERS_MAX]
    # None of them is of this producer, or it would be decided: so nothing of it is missed by forgetting what is far away.
    kept = {one: tuple(item for item in found if frame.first_offset < item.offset < known_to) for one, found in markers.items()}
    later = {one: found for one, found in kept.items() if found}
    return Held(first=first, markers=later, known_to=known_to, looked_to=max(end, known_to), decided=False)


def _joined(found: Iterator[tuple[int, Marker]], known: Held | None, end: int) -> Markers:
    """The markers of a run and those known beyond its ``end``."""
    markers: dict[int, list[Marker]] = {}
    for producer_id, marker in found:
        markers.setdefault(producer_id, []).append(marker)
    for producer_id, more in known.markers.items() if known is not None else ():
        markers.setdefault(producer_id, []).extend(marker for marker in more if marker.offset >= end)
    return {producer_id: tuple(items) for producer_id, items in markers.items()}


def _decision(markers: Markers, producer_id: int, producer_epoch: int, offset: int) -> Marker | None:
    found = markers.get(producer_id, ())
    for marker in found[bisect_right(found, (offset, 1 << 15)) :]:
        if marker.producer_epoch >= producer_epoch:
            return marker
    return None


def _decided(held: Held) -> Held:
    first = held.first
    if _decision(held.markers, first.producer_id, first.producer_epoch, first.first_offset) is None:
        return held
    return Held(first=first, markers=held.markers, known_to=held.known_to, looked_to=held.looked_to, decided=True)


def _special_frames(run: Bytes) -> Iterator[_Frame]:
    """The frames of transactions, data and markers, whose checksum is right; as far as the run can be walked."""
    view = memoryview(run)
    size, position, unpack = len(view), 0, _HEADER.unpack_from
    while size - position >= HEADER_BYTES:
        base, rest, magic, crc, attributes, last, max_ms, producer_id, producer_epoch = unpack(view, position)
        end = position + rest + _OVERHEAD
        if rest + _OVERHEAD < HEADER_BYTES or end > size or last < 0 or not 0 <= base <= OFFSET_MAX - last:
            return
        if attributes & _BOTH and magic == 2 and crc32c(view[position + _CRC_START : end]) == crc:
            yield _Frame(position, end, base, base + last + 1, attributes, max_ms, producer_id, producer_epoch)
        position = end


def _markers(run: Bytes, frames: list[_Frame]) -> Iterator[tuple[int, Marker]]:
    view = memoryview(run)
    for frame in frames:
        if frame.attributes & _CONTROL:
            kind = _control_type(bytes(view[frame.position + HEADER_BYTES : frame.end]))
            if kind in (_ABORT, _COMMIT):
                yield frame.producer_id, Marker(frame.first_offset, frame.producer_epoch, kind == _COMMIT)


def _control_type(records: bytes) -> int | None:
    """From the key of the control record (int16 version, int16 type); None when there is none that can be read."""
    try:
        position = _after_varint(records, 0) + 1  # its length, its attributes
        position = _after_varint(records, _after_varint(records, position))  # time and offset delta
        begin = _after_varint(records, position)
        return int(_KEY.unpack_from(records, begin)[1])
    except (IndexError, struct.error):
        return None


def _after_varint(data: bytes, position: int) -> int:
    while data[position] & 0x80:
        position += 1
    return position + 1
