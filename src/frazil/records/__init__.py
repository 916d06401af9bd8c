"""Kafka v2 record batches: check, split, patch, scan, build, compress; pure."""

from frazil.records.batches import Batch, patch, restamp, split_batches
from frazil.records.building import build_batch
from frazil.records.codecs import Codec
from frazil.records.scanning import scan

__all__ = ["Batch", "Codec", "build_batch", "patch", "restamp", "scan", "split_batches"]
