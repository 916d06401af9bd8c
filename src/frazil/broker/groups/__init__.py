"""Consumer groups: a pure state machine, its stored record, and the shell that joins both to time and metadata."""
