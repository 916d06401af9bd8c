"""Object store back-ends, loaded by name."""
