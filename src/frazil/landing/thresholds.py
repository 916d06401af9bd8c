"""How many dead letters a table may have before somebody is told, or before it stops (``deadletters.alert``, ``deadletters.stop``). Pure.

The number is that of the letters in the dead-letter table now, so it outlives the process, and replaying or purging lowers it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from frazil.kit.errors import Refused
from frazil.landing.convert import DeadLetter

ALERT: Final = "deadletters.alert"
STOP: Final = "deadletters.stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """More letters than these. None: any number is right."""

    alert: int | None = None
    stop: int | None = None

    @property
    def watched(self) -> bool:
        """Whether anybody wants the letters counted."""
        return self.alert is not None or self.stop is not None

    def alarm(self, count: int) -> str:
        """What to tell when ``count`` letters are in the table; empty: nothing."""
        if self.alert is None or count <= self.alert:
            return ""
        return f"{count} dead letters, more than {ALERT}={self.alert}; `frazil deadletter list` shows them"

    def check(self, table: str, before: int, letters: Sequence[DeadLetter]) -> None:
        """Raises Refused when ``letters`` would be too many beside the ``before`` that are there: nothing of the slice lands then."""
        if self.stop is None or before + len(letters) <= self.stop:
            return
        first = letters[0]
        raise Refused(
            f"{before + len(letters)} dead letters would be more than {STOP}={self.stop}; the first new one is {first.topic}/"
            f"{int(first.key.partition)} offset {first.offset}: {first.code}, {first.why}. Nothing was passed over. Mend the schema or the "
            f"options and go on, raise {STOP}, or replay or purge letters (`frazil deadletter list {table}`)"
        )


def thresholds_of(options: Mapping[str, str]) -> Thresholds:
    """The thresholds that a landing's options name. Raises Refused for what is no number."""
    return Thresholds(alert=_number(options, ALERT), stop=_number(options, STOP))


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise Refused(f"{name}={text!r}: want a number of records, 0 or more")
    return int(text)
