"""What people do with a client beside produce and consume: administration, groups that change, transactions (which are refused)."""

from __future__ import annotations

import concurrent.futures
import pathlib
import time
from collections.abc import Sequence
from typing import Any

from tests.compat import cells, rows

SINGLE = [row for row in rows.ROWS if not row.name.endswith(" idempotent")]
"""One row per client."""
PAIRED = [row for row in SINGLE if row.name != "kcat"]
"""kcat does not show its share."""
RECORDS = 3000

ADMIN = {
    "brokers": 1, "cluster id": 22, "listed": True, "partitions": 3, "retention": "7200000", "altered": "3600000", "grown": 5,
    "earliest": 0, "latest": 10, "at time": 4, "newest time": 9, "group listed": True, "group state": "Empty", "group offset": 10,
    "group moved": 3, "records deleted": 5, "group deleted": True, "deleted": True,
}  # fmt: skip
NOT_THERE = {"kafkajs": {"newest time"}, "sarama": {"newest time", "cluster id"}}
"""What a client's admin face does not have."""


def together(members: Sequence[tuple[rows.Program, int, int]], **words: Any) -> list[dict[str, Any]]:
    """Each program is a member after its delay and for its time."""

    def one(program: rows.Program, delay: int, seconds: int) -> dict[str, Any]:
        time.sleep(delay)
        return program.ask("member", lasting=seconds, **words)

    for program, *_ in members:
        program.ask("hello")
    with concurrent.futures.ThreadPoolExecutor(len(members)) as pool:
        return [future.result() for future in [pool.submit(one, *member) for member in members]]


def judge(answers: list[dict[str, Any]], place: cells.Place, topic: str, group: str) -> None:
    """Every record was read; what the group has committed is the end of every partition."""
    ends = {p: batches[-1].records[-1].offset + 1 for p, batches in cells.stored.topic(place.data, topic).items() if batches}
    unread: dict[int, list[int]] = {}
    for partition, end in ends.items():
        ranges = [range(*pair) for answer in answers for pair in answer["reads"].get(str(partition), [])]
        if missing := set(range(end)).difference(*ranges):
            unread[partition] = sorted(missing)[:3]
    committed = cells.committed(place, topic, group)
    assert not unread and committed == ends, f"{topic}: not read {unread}, committed {committed}, ends {ends}"[:1500]


def second_member(row: rows.Row, place: cells.Place, folder: pathlib.Path) -> None:
    """Two members of one client: the second comes after two seconds, takes its share, and leaves after three more. On a machine
    that was too busy for that, again with more time. Raises CannotBuild; AssertionError: it was not so, or a record was not read."""
    for name in ("a", "b"):
        (folder / row.name / name).mkdir(parents=True)
    with rows.Program(row, folder / row.name / "a") as first, rows.Program(row, folder / row.name / "b") as second:
        topic = f"member-{first.slug}"
        cells.make_topic(place, topic)
        second.ask("produce", bootstrap=place.bootstrap, topic=topic, codec="lz4", count=RECORDS)
        try:
            _come_and_go(first, second, place, topic, 1)
        except AssertionError:
            _come_and_go(first, second, place, topic, 3)


def _come_and_go(first: rows.Program, second: rows.Program, place: cells.Place, topic: str, times: int) -> None:
    group = f"{topic}-{times}"
    members = [(first, 0, 9 * times), (second, 2 * times, 3 * times)]
    answers = together(members, bootstrap=place.bootstrap, topic=topic, group=group)
    judge(answers, place, topic, group)
    shares = [[tuple(share) for share in answer["shares"] if share] for answer in answers]
    assert shares[0][-1] == tuple(range(cells.PARTITIONS)), shares
    assert any(len(share) == 2 for share in shares[0]) and any(len(share) == 2 for share in shares[1]), shares


def administer(program: rows.Program, place: cells.Place) -> None:
    """Every verb of the client's admin face that Frazil serves. AssertionError: one of them saw something else."""
    name = f"admin-{program.slug}"
    seen = program.ask("admin", bootstrap=place.bootstrap, topic=name, group=name, patience=60)
    assert "exists" in seen.pop("create again")
    assert seen == {verb: value for verb, value in ADMIN.items() if verb not in NOT_THERE.get(program.row.name, ())}, seen


def transaction(program: rows.Program, place: cells.Place) -> str:
    """The words in which the client tells that there are no transactions, with its own patience, which in some is without end."""
    answer = program.ask("transaction", bootstrap=place.bootstrap, topic=f"tx-{program.slug}", patience=60)
    assert answer["error"] and answer["final"] and answer["seconds"] < 5, answer
    return str(answer["error"])
