"""Kafka's messages, one module per API, written by codegen; never edited by hand."""
