"""What people do with the same clients beside produce and consume: administration, groups that change, transactions."""

from __future__ import annotations

import concurrent.futures
import pathlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from tests.compat import builds, cells, rows
from tests.compat.process import Processes

pytestmark = [pytest.mark.server, pytest.mark.slow]
SINGLE = [row for row in rows.ROWS if not row.name.endswith(" idempotent")]
"""One row per client."""
RECORDS = 3000

ADMIN = {
    "brokers": 1, "cluster id": 22, "listed": True, "partitions": 3, "retention": "7200000", "altered": "3600000", "grown": 5,
    "earliest": 0, "latest": 10, "at time": 4, "newest time": 9, "group listed": True, "group state": "Empty", "group offset": 10,
    "group moved": 3, "records deleted": 5, "group deleted": True, "deleted": True,
}  # fmt: skip
NOT_THERE = {"kafkajs": {"newest time"}, "sarama": {"newest time", "cluster id"}}
"""What a client's admin face does not have."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with Processes(tmp_path_factory.mktemp("programs")) as processes:
        processes.start("broker")
        yield processes
        assert processes.alive("broker") and "Traceback" not in processes.log("broker"), processes.log("broker")[-5000:]


def start(row: rows.Row, folder: pathlib.Path) -> rows.Program:
    try:
        return rows.Program(row, folder)
    except builds.CannotBuild as error:
        pytest.skip(f"{row.name} cannot be had here: {error}")


@pytest.mark.parametrize("row", [row for row in SINGLE if row.admin], ids=lambda row: row.name)
def test_admin_verbs(row: rows.Row, broker: Processes, tmp_path: pathlib.Path) -> None:
    with start(row, tmp_path) as program:
        seen = program.ask("admin", bootstrap=broker.bootstrap, topic=f"admin-{program.slug}", group=f"admin-{program.slug}", patience=60)
    assert "exists" in seen.pop("create again")
    assert seen == {name: value for name, value in ADMIN.items() if name not in NOT_THERE.get(row.name, ())}


@pytest.mark.parametrize("row", [row for row in SINGLE if row.transactions], ids=lambda row: row.name)
def test_transactions_are_refused_at_once_and_for_good(row: rows.Row, broker: Processes, tmp_path: pathlib.Path) -> None:
    """With the client's own patience, which in some is without end."""
    with start(row, tmp_path) as program:
        answer = program.ask("transaction", bootstrap=broker.bootstrap, topic=f"tx-{program.slug}", patience=60)
    assert answer["error"] and answer["final"] and answer["seconds"] < 5, answer


def together(members: Sequence[tuple[rows.Program, int, int]], **words: Any) -> list[dict[str, Any]]:
    """Each program is a member after its delay and for its time."""

    def one(program: rows.Program, delay: int, seconds: int) -> dict[str, Any]:
        time.sleep(delay)
        return program.ask("member", lasting=seconds, **words)

    with concurrent.futures.ThreadPoolExecutor(len(members)) as pool:
        return [future.result() for future in [pool.submit(one, *member) for member in members]]


def judge(answers: list[dict[str, Any]], place: cells.Place, topic: str, group: str) -> None:
    """Every record was read; what the group has committed is the end of every partition."""
    ends = {p: batches[-1].records[-1].offset + 1 for p, batches in cells.stored.topic(place.data, topic).items() if batches}
    unread: dict[int, list[int]] = {}
    for partition, end in ends.items():
        ranges = [range(*pair) for answer in answers for pair in answer["reads"].get(str(partition), [])]
        if missing := set(range(end)).difference(*ranges):
            unread[partition] = sorted(missing)
    committed = cells.committed(place, topic, group)
    assert not unread and committed == ends, f"{topic}: not read {unread}, committed {committed}, ends {ends}"[:1500]


PAIRED = [row for row in SINGLE if row.name != "kcat"]
Pair = list[dict[str, Any]] | str


def pair(row: rows.Row, place: cells.Place, folder: pathlib.Path) -> Pair:
    """Two members of one client: the second comes after two seconds and leaves after three more. A text says why there is none."""
    for name in ("a", "b"):
        (folder / row.name / name).mkdir(parents=True)
    try:
        with rows.Program(row, folder / row.name / "a") as first, rows.Program(row, folder / row.name / "b") as second:
            topic = f"member-{first.slug}"
            cells.make_topic(place, topic)
            second.ask("produce", bootstrap=place.bootstrap, topic=topic, codec="lz4", count=RECORDS)
            answers = together([(first, 0, 9), (second, 2, 3)], bootstrap=place.bootstrap, topic=topic, group=topic)
            judge(answers, place, topic, topic)
            return answers
    except (builds.CannotBuild, AssertionError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.fixture(scope="module")
def pairs(broker: Processes, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pair]:
    folder = tmp_path_factory.mktemp("pairs")
    place = cells.Place(broker.bootstrap, broker.directory / "data")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return dict(zip([row.name for row in PAIRED], pool.map(lambda row: pair(row, place, folder), PAIRED), strict=True))


@pytest.mark.parametrize("row", PAIRED, ids=lambda row: row.name)
def test_second_member_takes_its_share_and_gives_it_back(row: rows.Row, pairs: dict[str, Pair]) -> None:
    answers = pairs[row.name]
    if isinstance(answers, str) and answers.startswith("CannotBuild"):
        pytest.skip(f"{row.name} cannot be had here: {answers}")
    assert not isinstance(answers, str), answers
    shares = [[tuple(share) for share in answer["shares"] if share] for answer in answers]
    assert shares[0][0] == shares[0][-1] == tuple(range(cells.PARTITIONS)), shares
    assert any(len(share) == 2 for share in shares[0]) and any(len(share) == 2 for share in shares[1]), shares


def test_six_kinds_of_clients_share_one_group(broker: Processes, tmp_path: pathlib.Path) -> None:
    """All of them can do range. kafkajs cannot: it has round robin only, under a name of its own."""
    place = cells.Place(broker.bootstrap, broker.directory / "data")
    names = ("confluent-kafka", "kafka-python", "aiokafka", "Java", "franz-go", "sarama")
    programs = [start(row, tmp_path) for row in rows.ROWS if row.name in names]
    try:
        cells.make_topic(place, "six", partitions=6)
        programs[0].ask("produce", bootstrap=place.bootstrap, topic="six", codec="zstd", count=RECORDS)
        words = {"bootstrap": place.bootstrap, "topic": "six", "group": "six", "assignor": "range"}
        answers = together([(program, 0, 10) for program in programs], **words)
    finally:
        for program in programs:
            program.__exit__()
    ever = [{p for share in answer["shares"] for p in share if len(share) == 1} for answer in answers]
    assert all(ever), [answer["shares"] for answer in answers]
    judge(answers, place, "six", "six")
