"""An hour with ten seconds of retention, and half an hour with a sick catalog beside a healthy one.

python -m tests.simulation.hour        writes docs/results/retention-hour.json

The first world counts objects each minute: they must return to a constant, and fall to a floor when producers stop. The second
has three tables in one landing process: one healthy, one whose catalog fails for twelve minutes, one fed with nothing but
garbage. The healthy one must stay fresh all the time; the sick one must be named in the landing status.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

from tests.simulation.clients import Consumer, Producer, ProducerStyle, until
from tests.simulation.judges import _open, judge_log, judge_tables, missing_rows, read_back
from tests.simulation.loop import run_virtual
from tests.simulation.processes import ObjectsDoor, Process
from tests.simulation.profiles import Faults, Profile
from tests.simulation.results import write_result
from tests.simulation.run import _listening
from tests.simulation.world import Host, World

from frazil.catalogs.care import CareSettings
from frazil.catalogs.faulty import FaultPlan
from frazil.catalogs.history import Keep
from frazil.catalogs.port import Catalog
from frazil.landing import LandingSettings
from frazil.log.upkeep import UpkeepPolicy
from frazil.metadata.landings import LandingSpec, LandingStatus, list_statuses, put_landing

INTERVAL_S = 5.0
FRESH_SLACK_S = 1.0
"""Beyond two intervals: the time a commit itself takes."""


class Slow(World):
    """Settings near the real ones; one batch a second and topic."""

    def landing_settings(self) -> LandingSettings:
        return replace(
            super().landing_settings(),
            commit_interval_ms=int(INTERVAL_S * 1000),
            commit_interval_min_ms=1_000,
            backoff_max_ms=30_000,
            call_deadline_ms=30_000,
            care_interval_ms=20_000,
        )

    def care_settings(self) -> CareSettings:
        return CareSettings(
            keep=Keep(last=20, hours=0, days=0), expire_batch=10, manifests_max=20, delete_grace_ms=120_000, metadata_grace_ms=60_000
        )

    def upkeep_policy(self) -> UpkeepPolicy:
        return UpkeepPolicy(seal_age_ms=10_000, segment_bytes=1 << 20, grace_ms=20_000, orphan_interval_ms=30_000, interval_ms=5_000)

    async def produce(self, topic: str, *, seconds: float, every_s: float = 1.0) -> None:
        """A steady producer and a consumer."""
        producer = Producer(f"{topic}-p", self, topic, 1, ProducerStyle(idempotent=True, retries=True, acks=-1))
        producer.start()
        self._producers.append(producer)
        self._beside(f"consumer {topic}", Consumer(f"{topic}-c", self, topic, 1).run())

        async def feed() -> None:
            end = self.loop.time() + seconds
            while self.loop.time() < end:
                producer.send(0, [self.value_for(topic)])
                await asyncio.sleep(every_s)

        self._clients.append(self.loop.create_task(feed(), name=f"feed {topic}"))

    def value_for(self, topic: str) -> bytes:
        self.serial += 1
        if topic == "garbage":
            return b"\xff garbage %d" % self.serial
        return json.dumps({"n": self.serial, "topic": topic}).encode()

    def count(self) -> Counter[str]:
        """Objects by kind; data files are the table's content and are not counted."""
        kinds: Counter[str] = Counter()
        for key in self.bucket.keys:
            if key.startswith("bundles/"):
                kinds["bundles"] += 1
            elif key.startswith("warehouse/"):
                kinds["metadata files" if "/metadata/" in key else "data files"] += 1
            else:
                kinds["segment files"] += 1
        kinds["metadata keys"] = len(self.state.read("\x01", "\U0010ffff", 0).entries)
        return kinds


async def retention(world: Slow, *, minutes: int) -> dict[str, Any]:
    """Samples each minute, and for eight minutes more after the producers stop."""
    topics = ("orders", "visits")
    for topic in topics:
        await world.topics.create(topic, 1, {"retention.ms": "10000"})
        world.partitions[topic] = 1
    for host in world.hosts.values():
        world.boot(host)
    for topic in topics:
        await world.produce(topic, seconds=minutes * 60)
    samples = []
    for _ in range(minutes):
        await asyncio.sleep(60)
        samples.append(world.count())
    await world.fed()
    after = []
    for _ in range(8):
        await asyncio.sleep(60)
        after.append(world.count())
    known = {(topic, 0): (max(log) + 1 if (log := world.book.at.get((topic, 0))) else 0) for topic in topics}
    landed = {
        topic: sum(table.total_records() for name in ("", "_dead") if (table := _open(world, f"lake.{topic}{name}"))) for topic in topics
    }
    judge_log(world.book, await read_back(world))
    judge_tables(world, {(topic, 0): (0, known[topic, 0]) for topic in topics})
    tally = [sum(count for kind, count in sample.items() if kind != "data files") for sample in samples]
    early, late = tally[len(tally) // 6 : len(tally) // 2], tally[-len(tally) // 3 :]
    floor = [sum(count for kind, count in sample.items() if kind != "data files") for sample in after[-3:]]
    constant = max(late) <= 1.1 * max(early) and len(set(floor)) == 1 and after[-1]["bundles"] == 0
    return {
        "minutes": minutes,
        "records": sum(known.values()),
        "landed": sum(landed.values()),
        "objects_constant": int(constant and sum(landed.values()) == sum(known.values())),
        "objects_max_early": max(early),
        "objects_max_late": max(late),
        "objects_floor": floor[-1],
        "last_minute": dict(samples[-1]),
        "floor": dict(after[-1]),
        "violations": world.book.violations,
    }


def landed_rows(world: World, topic: str) -> int:
    """Rows and dead letters that a query would see now."""
    return sum(table.total_records() for name in ("", "_dead") if (table := _open(world, f"lake.{topic}{name}")) is not None)


class Sick(Slow):
    """``sick`` is a second catalog service over the same names, which stops working for a while."""

    def open_catalogs(self, host: Host, process: Process, objects: ObjectsDoor, chance: Any) -> dict[str, Catalog]:
        well = super().open_catalogs(host, process, objects, chance)
        sick = super().open_catalogs(host, process, objects, chance)
        return {**well, "sick": sick["default"]}

    def fall_ill(self, plan: FaultPlan) -> None:
        landing = self.hosts["landing"]
        landing.catalogs[-1]._plan = plan


async def isolation(world: Sick, *, minutes: int, ill_from: int, ill_for: int) -> dict[str, Any]:
    """Freshness of every table each half second, and when the sick one is named."""
    topics = ("healthy", "sick", "garbage")
    for topic in topics:
        await world.topics.create(topic, 1)
        world.partitions[topic] = 1
    await put_landing(
        world.store,
        LandingSpec(table="lake.sick", topics=("sick",), commit_interval_ms=int(INTERVAL_S * 1000), options={"catalog": "sick"}),
    )
    for host in world.hosts.values():
        world.boot(host)
    watch = Watch(world, topics)
    for topic in topics:
        await world.produce(topic, seconds=minutes * 60, every_s=0.5)
    watching = world.loop.create_task(watch.run())
    await asyncio.sleep(ill_from * 60)
    world.fall_ill(FaultPlan(rates={"C-5xx/n": 0.5, "C-cut/n": 0.25, "C-429": 0.25}, load_failures=0.5))
    fell_ill = world.loop.time()
    await asyncio.sleep(ill_for * 60)
    world.fall_ill(FaultPlan())
    well_again = world.loop.time()
    await until(lambda: watch.staleness("sick") <= 2 * INTERVAL_S, seconds=120)
    recovered = world.loop.time() - well_again
    await world.fed()
    logs = await read_back(world)
    await until(lambda: not missing_rows(world, logs), seconds=120, step_s=2)
    watching.cancel()
    judge_log(world.book, logs)
    judge_tables(world, logs)
    bound = 2 * INTERVAL_S + FRESH_SLACK_S
    named = watch.named_after(fell_ill, "lake.sick")
    calm = [table for table, state, at in watch.troubles if table != "lake.sick"]
    fine = max(watch.worst["healthy"], watch.worst["garbage"]) <= bound and named is not None and named[0] <= 2 * INTERVAL_S
    return {
        "freshness_unharmed": int(fine and not calm and not world.book.violations and not missing_rows(world, logs)),
        "healthy_staleness_max_s": round(watch.worst["healthy"], 2),
        "garbage_staleness_max_s": round(watch.worst["garbage"], 2),
        "sick_staleness_max_s": round(watch.worst["sick"], 2),
        "bound_s": bound,
        "ill_minutes": ill_for,
        "named_after_s": None if named is None else round(named[0], 2),
        "named_as": "" if named is None else named[1],
        "recovered_after_s": round(recovered, 2),
        "others_in_trouble": calm,
        "violations_isolation": world.book.violations,
    }


class Watch:
    """Looks from outside: how old the oldest acknowledged record is that no query can see, and what the status says."""

    def __init__(self, world: World, topics: tuple[str, ...]) -> None:
        self._world = world
        self._topics = topics
        self._acked: dict[str, list[float]] = {topic: [] for topic in topics}
        self.worst = dict.fromkeys(topics, 0.0)
        self.troubles: list[tuple[str, LandingStatus, float]] = []

    async def run(self) -> None:
        last: dict[str, str] = {}
        while True:
            now = self._world.loop.time()
            for topic in self._topics:
                times = self._acked[topic]
                times += [now] * (self._world.book.acked_end.get((topic, 0), 0) - len(times))
                self.worst[topic] = max(self.worst[topic], self.staleness(topic))
            for status in await list_statuses(self._world.store):
                if status.state in ("stalled", "failed") and last.get(status.table) not in ("stalled", "failed"):
                    self.troubles.append((status.table, status, now))
                last[status.table] = status.state
            await asyncio.sleep(0.25)

    def staleness(self, topic: str) -> float:
        """Seconds since the first record that is not to be seen was acknowledged."""
        landed = landed_rows(self._world, topic)
        times = self._acked[topic]
        return self._world.loop.time() - times[landed] if landed < len(times) else 0.0

    def named_after(self, since: float, table: str) -> tuple[float, str] | None:
        """How long after ``since`` the table was called stalled or failed with topic and reason, and in which words."""
        for name, status, at in self.troubles:
            if name == table and at >= since and status.topic and status.stage and status.reason:
                return at - since, f"{status.state} in {status.stage}, topic {status.topic}[{status.partition}]: {status.reason}"
        return None


_PROFILE = Profile(brokers=1, topics=(), landing=True, faults=Faults(), name="hour")


def run_retention(*, minutes: int = 60) -> dict[str, Any]:
    async def main() -> dict[str, Any]:
        world = Slow(1, _PROFILE)
        with _listening(world):
            found = await retention(world, minutes=minutes)
            await world.end()
        return found

    return run_virtual(main())


def run_isolation(*, minutes: int = 30, ill_from: int = 5, ill_for: int = 12) -> dict[str, Any]:
    async def main() -> dict[str, Any]:
        world = Sick(2, replace(_PROFILE, embedded_catalog=False))
        with _listening(world):
            found = await isolation(world, minutes=minutes, ill_from=ill_from, ill_for=ill_for)
            await world.end()
        return found

    return run_virtual(main())


def main() -> int:
    result = {**run_retention(), **run_isolation()}
    write_result("retention-hour.json", "python -m tests.simulation.hour", result)
    print(json.dumps(result, indent=1))
    return 0 if result["objects_constant"] and result["freshness_unharmed"] else 1


if __name__ == "__main__":
    sys.exit(main())
