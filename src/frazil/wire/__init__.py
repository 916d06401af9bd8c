"""Kafka frames and messages to bytes and back; pure."""
