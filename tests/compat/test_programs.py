"""What people do with the same clients beside produce and consume: administration, groups that change, transactions."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.compat import beside, builds, cells, rows, stored
from tests.compat.process import Processes

pytestmark = [pytest.mark.server, pytest.mark.slow]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cells.Place]:
    with Processes(tmp_path_factory.mktemp("programs")) as processes:
        processes.start("broker")
        yield cells.Place(processes.bootstrap, processes.directory / "data")
        assert processes.alive("broker") and "Traceback" not in processes.log("broker"), processes.log("broker")[-5000:]


def start(row: rows.Row, folder: pathlib.Path) -> rows.Program:
    try:
        return rows.Program(row, folder)
    except builds.CannotBuild as error:
        pytest.skip(f"{row.name} cannot be had here: {error}")


@pytest.mark.parametrize("row", [row for row in beside.SINGLE if row.admin], ids=lambda row: row.name)
def test_admin_verbs(row: rows.Row, place: cells.Place, tmp_path: pathlib.Path) -> None:
    with start(row, tmp_path) as program:
        beside.administer(program, place)


@pytest.mark.parametrize("row", [row for row in beside.SINGLE if row.transactions], ids=lambda row: row.name)
def test_transactions_are_refused_at_once_and_for_good(row: rows.Row, place: cells.Place, tmp_path: pathlib.Path) -> None:
    with start(row, tmp_path) as program:
        assert "transaction" in beside.transaction(program, place).lower() or row.name in ("kafka-python", "franz-go")


@pytest.fixture(scope="module")
def pairs(place: cells.Place, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Exception | None]:
    """What went wrong with two members of each client; the pairs wait most of the time, so they run at once."""
    folder = tmp_path_factory.mktemp("pairs")

    def outcome(row: rows.Row) -> Exception | None:
        try:
            return beside.second_member(row, place, folder)
        except (builds.CannotBuild, AssertionError) as error:
            return error

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return dict(zip([row.name for row in beside.PAIRED], pool.map(outcome, beside.PAIRED), strict=True))


@pytest.mark.parametrize("row", beside.PAIRED, ids=lambda row: row.name)
def test_second_member_takes_its_share_and_gives_it_back(row: rows.Row, pairs: dict[str, Exception | None]) -> None:
    error = pairs[row.name]
    if isinstance(error, builds.CannotBuild):
        pytest.skip(f"{row.name} cannot be had here: {error}")
    if error is not None:
        raise error


def test_six_kinds_of_clients_share_one_group(place: cells.Place, tmp_path: pathlib.Path) -> None:
    """All of them can do range. kafkajs cannot: it has round robin only, under a name of its own."""
    names = ("confluent-kafka", "kafka-python", "aiokafka", "Java", "franz-go", "sarama")
    with contextlib.ExitStack() as stack:
        programs = [stack.enter_context(start(row, tmp_path)) for row in rows.ROWS if row.name in names]
        cells.make_topic(place, "six", partitions=6)
        programs[0].ask("produce", bootstrap=place.bootstrap, topic="six", codec="zstd", count=beside.RECORDS)
        for group, seconds in (("six", 9), ("six on a busy machine", 25)):
            words = {"bootstrap": place.bootstrap, "topic": "six", "group": group.replace(" ", "-"), "assignor": "range"}
            answers = beside.together([(program, 0, seconds) for program in programs], **words)
            if all(any(len(share) == 1 for share in answer["shares"]) for answer in answers):
                break
        else:
            raise AssertionError([answer["shares"] for answer in answers])
    beside.judge(answers, place, "six", words["group"])


IDEMPOTENT = [row for row in rows.ROWS if row.idempotent]
KILLED = 40_000


@pytest.fixture(scope="module")
def survivors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, Any], list[list[int]]] | builds.CannotBuild]:
    """All idempotent producers at once on one broker that is killed twice: what each was told, and what is stored, by partition."""
    folder = tmp_path_factory.mktemp("survivors")
    found: dict[str, tuple[dict[str, Any], list[list[int]]] | builds.CannotBuild] = {}
    with Processes(folder) as processes, contextlib.ExitStack() as stack, concurrent.futures.ThreadPoolExecutor(len(IDEMPOTENT)) as pool:
        processes.start("broker")
        place = cells.Place(processes.bootstrap, folder / "data")
        sending = {}
        for row in IDEMPOTENT:
            try:
                program = stack.enter_context(rows.Program(row, folder))
            except builds.CannotBuild as error:
                found[row.name] = error
                continue
            program.ask("hello")
            cells.make_topic(place, program.slug)
            # kafkajs deals records without a key out anew when it tries again: other records under the same sequence, refused as Kafka does
            words = {"keys": "all"} if "kafkajs" in row.name else {}
            produce = functools.partial(program.ask, "produce", bootstrap=place.bootstrap, topic=program.slug, **words)
            sending[row.name] = (program, produce)
        told = {name: pool.submit(produce, codec="lz4", count=KILLED) for name, (_, produce) in sending.items()}
        for _ in range(2):
            time.sleep(1)  # in the middle of what they send; a kill at another moment shows as much
            processes.kill("broker")
            time.sleep(0.5)  # clients must meet a closed port, not a restart too quick to see
            processes.start("broker")
        for name, (program, _) in sending.items():
            answer = told[name].result()
            kept = stored.topic(place.data, program.slug).values()
            found[name] = (answer, [[int(r.value[:10]) for batch in batches for r in batch.records if r.value] for batches in kept])
        assert "Traceback" not in processes.log("broker"), processes.log("broker")[-5000:]
    return found


@pytest.mark.parametrize("row", IDEMPOTENT, ids=lambda row: row.name)
def test_broker_killed_twice_under_an_idempotent_producer(row: rows.Row, survivors: dict[str, Any]) -> None:
    if isinstance(survivors[row.name], builds.CannotBuild):
        pytest.skip(f"{row.name} cannot be had here: {survivors[row.name]}")
    answer, lanes = survivors[row.name]
    for lane in lanes:
        assert lane == sorted(set(lane)), f"{row.name}: a record stands twice or out of order"
    count = sum(map(len, lanes))
    if row.name == "sarama idempotent" and "failed" in answer:
        assert answer["acked"] <= count, "acknowledged and not stored"
    else:
        assert answer["acked"] == count == KILLED
