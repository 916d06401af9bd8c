"""Must-show 8, hostile input: a broker process under a storm of broken requests, with a good client beside it.

python -m tests.faults.mutations --count 100000 --seed 1

Writes docs/results/mutations.json: what was sent, what became of it, and that the good client lost nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field

from tests.compat.clients import librdkafka
from tests.compat.flow import Outcome, Plan
from tests.compat.flow import run as run_flow
from tests.compat.process import Processes, clean_environment
from tests.faults import frames, readers
from tests.faults.mutate import BOMB_TOPIC, Mutation, Mutator

RESULTS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "results" / "mutations.json"
RSS_BYTES_MAX = 512 * 1024 * 1024
"""What the broker may hold at any time: half of it is its block cache (broker.cache_bytes)."""
LOG_BYTES_MAX = 2 * 1024 * 1024
CONNECTIONS = 24
ANSWER_S = 0.25
"""How long an answer is waited for; a long poll or a group that waits for members takes longer, and is then left alone."""
PROBE = b"\0\0\0\x0e\0\x12\0\0\x5a\x5a\x5a\x5a\0\x04good"
PROBE_CORRELATION = PROBE[8:12]


@dataclass
class Tally:
    """What became of the mutations."""

    sent: int = 0
    answered: int = 0
    closed: int = 0
    silent: int = 0
    """No answer within ANSWER_S: the frame was not whole, or the request waits for something. We hung up."""
    misordered: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    connections: int = 0
    refused: int = 0


class Storm:
    """Many connections that send mutations, each followed by an honest ApiVersions request."""

    def __init__(self, port: int, mutator: Mutator, count: int) -> None:
        self._port = port
        self._mutator = mutator
        self._count = count
        self._taken = 0
        self._idle: list[asyncio.StreamWriter] = []
        self.tally = Tally()

    async def run(self) -> Tally:
        await asyncio.gather(*(self._worker() for _ in range(CONNECTIONS)))
        for writer in self._idle:
            writer.close()
        await asyncio.sleep(0.1)
        return self.tally

    async def _worker(self) -> None:
        reader: asyncio.StreamReader | None = None
        writer: asyncio.StreamWriter | None = None
        while self._taken < self._count:
            self._taken += 1
            mutation = self._mutator.next()
            if reader is None or writer is None:
                try:
                    reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", self._port), 10)
                except OSError:
                    self.tally.refused += 1
                    raise
                self.tally.connections += 1
            self.tally.sent += 1
            self.tally.kinds[mutation.kind] += 1
            if await self._send(mutation, reader, writer):
                continue
            if len(self._idle) < 300 and self._taken % 7 == 0:
                self._idle.append(writer)  # stays open and says nothing more
            else:
                writer.transport.abort() if self._taken % 2 else writer.close()
            reader = writer = None
        if writer is not None:
            writer.close()

    async def _send(self, mutation: Mutation, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """True when the connection still answers."""
        try:
            writer.write(mutation.data + (PROBE if mutation.whole else b""))
            if not mutation.whole:
                if self._taken % 3:
                    await asyncio.wait_for(reader.read(65536), 0.002)
                self.tally.silent += 1
                return False
            async with asyncio.timeout(ANSWER_S):
                await writer.drain()
                return await self._await_probe(mutation, reader)
        except TimeoutError:
            self.tally.silent += 1
        except (OSError, asyncio.IncompleteReadError):
            self.tally.closed += 1
        return False

    async def _await_probe(self, mutation: Mutation, reader: asyncio.StreamReader) -> bool:
        """Reads answers until that of the probe: at most one comes before it."""
        for number in range(2):
            size = int.from_bytes(await reader.readexactly(4), "big")
            answer = await reader.readexactly(size)
            if answer[:4] == PROBE_CORRELATION:
                self.tally.answered += 1
                return True
            if number == 0 and answer[:4] != mutation.data[8:12]:
                self.tally.misordered += 1
        self.tally.misordered += 1
        return False


class Watch:
    """Samples the broker's memory and open files."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self.rss_bytes: list[int] = []
        self.files_open_max = 0
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while self._processes.alive("broker"):
            self.rss_bytes.append(self._processes.rss_bytes("broker"))
            self.files_open_max = max(self.files_open_max, self._processes.files_open("broker"))
            await asyncio.sleep(0.5)


async def storm(processes: Processes, mutator: Mutator, count: int) -> tuple[Tally, Watch]:
    watch = Watch(processes)
    try:
        tally = await Storm(processes.port, mutator, count).run()
    finally:
        watch.task.cancel()
    return tally, watch


def run(count: int, seed: int, directory: pathlib.Path, *, land: bool = False) -> dict[str, object]:
    """The whole test; with ``land``, a landing process lands whatever the storm makes. Raises AssertionError with what is wrong."""
    chance = random.Random(seed)
    mutator = Mutator(frames.seeds(directory / "recorded", chance), seed)
    with Processes(directory / "stormed", settings=["landing.namespace=lake"]) as processes:
        processes.start("broker")
        if land:
            processes.start("land")
        for topic in (frames.TOPIC, BOMB_TOPIC):
            librdkafka.create(Plan(processes.bootstrap, topic, "", partitions=2))
        good = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.goodclient", processes.bootstrap, "precious"],
            stdout=subprocess.PIPE, text=True, env=clean_environment(), cwd=pathlib.Path(__file__).parents[2],
        )  # fmt: skip
        assert good.stdout is not None and good.stdout.readline() == "ready\n"
        began = time.monotonic()
        try:
            tally, watch = asyncio.run(storm(processes, mutator, count))
            seconds = time.monotonic() - began
            assert processes.alive("broker"), "the broker died: " + processes.log("broker")[-3000:]
            good.send_signal(signal.SIGTERM)
            report = json.loads(good.stdout.readline())
            good.wait(30)
        finally:
            good.kill()
            good.stdout.close()
        outcome = Outcome("afterwards")
        run_flow(librdkafka.IDEMPOTENT, Plan(processes.bootstrap, "afterwards", "afterwards", records=5000), outcome)
        if land:
            check_landing(processes, report["sent"])
        time.sleep(1)
        result = {
            "mutations": tally.sent, "seconds": round(seconds, 1), "seeds": len(mutator._seeds), "seed": seed,
            "answered": tally.answered, "closed": tally.closed, "silent": tally.silent, "misordered": tally.misordered,
            "connections": tally.connections, "kinds": dict(sorted(tally.kinds.items())),
            "lost": report["lost"], "doubled_or_out_of_order": len(report["wrong"]), "good_client": report,
            "rss_max_bytes": max(processes.rss_bytes("broker", highest=True), *watch.rss_bytes),
            "rss_bound_bytes": RSS_BYTES_MAX, "rss_end_bytes": processes.rss_bytes("broker"),
            "rss_samples_bytes": watch.rss_bytes[:: max(1, len(watch.rss_bytes) // 20)],
            "files_open_max": watch.files_open_max, "files_open_end": processes.files_open("broker"),
            "log_bytes": processes.log_bytes("broker"), "tracebacks": processes.log("broker").count("Traceback"),
            "topics_after": len(librdkafka.topics(processes.bootstrap)),
        }  # fmt: skip
        (directory / "result.json").write_text(json.dumps(result, indent=1))
        check(result, count, processes)
        assert processes.stop("broker") == 0
    return result


def check_landing(processes: Processes, sent: int) -> None:
    """Landing lives, and the good client's table is complete and has every offset once."""
    end = time.monotonic() + 60
    rows: list[readers.Position] = []
    while len(rows) < sent and time.monotonic() < end:
        assert processes.alive("land"), processes.log("land")[-3000:]
        time.sleep(1)
        rows = readers.landed(processes.directory / "data", "lake.precious")
    assert len(rows) == len(set(rows)) == sent, f"{len(rows)} rows of {sent} records: {processes.log('land')[-2000:]}"
    assert "Traceback" not in processes.log("land"), processes.log("land")[-4000:]
    assert processes.log_bytes("land") < LOG_BYTES_MAX
    assert processes.rss_bytes("land", highest=True) < 2 * RSS_BYTES_MAX


def check(result: dict[str, object], count: int, processes: Processes) -> None:
    """Every claim of this test."""
    wrong = []
    report = result["good_client"]
    assert isinstance(report, dict)
    if result["mutations"] != count:
        wrong.append("not every mutation was sent")
    if report["lost"] or report["wrong"] or report["failed"]:
        wrong.append(f"the good client suffered: {report}")
    if int(str(result["rss_max_bytes"])) > RSS_BYTES_MAX:
        wrong.append(f"{result['rss_max_bytes']} bytes resident")
    if int(str(result["log_bytes"])) > LOG_BYTES_MAX:
        wrong.append(f"{result['log_bytes']} bytes of log")
    if result["tracebacks"]:
        text = processes.log("broker")
        wrong.append(f"{result['tracebacks']} tracebacks, the first: {text[text.index('Traceback') - 200 :][:3000]}")
    if result["misordered"]:
        wrong.append(f"{result['misordered']} answers came out of order")
    assert not wrong, "; ".join(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", default="", help="kept afterwards; else a temporary one")
    parser.add_argument("--land", action="store_true", help="a landing process beside the broker, landing what the storm makes")
    options = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as temporary:
        result = run(options.count, options.seed, pathlib.Path(options.directory or temporary), land=options.land)
    command = f"python -m tests.faults.mutations --count {options.count} --seed {options.seed}" + (" --land" if options.land else "")
    print(json.dumps(result, indent=1))
    if options.count >= 100_000:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps({"commit": commit, "command": command, **result}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
