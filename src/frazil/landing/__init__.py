"""Slices of the log become Iceberg table snapshots."""
