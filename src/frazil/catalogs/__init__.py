"""Iceberg catalogs behind one door: our committer, progress, expiry and manifest care."""
