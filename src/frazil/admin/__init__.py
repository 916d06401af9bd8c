"""The verbs an operator uses, as one protocol and its clients."""
