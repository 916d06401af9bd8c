"""Kafka v2 record batches: check, split, patch, scan, build, compress; pure."""
