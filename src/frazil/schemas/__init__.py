"""What the bytes of a value mean: decoders from record values to typed Arrow columns and rejects."""
