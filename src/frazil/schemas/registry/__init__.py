"""Asks a schema registry (Confluent's API, which Apicurio and others also speak) for schemas by id."""

from frazil.schemas.registry.client import RegistryClient, SchemaSource
from frazil.schemas.registry.http import Access, HttpxFetch

__all__ = ["Access", "HttpxFetch", "RegistryClient", "SchemaSource"]
