"""The .kfs, .index and bundle formats and the grammar of their keys; pure."""
