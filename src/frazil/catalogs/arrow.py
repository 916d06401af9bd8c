"""Names for Arrow values whose stubs know less than the library does (nested types, dictionaries, statistics)."""

from __future__ import annotations

from typing import Any, TypeAlias

ArrowArray: TypeAlias = Any
"""A ``pyarrow.Array`` or ``ChunkedArray``."""
ArrowField: TypeAlias = Any
"""A ``pyarrow.Field``."""
ArrowType: TypeAlias = Any
"""A ``pyarrow.DataType``."""
IcebergType: TypeAlias = Any
"""A type in Iceberg's JSON: text, or an object when nested."""
