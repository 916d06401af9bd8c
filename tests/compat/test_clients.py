"""Must-show 2: unmodified clients against a broker process; 100,000 records each (COMPAT_RECORDS changes it)."""

from __future__ import annotations

import os

import pytest
from tests.compat import flow, full
from tests.compat.clients import kcat, librdkafka
from tests.compat.process import Processes

pytestmark = [pytest.mark.server, pytest.mark.slow]
RECORDS = int(os.environ.get("COMPAT_RECORDS", "100000"))


@pytest.mark.parametrize("client", full.CLIENTS, ids=lambda client: client.name)
def test_client_creates_produces_consumes_commits_and_resumes(client: flow.Client, served: Processes):
    if why := full.missing(client):
        pytest.skip(why)
    outcome = full.take(client, served.bootstrap, RECORDS)
    full.print_table([outcome])
    assert outcome.good, outcome.steps
    assert outcome.produced == outcome.first_session + outcome.second_session == RECORDS


@pytest.mark.skipif(not kcat.HERE, reason="kcat is not installed")
@pytest.mark.parametrize("codec", kcat.CODECS)
def test_kcat_sends_every_codec_compressed(codec: str, served: Processes):
    """librdkafka 2.0.2 silently sends gzip, snappy and lz4 uncompressed to a broker that does not advertise Produce v0 (KAFKA-18659)."""
    topic = f"codec-{codec}"
    before = stored_bytes(served)
    values = [b"%06d" % number + b"x" * 500 for number in range(2000)]
    kcat.kcat("-b", served.bootstrap, "-P", "-t", topic, "-p", "0", "-z", codec, "-X", "linger.ms=100", data=b"\n".join(values))
    grown = stored_bytes(served) - before
    assert grown > 1_000_000 if codec == "none" else grown < 300_000, f"{codec}: {grown} bytes stored for a million"
    assert kcat.kcat("-b", served.bootstrap, "-C", "-t", topic, "-e", "-o", "beginning").splitlines() == values


def stored_bytes(served: Processes) -> int:
    return sum(path.stat().st_size for path in (served.directory / "data" / "objects").rglob("*.kfb"))


def test_headers_keys_nulls_and_timestamps_come_back(served: Processes):
    plan = flow.Plan(served.bootstrap, "shapes", "shapes")
    librdkafka.create(plan)
    sent = librdkafka.odd_records()
    assert librdkafka.round_trip(plan, sent) == sent
