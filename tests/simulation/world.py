"""One seeded world: shared stores, processes that run the product's code on them, clients on a simulated network, and misfortune."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from tests.simulation.book import Book
from tests.simulation.clients import Committer, Consumer, Deleter, Looker, Producer, ProducerStyle
from tests.simulation.groups import Group, Member
from tests.simulation.kafka import Broken, Connection
from tests.simulation.network import Wire, connect
from tests.simulation.processes import CatalogDoor, Killed, MetadataDoor, ObjectsDoor, PointersDoor, Process, ProcessClock, Server
from tests.simulation.profiles import Profile

from frazil.broker import Broker, BrokerDeps, BrokerSettings
from frazil.broker.groups.values import GroupLimits
from frazil.catalogs.care import Care, CareSettings
from frazil.catalogs.faulty import FaultPlan, FaultyCatalog
from frazil.catalogs.history import Keep
from frazil.catalogs.kinds.memory import MemoryPointers
from frazil.catalogs.pointers import PointerCatalog
from frazil.catalogs.port import Catalog, CatalogDeps
from frazil.kit.errors import Conflict, FrazilError, Missing, OutcomeUnknown, RetryLater
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.tasks import InlineOffload
from frazil.landing import AutoLanding, Landing, LandingDeps, LandingSettings
from frazil.log.append import AppendDeps, Appender, FlushPolicy
from frazil.log.cache import BlockCache
from frazil.log.caretaker import Caretaker
from frazil.log.index import LogIndex
from frazil.log.read import LogReader
from frazil.log.upkeep import UpkeepDeps, UpkeepPolicy
from frazil.metadata.faulty import NO_FAULTS as CALM_METADATA
from frazil.metadata.faulty import FaultyMetadata, MetadataFaults
from frazil.metadata.stores.memory import MemoryMetadata, MemoryState
from frazil.metadata.topics import Topics
from frazil.objects.faulty import NO_FAULTS as CALM_OBJECTS
from frazil.objects.faulty import FaultyObjects, ObjectFaults
from frazil.objects.stores.memory import MemoryBucket, MemoryObjects

BROKER_POINTS = ("B1", "B2", "B3", "B4", "B5")
LANDING_POINTS = ("P1", "P2", "P3", "P4", "P5", "P6", "P7")


@dataclass(slots=True)
class Host:
    """A place where one program runs, again and again."""

    name: str
    process: Process | None = None
    boots: int = 0
    wires: list[Wire] = field(default_factory=list)
    broker: Broker | None = None
    landing: Landing | None = None
    metadata: FaultyMetadata | None = None
    objects: FaultyObjects | None = None
    catalogs: list[FaultyCatalog] = field(default_factory=list)
    caretaker: Caretaker | None = None
    stop: Callable[[], Coroutine[Any, Any, None]] | None = None
    """A clean stop, as SIGTERM asks for."""
    fuse: tuple[str, int] | None = None
    """Kill at the n-th passage of a fault point."""
    brake: tuple[str, float] | None = None
    """Stop at the next passage of a fault point, for so many seconds."""


class CountingMetadata(FaultyMetadata):
    """Also counts the hints it withholds."""

    counter: Counter[str]

    def hint_fault(self) -> str | None:
        fault = super().hint_fault()
        if fault:
            self.counter[f"hint {fault}"] += 1
        return fault


class LostAnswers(PointersDoor):
    """The embedded catalog's database, with faults."""

    def __init__(self, server: Server, pointers: MemoryPointers, world: World) -> None:
        super().__init__(server, pointers)
        self._world = world

    async def swap(self, ident: str, old: str | None, new: str, table: Any) -> bool:
        point = self._world.chance.random()
        rates = self._world.catalog_rates
        lost_before, lost_after = rates.get("C-cut/n", 0.0), rates.get("C-cut/a", 0.0)
        if point < lost_before:
            self._world.faults["catalog C-cut/n"] += 1
            raise OutcomeUnknown("injected: swap lost")
        if point < lost_before + rates.get("C-late(5)", 0.0):
            self._world.faults["catalog C-late(5)"] += 1
            self._world.later(5.0, lambda: self._pointers.swap(ident, old, new, table))
            raise OutcomeUnknown("injected: swap late")
        found = await super().swap(ident, old, new, table)
        if point > 1 - lost_after:
            self._world.faults["catalog C-cut/a"] += 1
            raise OutcomeUnknown("injected: answer to swap lost")
        return found


class World:
    """Make it inside the virtual loop; then ``run``."""

    def __init__(self, seed: int, profile: Profile) -> None:
        self.seed, self.profile = seed, profile
        self.loop = asyncio.get_running_loop()
        self.chance = random.Random(f"world {seed}")
        self.book = Book()
        self.state = MemoryState()
        self.bucket = MemoryBucket()
        self.pointers = MemoryPointers()
        self.server = Server()
        self.clock = ProcessClock()
        self.faults = self.server.faults
        self.trace: list[str] = []
        self.hosts = {f"broker-{number}": Host(f"broker-{number}") for number in range(profile.brokers)}
        for number in range(profile.landings if profile.landing else 0):
            name = "landing" if number == 0 else f"landing-{number}"
            self.hosts[name] = Host(name)
        self.catalog_rates: dict[str, float] = dict(profile.faults.catalog)
        self.calm = False
        self.all_processes: list[Process] = []
        self.serial = 0
        self._late: set[asyncio.Task[Any]] = set()
        self._producers: list[Producer] = []
        self._clients: list[asyncio.Task[Any]] = []
        self.consumers: list[Consumer] = []
        self.parsed: dict[str, Any] = {}
        """What the judges have read already."""
        self.store = MemoryMetadata(self.state, self.clock)
        self.partitions: dict[str, int] = {}
        """Of every topic made so far."""
        self.topics = Topics(self.store, self.clock, random.Random(f"topics {seed}"))

    # --- small things -------------------------------------------------------------------------------------------------

    def note(self, what: str) -> None:
        """A line of the trace."""
        self.trace.append(f"{self.loop.time():9.3f} {what}")

    def now_ms(self) -> int:
        return self.clock.now_ms()

    def shrinks(self) -> bool:
        """See ``Cluster.shrinks``."""
        return self.profile.retention_ms > 0 or self.profile.delete_records

    def later(self, seconds: float, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """A request that is under way for long and arrives all the same."""

        async def arrive() -> None:
            await asyncio.sleep(seconds)
            try:
                await work()
            except FrazilError:
                return

        task = self.loop.create_task(arrive(), name="late request", context=self.server._context.copy())
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    def connect(self, broker: int | None = None) -> Connection:
        """See ``Cluster.connect``."""
        number = self.chance.randrange(self.profile.brokers) if broker is None else broker
        host = self.hosts.get(f"broker-{number}")
        if host is None or host.process is None or host.process.dead or host.broker is None:
            raise Broken("connection refused")
        context = host.process.context.copy()
        server = context.run(host.broker.connection)
        client = Connection()
        _, far = connect(self.chance, server, client, latency_ms=self.profile.latency_ms, name="client", server_context=context)
        host.wires = [wire for wire in host.wires if not wire._lost]
        host.wires.append(far)
        return client

    # --- processes ----------------------------------------------------------------------------------------------------

    def boot(self, host: Host) -> None:
        """Starts the host's program."""
        host.boots += 1
        skew = self.profile.faults.skew_ms
        process = Process(host.name, host.boots, skew_ms=self.chance.randint(-skew, skew) if skew else 0)
        host.process, host.broker, host.landing, host.fuse, host.stop = process, None, None, None, None
        host.brake = None
        host.catalogs = []
        self.all_processes.append(process)
        chance = random.Random(f"{self.seed} {host.name} {host.boots}")
        self._open_stores(host, chance)
        program = self._landing(host, process, chance) if host.name.startswith("landing") else self._broker(host, process, chance)
        task = process.spawn("main", program)
        task.add_done_callback(lambda done: self._ended(host, process, done), context=self.server._context.copy())
        self.note(f"{host.name} starts ({host.boots})")

    def _ended(self, host: Host, process: Process, task: asyncio.Task[None]) -> None:
        if process.dead or self.server.closed or task.cancelled():
            return
        error = task.exception()
        process.kill()
        if error is None:
            self.note(f"{host.name} has stopped")
            self.loop.call_later(0.2, self._reboot, host, process)
            return
        self._drop_wires(host)
        if not isinstance(error, Killed):
            self.note(f"{host.name} ended by itself: {error!r}")
            if not isinstance(error, RetryLater | Conflict | Missing):
                self.book.fail(f"{host.name} died of {error!r}")
        self.loop.call_later(0.5, self._reboot, host, process)

    def _reboot(self, host: Host, process: Process) -> None:
        if host.process is process and not self.server.closed:
            self.boot(host)

    def kill(self, host: Host, why: str) -> None:
        """SIGKILL, and a new start some time later."""
        process = host.process
        if process is None or process.dead:
            return
        self.faults[f"kill {why}"] += 1
        self.note(f"{host.name} killed: {why}")
        process.kill()
        self._drop_wires(host)
        pause = 0.2 + self.chance.expovariate(1.0)
        self.loop.call_later(pause, self._reboot, host, process, context=self.server._context.copy())

    def _drop_wires(self, host: Host) -> None:
        for wire in host.wires:
            wire.vanish(self.chance.random() * 3 * self.profile.latency_ms)
        host.wires.clear()

    def freeze(self, host: Host, seconds: float) -> None:
        """SIGSTOP, SIGCONT."""
        process = host.process
        if process is None or process.stopped:
            return
        self.faults["freeze"] += 1
        self.note(f"{host.name} stops for {seconds:.1f} s")
        process.freeze()
        self.loop.call_later(seconds, self._thaw, host, process, context=self.server._context.copy())

    def _thaw(self, host: Host, process: Process) -> None:
        if process.stopped and not process.dead:
            self.note(f"{host.name} goes on")
            process.thaw()

    def _hook(self, host: Host, process: Process) -> Callable[[str], None]:
        def reach(point: str) -> None:
            if process.dead:
                raise Killed
            if host.brake is not None and host.brake[0] == point:
                seconds, host.brake = host.brake[1], None
                self.freeze(host, seconds)
            fuse = host.fuse
            if fuse is None or fuse[0] != point:
                return
            if fuse[1] > 1:
                host.fuse = (point, fuse[1] - 1)
                return
            host.fuse = None
            self.kill(host, point)
            raise Killed

        return reach

    # --- programs -----------------------------------------------------------------------------------------------------

    def _open_stores(self, host: Host, chance: random.Random) -> None:
        assert host.process is not None
        reach = self._hook(host, host.process)

        def mid_put(key: str) -> None:
            if key.startswith("bundles/"):
                reach("B2")
            elif "/data/" in key:
                reach("P2")

        plan = CALM_METADATA if self.calm else self.profile.faults.metadata
        host.metadata = CountingMetadata(MemoryMetadata(self.state, self.clock), random.Random(chance.random()), plan)
        host.metadata.counter = self.faults
        objects = MemoryObjects(self.bucket, self.clock, mid_put=mid_put)
        host.objects = FaultyObjects(objects, random.Random(chance.random()), self._objects_plan(host))

    def _objects_plan(self, host: Host) -> ObjectFaults:
        if self.calm:
            return CALM_OBJECTS
        faults = self.profile.faults
        return replace(faults.objects, s_short=faults.warehouse_short) if host.name.startswith("landing") else faults.objects

    async def _broker(self, host: Host, process: Process, chance: random.Random) -> None:
        profile = self.profile
        assert host.metadata is not None and host.objects is not None
        number = int(host.name.rpartition("-")[2])
        store, objects = MetadataDoor(self.server, host.metadata), ObjectsDoor(self.server, host.objects)
        faults, offload = FaultPoints(self._hook(host, process)), InlineOffload()
        index = LogIndex(store, shards=profile.shards)
        cache = BlockCache(600 if profile.tight else 1 << 20)
        topics = Topics(store, process.clock, chance)
        append = AppendDeps(
            store=store, objects=objects, index=index, clock=process.clock, chance=chance, faults=faults, cache=cache, topics=topics
        )
        policy = FlushPolicy(
            interval_ms=profile.flush_interval_ms,
            inflight=profile.inflight,
            bytes_max=400 if profile.tight else 8 << 20,
            buffer_bytes_max=900 if profile.tight else 64 << 20,
            put_tries=2 if profile.tight else 5,
            put_deadline_ms=1_000 if profile.tight else 3_000,
            commit_deadline_ms=300 if profile.tight else 6_000,
            hedge_share=0.3 if profile.flush_interval_ms else 0.0,  # as on S3, only far more often
            hedge_enough=3,
        )
        appender = Appender(append, policy)
        upkeep = UpkeepDeps(
            store=store, objects=objects, index=index, topics=topics, clock=process.clock, chance=chance, offload=offload, cache=cache
        )
        host.caretaker = caretaker = Caretaker(upkeep, self.upkeep_policy(), name=host.name)
        deps = BrokerDeps(
            clock=process.clock,
            chance=chance,
            faults=faults,
            store=store,
            topics=topics,
            index=index,
            appender=appender,
            reader=LogReader(objects, index, cache, offload=offload),
            delete_records=caretaker.retainer.delete_records,
        )
        settings = BrokerSettings(
            node_id=number, host=host.name, shards=profile.shards, lease_ttl_ms=3_000, groups=GroupLimits(session_timeout_min_ms=500)
        )
        broker = Broker(settings, deps)
        await broker.join_cluster(9092)
        host.broker = broker
        tasks = [
            asyncio.create_task(appender.run(), name="appender"),
            asyncio.create_task(index.follow(), name="follow"),
            asyncio.create_task(broker.run(), name="broker"),
        ]
        if profile.upkeep:
            tasks.append(asyncio.create_task(caretaker.run(), name="caretaker"))

        async def stop() -> None:
            await broker.stop()
            await appender.close()

        host.stop = stop
        await _first(tasks)

    def upkeep_policy(self) -> UpkeepPolicy:
        profile = self.profile
        return UpkeepPolicy(
            seal_age_ms=profile.seal_age_ms,
            segment_bytes=300 if profile.tight else 4096,
            memory_bytes=500 if profile.tight else 1 << 20,
            grace_ms=profile.grace_ms,
            orphan_interval_ms=2_000,
            interval_ms=1_000,
        )

    async def _landing(self, host: Host, process: Process, chance: random.Random) -> None:
        profile = self.profile
        assert host.metadata is not None and host.objects is not None
        store, objects = MetadataDoor(self.server, host.metadata), ObjectsDoor(self.server, host.objects)
        reach = FaultPoints(self._hook(host, process))
        index = LogIndex(store, shards=profile.shards)
        deps = LandingDeps(
            store=store,
            topics=Topics(store, process.clock, chance),
            index=index,
            reader=LogReader(objects, index, BlockCache(600 if profile.tight else 1 << 20), offload=InlineOffload()),
            objects=objects,
            catalogs=self.open_catalogs(host, process, objects, chance),
            source="simulated/1",
            clock=process.clock,
            chance=chance,
            offload=InlineOffload(),
            faults=reach,
        )
        host.landing = landing = Landing(deps, self.landing_settings())
        for name in deps.catalogs:
            lake = landing._lakes.find(name)
            landing._lakes._lakes[name] = replace(lake, care=Care(lake.committer, self.care_settings()))

        async def stop() -> None:
            landing.stop()

        host.stop = stop
        await _first([asyncio.create_task(landing.run(), name="landing"), asyncio.create_task(index.follow(), name="follow")])

    def care_settings(self) -> CareSettings:
        """A day's care in half a minute. The grace of data files is longer than any stop or late request of the world."""
        return CareSettings(
            keep=Keep(last=6, hours=0, days=0),
            expire_batch=3,
            manifests_max=6,
            manifest_entries_max=20,
            delete_grace_ms=self.profile.data_grace_ms,
            metadata_grace_ms=2_000,
            data_sweep_interval_ms=5_000,
        )

    def open_catalogs(self, host: Host, process: Process, objects: ObjectsDoor, chance: random.Random) -> dict[str, Catalog]:
        """By name, as landing gets them."""
        reach = FaultPoints(self._hook(host, process))
        if self.profile.embedded_catalog:
            deps = CatalogDeps(objects=objects, offload=InlineOffload(), clock=process.clock, chance=chance, faults=reach)
            return {"default": PointerCatalog(LostAnswers(self.server, self.pointers, self), deps)}  # type: ignore[arg-type]
        plain = MemoryObjects(self.bucket, self.clock)
        deps = CatalogDeps(objects=plain, offload=InlineOffload(), clock=self.clock, chance=random.Random(chance.random()), faults=reach)
        return {"default": CatalogDoor(self.server, self.faulty_catalog(host, PointerCatalog(self.pointers, deps), chance))}

    def faulty_catalog(self, host: Host, inner: Catalog, chance: random.Random) -> FaultyCatalog:
        faults = self.profile.faults
        plan = (
            FaultPlan() if self.calm else FaultPlan(rates=self.catalog_rates, load_failures=faults.catalog_load, delay=faults.catalog_delay)
        )
        catalog = FaultyCatalog(inner, random.Random(chance.random()), plan)
        host.catalogs.append(catalog)
        return catalog

    def landing_settings(self) -> LandingSettings:
        return LandingSettings(
            auto=AutoLanding(namespace="lake"),
            commit_interval_ms=self.profile.commit_interval_ms,
            commit_interval_min_ms=100,
            progress_idle_ms=5_000,
            call_deadline_ms=5_000,
            read_patience_ms=1_000,
            backoff_min_ms=100,
            backoff_max_ms=2_000,
            discover_interval_ms=1_000,
            status_interval_ms=1_000,
            care_interval_ms=2_000,
            slice_bytes_max=2_000 if self.profile.tight else 1 << 20,
            slice_rows_max=4 if self.profile.tight else 100_000,
        )

    # --- a life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Topics, processes, clients."""
        for name, partitions in self.profile.topics:
            await self._make_topic(name, partitions)
        for host in self.hosts.values():
            self.boot(host)
        for name, partitions in self.profile.topics:
            self._start_clients(name, partitions)
        if self.profile.reborn_topic:
            self._clients.append(self.loop.create_task(self._two_lives(), name="two lives"))
        if self.profile.late_topic:
            await asyncio.sleep(self.profile.seconds * self.chance.uniform(0.1, 0.5))
            await self._make_topic("late", 1)
            self._start_clients("late", 1)

    async def _make_topic(self, name: str, partitions: int) -> None:
        configs = {"retention.ms": str(self.profile.retention_ms)} if self.profile.retention_ms else {}
        await self.topics.create(name, partitions, configs)
        self.partitions[name] = partitions

    async def _two_lives(self) -> None:
        """Makes a topic, uses it, deletes it with everything in it, makes it again. Nobody uses it in between."""
        chance = self.chance
        for life in ("reborn", "reborn#2"):
            await self.topics.create("reborn", 1)
            self.partitions[life] = 1
            style = ProducerStyle(idempotent=chance.random() < 0.5, retries=True, acks=-1)
            producer = Producer(f"{life}-p", self, life, 1, style)
            producer.start()
            reading = Consumer(f"{life}-c", self, life, 1).run() if life == "reborn" else asyncio.sleep(0)
            # A fetch goes by name: a broker with an old view may show the first life for a moment, so only that one is followed.
            consumer = self.loop.create_task(self._guard(life, reading), name=f"consumer {life}")
            for _ in range(chance.randint(1, 5)):
                producer.send(0, [self.value(life) for _ in range(chance.randint(1, 3))])
                await asyncio.sleep(chance.random() * 0.5)
            await producer.finish()
            if life == "reborn":
                await asyncio.sleep(chance.choice((0.0, 3.0)))
                consumer.cancel()
                await self.topics.delete("reborn")
                self.note("topic reborn is deleted")
                self.partitions.pop(life)
                await asyncio.sleep(chance.uniform(*self.profile.reborn_pause_s))
                self.note("topic reborn is made anew")

    def _start_clients(self, topic: str, partitions: int) -> None:
        profile, chance = self.profile, self.chance
        for number in range(profile.producers):
            kind = number % 3
            style = ProducerStyle(
                idempotent=kind == 0,
                retries=kind == 0 or (kind == 2 and chance.random() < 0.6),
                acks=chance.choice((1, -1)) if kind != 1 or chance.random() < 0.85 else 0,
                inflight=5 if kind == 0 else chance.choice((1, 5)),
                gzip=chance.random() < 0.2,
            )
            if style.acks == 0:
                style = replace(style, retries=False)
            producer = Producer(f"{topic}-p{number}", self, topic, partitions, style)
            producer.start()
            self._producers.append(producer)
            self._clients.append(self.loop.create_task(self._feed(producer, partitions), name=f"feed {producer.name}"))
        for number in range(profile.consumers):
            consumer = Consumer(f"{topic}-c{number}", self, topic, partitions)
            self.consumers.append(consumer)
            self._beside(f"consumer {topic} {number}", consumer.run())
        self._beside(f"looker {topic}", Looker(self, topic, partitions).run())
        if profile.group:
            self._beside(f"group {topic}", Committer(f"{topic}-group", self, topic).run())
            group = Group(f"{topic}-team", topic, partitions)
            for number in range(3):
                self._beside(f"member {topic} {number}", Member(f"{topic}-team-{number}", self, group).run())

        if profile.delete_records:
            self._beside(f"deleter {topic}", Deleter(self, topic, partitions).run())

    def _beside(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self.loop.create_task(self._guard(name, work), name=name)

    async def _guard(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            self.book.fail(f"{name}: {type(error).__name__}: {error}")

    async def _feed(self, producer: Producer, partitions: int) -> None:
        """The workload of one producer, spread over the time of the world."""
        profile, chance = self.profile, self.chance
        left = [partition for partition in range(partitions) for _ in range(profile.batches)]
        chance.shuffle(left)
        mean = profile.seconds / max(len(left), 1)
        for partition in left:
            await asyncio.sleep(chance.uniform(0, 2 * mean))
            for _ in range(chance.choice((1, 1, 1, 3))):
                producer.send(partition, [self.value(producer.name) for _ in range(chance.randint(1, profile.batch_max))])

    def value(self, who: str) -> bytes:
        """A value unlike every other; its fields grow with time."""
        self.serial += 1
        chance, number = self.chance, self.serial
        if chance.random() < self.profile.bad_share:
            return chance.choice((b'{"n": %d, "cut', b"[%d]", b"\xff%d")) % number
        fields: dict[str, Any] = {"n": number, "who": who}
        age = self.loop.time() / self.profile.seconds
        if age > 0.3 and chance.random() < 0.5:
            fields["size"] = chance.randrange(100)
        if age > 0.5 and chance.random() < 0.5:
            fields["place"] = {"x": chance.random(), "tags": ["a", "b"]}
        if age > 0.6 and chance.random() < 0.1:
            fields["size"] = "large"
        if self.profile.fickle and chance.random() < 0.4:
            fields["doubtful"] = True
        return json.dumps(fields).encode()

    async def fed(self) -> None:
        """Returns when every producer has got rid of its records."""
        await asyncio.gather(*self._clients)
        await asyncio.gather(*(producer.finish() for producer in self._producers))

    def unanswered(self) -> int:
        return sum(producer.unanswered() for producer in self._producers)

    # --- misfortune ---------------------------------------------------------------------------------------------------

    def start_misfortune(self) -> None:
        faults = self.profile.faults
        for mean, act in (
            (faults.kill_s, self._kill_one),
            (faults.freeze_s, self._freeze_one),
            (faults.cut_s, self._cut_one),
            (faults.burst_s, self._burst),
            (faults.rollback_s if self.profile.landing else 0.0, self._roll_back),
        ):
            if mean:
                self._beside(act.__name__, self._now_and_then(mean, act))

    async def _now_and_then(self, mean: float, act: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(self.chance.expovariate(1 / mean))
            if self.calm:
                return
            act()

    def _any_host(self) -> Host:
        return self.hosts[self.chance.choice(sorted(self.hosts))]

    def _kill_one(self) -> None:
        host = self._any_host()
        how = self.chance.random()
        if how > 1 - self.profile.faults.clean_share:
            self._stop_cleanly(host)
        elif how < self.profile.faults.point_share:
            points = LANDING_POINTS if host.name.startswith("landing") else BROKER_POINTS
            host.fuse = (self.chance.choice(points), self.chance.choice((1, 1, 2, 3)))
        else:
            self.kill(host, "any time")

    def _stop_cleanly(self, host: Host) -> None:
        if host.process is None or host.process.dead or host.stop is None:
            return
        self.faults["clean stop"] += 1
        self.note(f"{host.name} is asked to stop")
        stop, host.stop, host.broker = host.stop, None, None
        host.process.spawn("stop", stop())

    def _freeze_one(self) -> None:
        host, faults = self._any_host(), self.profile.faults
        seconds = self.chance.uniform(*faults.freeze_for_s)
        if faults.freeze_points:
            host.brake = (self.chance.choice(faults.freeze_points), seconds)
        else:
            self.freeze(host, seconds)

    def _cut_one(self) -> None:
        wires = [wire for host in self.hosts.values() for wire in host.wires if not wire._lost]
        if wires:
            self.faults["connection cut"] += 1
            self.chance.choice(wires).cut()

    def _burst(self) -> None:
        host = self._any_host()
        assert host.metadata is not None and host.objects is not None
        self.faults["burst"] += 1
        seconds = self.chance.uniform(0.5, 4.0)
        self.note(f"{host.name} hardly reaches its stores for {seconds:.1f} s")
        if self.chance.random() < 0.5:
            host.metadata.plan = replace(host.metadata.plan, unavailable=0.6, lost_applied=0.2)
        else:
            host.objects.plan = replace(host.objects.plan, s_503=0.5, s_cut_a=0.2)
        self.loop.call_later(seconds, self._end_burst, host, host.process)

    def _end_burst(self, host: Host, process: Process | None) -> None:
        if host.process is process and host.metadata is not None and host.objects is not None:
            host.metadata.plan = CALM_METADATA if self.calm else self.profile.faults.metadata
            host.objects.plan = self._objects_plan(host)

    def _roll_back(self) -> None:
        self._beside("roll back", self.roll_back())

    async def roll_back(self) -> None:
        """What ``CALL rollback_to_snapshot`` does: the branch goes back; properties, tags and files stay."""
        ident = f"lake.{self.chance.choice(sorted(self.partitions))}"
        objects = MemoryObjects(self.bucket, self.clock)
        deps = CatalogDeps(
            objects=objects, offload=InlineOffload(), clock=self.clock, chance=random.Random(self.chance.random()), faults=FaultPoints()
        )
        catalog = PointerCatalog(self.pointers, deps)
        try:
            table = await catalog.load(ident)
            head = table.metadata.get("current-snapshot-id")
            snapshots = {snapshot["snapshot-id"]: snapshot for snapshot in table.metadata.get("snapshots", [])}
            ancestors: list[int] = []
            at = snapshots.get(head, {}).get("parent-snapshot-id")
            while at in snapshots:
                ancestors.append(at)
                at = snapshots[at].get("parent-snapshot-id")
            if not ancestors:
                return
            target = self.chance.choice(ancestors)
            requirement = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": head}
            update = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": target}
            await catalog.commit(ident, table, [requirement], [update])
        except FrazilError:
            return
        self.faults["foreign rollback"] += 1
        self.note(f"{ident} rolled back {ancestors.index(target) + 1} snapshots")

    def stop_misfortune(self) -> None:
        """From now on everything works; whoever is down comes up."""
        self.note("faults stop")
        self.calm = True
        self.catalog_rates.clear()
        for host in self.hosts.values():
            host.fuse = host.brake = None
            if host.metadata is not None and host.objects is not None:
                host.metadata.plan, host.objects.plan = MetadataFaults(), ObjectFaults()
            for catalog in host.catalogs:
                self._count_catalog(catalog)
                catalog._plan = FaultPlan()
            if host.process is not None and not host.process.dead:
                self._thaw(host, host.process)

    def _count_catalog(self, catalog: FaultyCatalog) -> None:
        for word in catalog.met:
            if word != "ok":
                self.faults[f"catalog {re.sub(r':.*', '', word)}"] += 1
        catalog.met.clear()

    # --- the end ------------------------------------------------------------------------------------------------------

    async def end(self) -> None:
        """Everything is taken down; nothing done from here on has an effect on what was stored."""
        self.server.closed = True
        main = asyncio.current_task()
        for process in self.all_processes:
            process.dead = True
            process.bury()
        for _ in range(4):
            tasks = [task for task in asyncio.all_tasks() if task is not main]
            if not tasks:
                return
            for task in sorted(tasks, key=lambda task: task.get_name()):
                task.cancel()
            await asyncio.wait(tasks, timeout=1.0)
        for task in asyncio.all_tasks():
            if task is not main:
                task._log_destroy_pending = False  # type: ignore[attr-defined]


async def _first(tasks: list[asyncio.Task[Any]]) -> None:
    """Until one of the tasks ends with an error, or the first of them, which a clean stop ends."""
    running = set(tasks)
    while tasks[0] in running:
        done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            if not task.cancelled():
                task.result()
