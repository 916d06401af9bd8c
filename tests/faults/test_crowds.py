"""Many connections that say nothing, or half of something: who works goes on working, files and memory stay bounded."""

from __future__ import annotations

import pathlib
import resource
import socket
import struct
import time

import confluent_kafka
import pytest
from tests.compat import flow
from tests.compat.clients import librdkafka
from tests.compat.flow import Plan
from tests.compat.process import Processes

pytestmark = [pytest.mark.server, pytest.mark.slow]
HALF_FRAME = struct.pack(">i", 90 * 1024 * 1024) + b"\0\0\0\x07" + b"x" * 2000


class Crowd:
    """Open connections."""

    def __init__(self, port: int, count: int, says: bytes) -> None:
        self.peers: list[socket.socket] = []
        for _ in range(count):
            peer = socket.create_connection(("127.0.0.1", port), timeout=5)
            self.peers.append(peer)
            try:
                peer.sendall(says)
            except OSError:
                continue  # refused, as it may be

    def leave(self) -> None:
        for peer in self.peers:
            peer.close()


@pytest.fixture(autouse=True)
def many_files():  # type: ignore[no-untyped-def]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_crowd_may_not_take_the_files_that_writing_needs(tmp_path: pathlib.Path):
    with Processes(tmp_path, files_max=300) as processes:
        processes.start("broker")
        librdkafka.create(Plan(processes.bootstrap, "early", "", partitions=1))
        producer = confluent_kafka.Producer({"bootstrap.servers": processes.bootstrap, "message.timeout.ms": 20_000, "log_level": 0})
        acknowledged: list[object] = []
        failed: list[object] = []

        def send() -> None:
            producer.produce("early", b"x" * 1000, partition=0, on_delivery=lambda e, m: (failed if e else acknowledged).append(e or m))
            assert producer.flush(20) == 0

        send()
        crowd = Crowd(processes.port, 600, b"")
        for _ in range(50):
            send()
        assert processes.files_open("broker") <= 300
        crowd.leave()
        time.sleep(1)
        flow.run(librdkafka.IDEMPOTENT, Plan(processes.bootstrap, "later", "later", records=5000), flow.Outcome("later"))
        assert (len(acknowledged), failed) == (51, [])
        assert "Traceback" not in processes.log("broker")
        assert processes.log_bytes("broker") < 100_000


@pytest.mark.parametrize("says", [b"", HALF_FRAME], ids=["nothing", "half a giant frame"])
def test_a_large_crowd_beside_a_working_client(tmp_path: pathlib.Path, says: bytes):
    with Processes(tmp_path) as processes:
        processes.start("broker")
        before = processes.rss_bytes("broker")
        crowd = Crowd(processes.port, 1500, says)
        grown = processes.rss_bytes("broker") - before
        flow.run(librdkafka.IDEMPOTENT, Plan(processes.bootstrap, "work", "work", records=5000), flow.Outcome("work"))
        crowd.leave()
        assert grown < 1500 * 40 * 1024, f"{grown / 1500 / 1024:.0f} KiB for each connection"
        end = time.monotonic() + 20
        while processes.files_open("broker") > 40 and time.monotonic() < end:
            time.sleep(0.2)
        assert processes.files_open("broker") <= 40
        assert processes.log_bytes("broker") < 100_000
