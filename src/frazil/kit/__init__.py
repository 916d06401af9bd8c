"""The words and small tools every room shares; no domain logic."""
