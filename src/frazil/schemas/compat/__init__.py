"""Whether what was written by one schema can be read by another: the rules of Avro, JSON Schema and Protobuf (docs/registry.md). Pure."""

from frazil.schemas.compat.levels import LEVELS, clashes

__all__ = ["LEVELS", "clashes"]
