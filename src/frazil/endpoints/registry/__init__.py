"""A schema registry over the cluster's metadata store, with the API of Confluent's (docs/registry.md)."""

from frazil.endpoints.registry.book import Book, TableEffects
from frazil.endpoints.registry.routes import RegistryApi
from frazil.endpoints.registry.source import StoredSchemas

__all__ = ["Book", "RegistryApi", "StoredSchemas", "TableEffects"]
