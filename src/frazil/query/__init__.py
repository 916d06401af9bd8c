"""One question over landed tables."""
