"""What can be wrong with a request, as the API says it: an HTTP status, an error code, a sentence."""

from __future__ import annotations


class Problem(Exception):
    """Answered as ``{"error_code": …, "message": …}``."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        """The HTTP status: the first three digits of the code."""
        return self.code if self.code < 1000 else self.code // 100


def no_subject(name: str) -> Problem:
    """40401."""
    return Problem(40401, f"Subject '{name}' not found.")


def no_version(version: object) -> Problem:
    """40402."""
    return Problem(40402, f"Version {version} not found.")


def no_schema() -> Problem:
    """40403."""
    return Problem(40403, "Schema not found")


def still_live(name: str) -> Problem:
    """40405: what is to be deleted for good must be deleted first."""
    return Problem(40405, f"Subject '{name}' was not deleted first before being permanently deleted")


def invalid_schema(why: str) -> Problem:
    """42201."""
    return Problem(42201, f"Invalid schema: {why}")


def invalid_version(text: str) -> Problem:
    """42202."""
    return Problem(42202, f"The specified version '{text}' is not a valid version id: a number from 1 to 2147483647, or latest")


def invalid_level(text: str) -> Problem:
    """42203."""
    return Problem(42203, f"Invalid compatibility level '{text[:40]}': NONE, or BACKWARD, FORWARD or FULL, each also with _TRANSITIVE")


def in_use(name: str, version: int) -> Problem:
    """42206: a schema that others refer to."""
    return Problem(42206, f"One or more references exist to the schema {{subject={name},version={version}}}")
