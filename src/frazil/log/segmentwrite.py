"""Stores one sealed segment with what belongs to it."""

from __future__ import annotations

from frazil.log.upkeep import UpkeepDeps, put_same
from frazil.segments import SegmentKey, build_segment
from frazil.segments.kfs import SegmentBytes
from frazil.segments.sidecars import build_sidecar


async def store_segment(deps: UpkeepDeps, name: SegmentKey, body: bytes, *, created_ms: int) -> SegmentBytes:
    """Index and sidecar before the segment: whoever lists the bucket and sees the segment finds them too. Raises as ``put_same``."""
    built: SegmentBytes = await deps.offload.run(lambda: build_segment([body], created_ms=created_ms))
    await put_same(deps, name.sidecar(), build_sidecar(built.batches, segment_crc=built.crc))
    await put_same(deps, name.index(), built.index)
    await put_same(deps, name.kfs(), built.kfs)
    return built
