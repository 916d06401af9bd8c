"""The partitioned log in objects: append, index, read, seal, retain, pins."""
