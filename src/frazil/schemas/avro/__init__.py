"""Avro values, by the schema each was written with, to typed columns (docs/avro.md)."""
