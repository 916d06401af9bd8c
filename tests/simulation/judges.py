"""The verdict on a world: what clients were told and saw, against the log as read back and the tables as anybody reads them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

from tests.simulation import kafka
from tests.simulation.book import Book, Order, Place
from tests.simulation.clients import until, wire_name
from tests.simulation.independent import Table, segments
from tests.simulation.kafka import Broken, Connection
from tests.simulation.world import Host, World

AUDITOR = 9
Logs = dict[Place, tuple[int, int]]
"""Start and end of every partition when it was read back."""


# --- the log ----------------------------------------------------------------------------------------------------------


async def read_back(world: World) -> Logs:
    """Reads every partition through a broker that was not there before, into the book."""
    host = world.hosts[f"broker-{AUDITOR}"] = Host(f"broker-{AUDITOR}")
    world.boot(host)
    if not await until(lambda: host.broker is not None, seconds=20):
        world.book.fail("LIVE: a fresh broker does not come up")
        return {}
    logs: Logs = {}
    for topic, partitions in world.partitions.items():
        for partition in range(partitions):
            bounds = await _read_partition(world, (topic, partition))
            if bounds is None:
                world.book.fail(f"LIVE: {(topic, partition)} cannot be read to its end")
            else:
                logs[topic, partition] = bounds
    return logs


async def _read_partition(world: World, place: Place) -> tuple[int, int] | None:
    for _ in range(20):
        connection = world.connect(AUDITOR)
        try:
            found = await _read_once(world.book, connection, place)
        except Broken:
            found = None
        connection.close()
        if found is not None:
            return found
        await asyncio.sleep(0.5)
    return None


async def _read_once(book: Book, connection: Connection, place: Place) -> tuple[int, int] | None:
    partition = place[1]
    topic = wire_name(place[0])
    edges = []
    for time in (-2, -1):
        answer = await connection.ask(kafka.LIST_OFFSETS, 1, kafka.list_offsets_request(topic, [partition], time), timeout_s=10)
        error, offset = kafka.read_list_offsets(answer)[partition]
        if error:
            return None
        edges.append(offset)
    start, end = edges
    at = start
    while at < end:
        request = kafka.fetch_request(topic, {partition: at}, wait_ms=100, bytes_max=1 << 20, partition_bytes_max=1 << 20)
        (found,) = kafka.read_fetch(await connection.ask(kafka.FETCH, 5, request, timeout_s=10))
        if found.error:
            return None
        for seen in kafka.records(found.data):
            if seen.offset < at:
                continue
            if seen.offset != at:
                book.fail(f"read back: {place} has no offset {at}, the next is {seen.offset}")
            book.see(place, seen.offset, seen.value, seen.at_ms, "read back")
            at = seen.offset + 1
    return start, end


def judge_log(book: Book, logs: Logs) -> None:
    """Acknowledged records are where they were said to be; nothing more often than it was sent; producers' order holds."""
    where: dict[bytes, list[tuple[Place, int]]] = {}
    for place, log in book.at.items():
        for offset, value in log.items():
            where.setdefault(value, []).append((place, offset))
    for place, (start, end) in logs.items():
        log = book.at.get(place, {})
        if any(offset >= end for offset in log):
            book.fail(f"{place} ends at {end}, but offset {max(log)} was acknowledged or seen")
        missing = [offset for offset in range(start, end) if offset not in log]
        if missing:
            book.fail(f"{place}: offsets {missing} were not read")
    for sent in book.sent.values():
        found = where.get(sent.value, [])
        if sent.place not in logs:
            continue
        start, _ = logs[sent.place]
        if any(place != sent.place for place, _ in found):
            book.fail(f"{sent.value!r} of {sent.place} is in {found}")
        most = 1 if sent.idempotent else sent.attempts
        if len(found) > most:
            book.fail(f"{sent.value!r} is in the log {len(found)} times ({found}), was sent {sent.attempts} times")
        if sent.acked and not found and start == 0:
            book.fail(f"{sent.value!r} was acknowledged and is nowhere")
    for order in book.orders:
        _judge_order(book, order, where)
    for place, asked, _, who in book.out_of_range:
        if place in logs and logs[place][0] <= asked <= logs[place][1]:
            book.fail(f"{who}: {place} offset {asked} was called out of range, the log is {logs[place]} even now")


def _judge_order(book: Book, order: Order, where: dict[bytes, list[tuple[Place, int]]]) -> None:
    if order.idempotent:
        offsets = [offset for values in order.taken for value in values for _, offset in where.get(value, [])]
        if offsets != sorted(offsets):
            book.fail(f"{order.lane}: sequences are at offsets {offsets}")
        return
    last: dict[int, int] = {}
    for batch in order.accepted:
        if batch.base < last.get(batch.connection, -1):
            book.fail(
                f"{order.lane}: {batch.values} at {batch.base} was sent after the batch at {last[batch.connection]} on one connection"
            )
        last[batch.connection] = batch.base


def judge_segments(world: World, logs: Logs) -> None:
    """What is sealed is what the log says, for anybody who can list the bucket; below the log start objects are on their way out."""
    try:
        sealed = segments(world.bucket.objects, "default")
        sealed = {(f"{topic.replace('!', '#')}", partition): log for (topic, partition), log in sealed.items()}
    except AssertionError as error:
        world.book.fail(f"sealed log: {error}")
        return
    for (topic, partition), log in sealed.items():
        if (topic, partition) not in logs:
            continue  # an earlier life of a topic, on its way out
        for offset, value in log.items():
            world.book.know((topic, partition), offset, value, "sealed log")
        start = max(min(log), logs.get((topic, partition), (0, 0))[0])
        if world.shrinks():
            continue  # a log start may have moved since the log was read back
        if [offset for offset in sorted(log) if offset >= start] != list(range(start, max(log) + 1)):
            world.book.fail(f"sealed log of {(topic, partition)} has holes: {sorted(log)}")


# --- tables -----------------------------------------------------------------------------------------------------------


def _open(world: World, ident: str) -> Table | None:
    location = world.pointers._locations.get(ident)
    return None if location is None else Table(world.bucket.objects, location, world.parsed)


def landed_hint(world: World, logs: Logs) -> bool:
    """Cheap: as many rows and dead letters as the log has records, in every table."""
    for topic in landed_topics(world):
        wanted = sum(end - start for (name, _), (start, end) in logs.items() if name == topic)
        tables = [_open(world, ident) for ident in (f"lake.{topic}", f"lake.{topic}_dead")]
        if sum(table.total_records() for table in tables if table is not None) < wanted:
            return False
    return True


def missing_rows(world: World, logs: Logs) -> list[str]:
    """Records that are in neither table, by offset."""
    found = []
    for topic in landed_topics(world):
        rows, letters, _ = _read_topic(world, topic)
        for (name, partition), (start, end) in sorted(logs.items()):
            if name != topic:
                continue
            gone = [offset for offset in range(start, end) if not rows.get((partition, offset)) and not letters.get((partition, offset))]
            if gone:
                found.append(f"{topic}[{partition}] offsets {gone}")
    return found


Found = dict[tuple[int, int], list[Any]]


def landed_topics(world: World) -> list[str]:
    """Topics with one life; those that were made anew are judged by value."""
    return [topic for topic in world.partitions if wire_name(topic) == topic]


def _read_topic(world: World, topic: str) -> tuple[Found, Found, list[str]]:
    rows: Found = {}
    letters: Found = {}
    problems: list[str] = []
    main, dead = _open(world, f"lake.{topic}"), _open(world, f"lake.{topic}_dead")
    if main is not None:
        for row in main.rows():
            rows.setdefault((row["_kafka_partition"], row["_offset"]), []).append(row)
        main.check_all()
        problems += [f"WHOLE {topic}: {problem}" for problem in main.problems]
    if dead is not None:
        for row in dead.rows():
            if row["last_offset"] != row["offset"]:
                problems.append(f"{topic}: a whole batch is a dead letter: {row['reason']}")
            letters.setdefault((row["partition"], row["offset"]), []).append(row)
        dead.check_all()
        problems += [f"WHOLE {topic}_dead: {problem}" for problem in dead.problems]
    return rows, letters, problems


def judge_tables(world: World, logs: Logs) -> None:
    """EO and WHOLE."""
    book = world.book
    for topic in landed_topics(world):
        rows, letters, problems = _read_topic(world, topic)
        for problem in problems:
            book.fail(problem)
        for (partition, offset), found in rows.items():
            value = book.at.get((topic, partition), {}).get(offset)
            if len(found) > 1:
                book.fail(f"EO: {topic}[{partition}] offset {offset} is in the table {len(found)} times")
            if value is None:
                book.fail(f"EO: {topic}[{partition}] offset {offset} is in the table, but not in the log")
            elif not _same(found[0], value):
                book.fail(f"EO: {topic}[{partition}] offset {offset} is {found[0]} in the table, {value!r} in the log")
        for (partition, offset), found in letters.items():
            if len(found) > 1:
                book.fail(f"EO: {topic}[{partition}] offset {offset} has {len(found)} dead letters")
            if found[0]["value"] != book.at.get((topic, partition), {}).get(offset):
                book.fail(f"EO: the dead letter of {topic}[{partition}] offset {offset} is {found[0]['value']!r}")
        _judge_gaps(book, topic, {*rows, *letters}, logs)


def judge_reborn(world: World) -> None:
    """A topic that was deleted and made anew lands in the same table: what its second life acknowledged is there once, nothing twice."""
    lives = [topic for topic in world.partitions if wire_name(topic) != topic]
    if not lives:
        return
    main, dead = _open(world, f"lake.{wire_name(lives[0])}"), _open(world, f"lake.{wire_name(lives[0])}_dead")
    times = Counter(row["n"] for row in main.rows()) if main is not None else Counter()
    letters = Counter(row["value"] for row in dead.rows()) if dead is not None else Counter()
    for place, log in world.book.at.items():
        if place[0] not in lives:
            continue
        places = Counter(log.values())
        for value, count in places.items():
            found = letters[value] if not _readable(value) else times[json.loads(value)["n"]] + letters[value]
            if found > count or (found < count and place[0] == lives[-1]):
                world.book.fail(f"EO: {value!r} of {place} is {count} times in the log and {found} times in tables")


def reborn_landed(world: World) -> bool:
    """Whether the second life has landed."""
    before = len(world.book.violations)
    judge_reborn(world)
    fine = len(world.book.violations) == before
    del world.book.violations[before:]
    return fine


def _readable(value: bytes) -> bool:
    try:
        return isinstance(json.loads(value), dict)
    except ValueError:
        return False


def _judge_gaps(book: Book, topic: str, landed: set[tuple[int, int]], logs: Logs) -> None:
    """Below the last landed record nothing is missing; retention may have taken records before the table began."""
    for (name, partition), (start, _) in logs.items():
        offsets = sorted(offset for number, offset in landed if number == partition) if name == topic else []
        if not offsets:
            continue
        first = offsets[0] if start > 0 else 0
        gone = sorted(set(range(first, offsets[-1])) - set(offsets))
        if gone:
            book.fail(f"EO: {topic}[{partition}] offsets {gone} are in neither table, but {offsets[-1]} is")


def _same(row: dict[str, Any], value: bytes) -> bool:
    try:
        fields = json.loads(value)
    except ValueError:
        return False
    return isinstance(fields, dict) and all(_alike(row.get(name), wanted) for name, wanted in fields.items())


def _alike(have: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(have, dict) and all(_alike(have.get(name), value) for name, value in wanted.items())
    return have == wanted or (isinstance(have, str) and have == str(wanted))


# --- bounds -----------------------------------------------------------------------------------------------------------


def leftovers(world: World) -> Counter[str]:
    """Objects and records that should be gone when nothing has happened for a while."""
    entries = world.state.read("log/", "log0", 0).entries
    commits = sum(entry.key.startswith("log/commit/") for entry in entries)
    listed = sum(entry.key.startswith("log/segment/") for entry in entries)
    bundles = sum(key.startswith("bundles/") for key in world.bucket.keys)
    stored = sum(key.startswith("default/") and key.endswith(".kfs") for key in world.bucket.keys)
    plans = sum(entry.key.startswith("log/plan/") for entry in entries)
    return +Counter({"commit records": commits, "bundles": bundles, "segments nobody lists": stored - listed, "seal plans": plans})
