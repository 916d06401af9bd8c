"""Metadata back-ends, loaded by name."""
