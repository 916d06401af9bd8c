"""The command line, one file per noun."""

from frazil.cli.app import main

__all__ = ["main"]
