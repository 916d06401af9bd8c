"""What the bytes of a value mean: decoders from record values to typed Arrow columns and rejects."""

from frazil.schemas.ddl import parse_columns
from frazil.schemas.decoders import decoder_for
from frazil.schemas.evolve import evolve
from frazil.schemas.port import Decoded, DecodeOptions, Decoder, Reject

__all__ = ["DecodeOptions", "Decoded", "Decoder", "Reject", "decoder_for", "evolve", "parse_columns"]
