"""What every double with a script shares: faults by words, requests that are applied late, a life as a context manager."""

from __future__ import annotations

import abc
import re
import threading
from collections import deque
from typing import Self

WORD = re.compile(r"([a-z0-9]+)(?:/([na]))?(?:\(([\d.]+)\))?")
"""A fault: its name, whether it is applied (``/a``) or not (``/n``), and a number in brackets."""


class Scripted(abc.ABC):
    """A server in a thread. A subclass has ``faults`` and ``late``, and knows how to end its server."""

    faults: deque[str]
    late: list[threading.Timer]
    thread: threading.Thread

    @abc.abstractmethod
    def end_server(self) -> None:
        """Closes the port."""

    def start(self) -> Self:
        self.thread.start()
        return self

    def stop(self) -> None:
        for timer in self.late:
            timer.cancel()
        self.end_server()
        self.thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def script(self, *words: str) -> None:
        """What the next changes meet."""
        for word in words:
            if not WORD.fullmatch(word):
                raise ValueError(word)
        self.faults.extend(words)

    def settle(self) -> None:
        """Waits until late requests are applied."""
        for timer in self.late:
            timer.join()
        self.late.clear()
