"""Listen, decode, decide, handle, answer: the Kafka protocol over the log."""
