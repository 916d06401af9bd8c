"""Frazil: Kafka clients in, Iceberg tables out, seconds later, exactly once."""

from __future__ import annotations

__version__ = "0.1.0"
