"""The one error tree; its kind says what the caller should do.

FrazilError
├── RetryLater   nothing happened, or it is not known whether it did; the same call may be made again after ``after_ms``
│   └── OutcomeUnknown   the call may have been applied; look before you call again (R02, R16)
├── Refused      the input is wrong; trying again will not help; ``what``/``why``/``do`` say what to change
│   └── Conflict a precondition did not hold (compare-and-swap lost, object exists)
├── Missing      the named thing does not exist
├── Corrupt      stored or received bytes are not what they claim to be; ``where`` names object and position
└── Bug          a broken invariant of our own
"""

from __future__ import annotations


class FrazilError(Exception):
    """Root of all errors raised on purpose by Frazil."""


class RetryLater(FrazilError):
    """The call did not succeed now; it may later. ``after_ms`` is a hint in milliseconds."""

    def __init__(self, why: str, *, after_ms: int = 100) -> None:
        super().__init__(why)
        self.after_ms = after_ms


class OutcomeUnknown(RetryLater):
    """The request may or may not have been applied; the answer was lost."""


class Refused(FrazilError):
    """The request is wrong as it stands. The message says what, where, why and what to do."""


class Conflict(Refused):
    """A precondition did not hold: somebody else was first."""


class Missing(FrazilError):
    """The named object, key, topic or table does not exist."""


class Corrupt(FrazilError):
    """Bytes fail their own checks. ``where`` names the object and, if known, the byte position."""

    def __init__(self, why: str, *, where: str = "") -> None:
        super().__init__(f"{where}: {why}" if where else why)
        self.where = where
        self.why = why


class Bug(FrazilError):
    """An invariant of Frazil itself is broken; report it."""
