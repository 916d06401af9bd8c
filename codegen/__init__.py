"""Writes src/frazil/wire/messages from Kafka's own message definitions: ``python -m codegen SOURCE``."""
