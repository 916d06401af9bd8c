"""What the cluster must remember: a small key-value port with compare-and-swap, and typed records over it."""

from frazil.metadata.opening import open_metadata, prefix_end, read_one
from frazil.metadata.port import MetadataStore

__all__ = ["MetadataStore", "open_metadata", "prefix_end", "read_one"]
