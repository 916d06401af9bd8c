"""Protobuf values that name their schema: .proto texts, messages as trees, the wire format (docs/protobuf.md)."""
