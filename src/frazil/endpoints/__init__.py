"""Servers beside Kafka's: the schema registry, health and metrics, on one small HTTP server."""
