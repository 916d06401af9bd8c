"""Catalog back-ends, loaded by name."""
