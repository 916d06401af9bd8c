"""One question over landed tables."""

from frazil.query.ask import Answer, Platform, TableSource, ask

__all__ = ["Answer", "Platform", "TableSource", "ask"]
