"""The .kfs, .index and bundle formats and the grammar of their keys; pure."""

from frazil.segments.bundles import BundleRun, build_bundle, read_directory
from frazil.segments.indexes import parse_index
from frazil.segments.keys import SegmentKey
from frazil.segments.kfs import build_segment, read_segment

__all__ = ["BundleRun", "SegmentKey", "build_bundle", "build_segment", "parse_index", "read_directory", "read_segment"]
