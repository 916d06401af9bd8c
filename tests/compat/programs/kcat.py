"""Debian's kcat 1.7.1 (librdkafka 2.0.2). Its headers are those of a whole run, so every record has the same ones."""

from __future__ import annotations

import re
import subprocess
from typing import Any

from tests.compat.programs import harness


def kcat(*arguments: str, data: bytes = b"") -> bytes:
    done = subprocess.run(["kcat", "-q", *arguments], input=data, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


def hello(_: dict[str, str]) -> dict[str, str]:
    text = subprocess.run(["kcat", "-V"], capture_output=True, text=True).stdout
    version, library = re.search(r"Version (\S+)", text), re.search(r"librdkafka (\S+)", text)
    assert version and library, text
    return {"client": f"kcat {version[1]}", "library": f"librdkafka {library[1]}"}


def produce(request: dict[str, str]) -> dict[str, int]:
    """kcat exits with an error when a record is not acknowledged. -Z makes an empty key none."""
    pairs = ((harness.key_of(number) or b"", harness.value_of(number)) for number in harness.numbers(request))
    idempotent = "true" if request["idempotent"] == "1" else "false"
    kcat(
        "-b", request["bootstrap"], "-P", "-t", request["topic"], "-z", request["codec"], "-K", ":", "-Z",
        "-H", "client=kcat", "-X", f"enable.idempotence={idempotent}", "-X", "linger.ms=50",
        data=b"".join(key + b":" + value + b"\n" for key, value in pairs),
    )  # fmt: skip
    return {"acked": int(request["count"])}


def consume(request: dict[str, str]) -> dict[str, Any]:
    """A balanced consumer (-G) that leaves after ``enough`` records; kcat commits what it printed when it leaves."""
    text = kcat(
        "-b", request["bootstrap"], "-G", request["group"], "-c", request["enough"], "-X", "auto.offset.reset=earliest",
        "-f", "%p %o %K %k %s %h\n", request["topic"],
    )  # fmt: skip
    reading = harness.Reading(int(request["enough"]))
    for line in text.splitlines():
        partition, offset, key_size, key, value, headers = line.split(b" ", 5)
        pairs = [tuple(part.split(b"=", 1)) for part in headers.split(b",")]
        reading.add(
            int(partition), int(offset), None if key_size == b"-1" else key, value, [(name.decode(), content) for name, content in pairs]
        )
    return reading.answer()


if __name__ == "__main__":
    harness.loop({"hello": hello, "produce": produce, "consume": consume})
