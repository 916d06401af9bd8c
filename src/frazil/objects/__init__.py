"""An object store as a few small verbs, with its back-ends."""
