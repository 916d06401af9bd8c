"""``python -m frazil`` is the command line."""

from frazil.cli import main

main()
