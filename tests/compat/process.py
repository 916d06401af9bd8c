"""A Frazil broker (and, if asked, landing) as real processes on one directory, for tests that talk to them from outside."""

from __future__ import annotations

import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def frazil(*arguments: str, timeout_s: float = 30.0, variables: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """One run of the command line, without any FRAZIL_ variable of this process."""
    return subprocess.run(
        [sys.executable, "-m", "frazil", *arguments], env=clean_environment(variables), capture_output=True, text=True, timeout=timeout_s
    )


def clean_environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    return {**{k: v for k, v in os.environ.items() if not k.startswith("FRAZIL_")}, **(variables or {})}


@dataclass
class Processes:
    """``start("broker")``, ``start("land")`` or ``start("dev")``; each writes to ``{role}.log`` in the directory."""

    directory: pathlib.Path
    settings: Sequence[str] = ()
    port: int = field(default_factory=free_port)
    files_max: int = 0
    """Hard limit of open files; 0: this process's own."""
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self, role: str) -> None:
        """Starts a role; a broker is waited for until it listens."""
        self.directory.mkdir(parents=True, exist_ok=True)
        changes = [part for text in (*self.settings, f"broker.port={self.port}") for part in ("-s", text)]
        with (self.directory / f"{role}.log").open("ab") as log:
            self.running[role] = subprocess.Popen(
                [sys.executable, "-m", "frazil", "-d", str(self.directory / "data"), *changes, role],
                env=clean_environment(),
                stdout=log,
                stderr=log,
                preexec_fn=self._limit if self.files_max else None,
            )
        if role != "land":
            self._await_port(role)

    def _limit(self) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (self.files_max, self.files_max))

    def _await_port(self, role: str) -> None:
        end = time.monotonic() + 30
        while time.monotonic() < end and self.alive(role):
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=0.2).close()
                return
            except OSError:
                time.sleep(0.05)
        raise AssertionError(f"{role} does not listen: " + self.log(role)[-2000:])

    def alive(self, role: str) -> bool:
        return self.running[role].poll() is None

    def kill(self, role: str) -> None:
        """kill -9."""
        self.running[role].kill()
        self.running[role].wait(timeout=10)

    def stop(self, role: str) -> int:
        """SIGTERM; the exit code."""
        self.running[role].send_signal(signal.SIGTERM)
        return self.running[role].wait(timeout=30)

    def close(self) -> None:
        for role, process in self.running.items():
            if process.poll() is None and role == "dev":
                self.stop(role)  # its children end with it
            if process.poll() is None:
                process.kill()
            process.wait(timeout=10)

    def log(self, role: str) -> str:
        path = self.directory / f"{role}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def log_bytes(self, role: str) -> int:
        path = self.directory / f"{role}.log"
        return path.stat().st_size if path.exists() else 0

    def rss_bytes(self, role: str, *, highest: bool = False) -> int:
        """Resident memory now, or the highest so far (VmHWM)."""
        word = "VmHWM:" if highest else "VmRSS:"
        for line in pathlib.Path(f"/proc/{self.running[role].pid}/status").read_text().splitlines():
            if line.startswith(word):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"{role} is gone")

    def files_open(self, role: str) -> int:
        return len(list(pathlib.Path(f"/proc/{self.running[role].pid}/fd").iterdir()))
