"""The client side of the Iceberg REST catalog protocol: HTTP, sign-in, answers, vended credentials."""

__all__: list[str] = []
