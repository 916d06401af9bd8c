"""Seeds of the mutation test: request frames of real clients, recorded by a proxy, said again in every version the broker serves."""

from __future__ import annotations

import asyncio
import pathlib
import random
import threading
from collections import defaultdict
from dataclasses import dataclass

import confluent_kafka
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from tests.compat import flow
from tests.compat.clients import aio, kafka_python, librdkafka
from tests.compat.process import Processes, free_port
from tests.property.wire.instances import random_bytes_of

from frazil.broker.handlers.table import HANDLERS
from frazil.kit.errors import Bug, FrazilError
from frazil.wire import APIS, RequestHeader, decode_request
from frazil.wire.client import encode_request
from frazil.wire.frame import encode_request_frame

TOPIC = "flow-hostile"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
EACH_MAX = 5


@dataclass(frozen=True)
class Seed:
    """One whole frame, size bytes included."""

    api_key: int
    version: int
    frame: bytes
    origin: str


class Recorder:
    """A TCP proxy that keeps the frames clients send."""

    def __init__(self, target_port: int) -> None:
        self.port = free_port()
        self.frames: list[bytes] = []
        self._target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def start(self) -> None:
        self._thread.start()
        start = asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self._server = asyncio.run_coroutine_threadsafe(start, self._loop).result(10)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close_all(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _close_all(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.close()
        await asyncio.sleep(0.1)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back_reader, back_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        self._writers += [writer, back_writer]
        answers = asyncio.ensure_future(self._copy(back_reader, writer))
        try:
            while True:
                size = await reader.readexactly(4)
                frame = size + await reader.readexactly(int.from_bytes(size, "big"))
                self.frames.append(frame)
                back_writer.write(frame)
        except (asyncio.IncompleteReadError, OSError):
            back_writer.close()
        await answers

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
        except OSError:
            pass
        writer.close()


def record(directory: pathlib.Path) -> list[bytes]:
    """What four clients send in a full life: topics, every codec, fetches, groups, admin calls."""
    with Processes(directory) as processes:
        recorder = Recorder(processes.port)
        processes.settings = [f"broker.advertised_port={recorder.port}"]
        processes.start("broker")
        recorder.start()
        bootstrap = f"127.0.0.1:{recorder.port}"
        for client in (librdkafka.IDEMPOTENT, kafka_python.CLIENT, aio.CLIENT):
            plan = flow.Plan(bootstrap, f"{TOPIC}-{client.name.split()[0]}", f"group-{client.name.split()[0]}", records=40, partitions=2)
            client.create(plan)
            client.produce(plan)
            client.consume(plan, 20)
            client.committed(plan)
        _codecs(bootstrap)
        _admin(bootstrap)
        frames = list(recorder.frames)
        recorder.stop()
    return frames


def _codecs(bootstrap: str) -> None:
    for codec in CODECS:
        producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20, "log_level": 0})
        for number in range(30):
            producer.produce(TOPIC, b"%d" % number * 20, b"key", headers=[("h", b"v")])
        assert producer.flush(20) == 0


def _admin(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    resource = ConfigResource(ResourceType.TOPIC, "flow-made")
    change = ConfigEntry("retention.ms", "60000", incremental_operation=AlterConfigOpType.SET)
    moved = ConsumerGroupTopicPartitions("group-moved", [TopicPartition(TOPIC, 0, 1)])
    place = TopicPartition(TOPIC, 0)
    wait = [
        admin.create_topics([NewTopic("flow-made", 2, 1, config={"retention.ms": "7200000"})]),
        admin.create_partitions([NewPartitions("flow-made", 3)]),
        admin.describe_configs([resource]),
        admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, "flow-made", incremental_configs=[change])]),
        admin.list_offsets({place: OffsetSpec.for_timestamp(1)}),
        admin.list_offsets({place: OffsetSpec.max_timestamp()}),
        admin.delete_records([TopicPartition(TOPIC, 0, 1)]),
        admin.alter_consumer_group_offsets([moved]),
        admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("group-moved")]),
        admin.describe_consumer_groups(["group-moved"]),
        admin.delete_consumer_groups(["group-moved"]),
        admin.delete_topics(["flow-made"]),
    ]
    for futures in wait:
        for future in futures.values():
            future.exception(20)
    admin.list_consumer_groups().result(20)
    admin.describe_cluster().result(20)


def seeds(directory: pathlib.Path, chance: random.Random) -> list[Seed]:
    """Recorded frames (a few per API and version), the same messages in every other version served, and random messages."""
    by_version: dict[tuple[int, int], list[Seed]] = defaultdict(list)
    for frame in record(directory):
        header = RequestHeader.decode(memoryview(frame)[4:])
        known = by_version[header.api_key, header.api_version]
        if len(known) < EACH_MAX or (frame[-200:] not in [seed.frame[-200:] for seed in known[:1]] and len(known) < 4 * EACH_MAX):
            known.append(Seed(header.api_key, header.api_version, frame, "recorded"))
    for seed in [seed for group in list(by_version.values()) for seed in group]:
        for version in served(seed.api_key):
            if len(by_version[seed.api_key, version]) < EACH_MAX and (frame := in_version(seed, version)):
                by_version[seed.api_key, version].append(Seed(seed.api_key, version, frame, "said again"))
    for handler in HANDLERS:
        for version in served(handler.key):
            for _ in range(EACH_MAX if not by_version[handler.key, version] else 2):
                body = random_bytes_of(APIS[handler.key].load()[0], version, chance)[1]
                header = RequestHeader(handler.key, version, chance.getrandbits(31), "hostile", 0)
                by_version[handler.key, version].append(Seed(handler.key, version, encode_request_frame(header, body), "random"))
    return [seed for key in sorted(by_version) for seed in by_version[key]]


def served(api_key: int) -> range:
    """Versions of an API that can be encoded."""
    handler = next((handler for handler in HANDLERS if handler.key == api_key), None)
    api = APIS.get(api_key)
    return range(max(handler.first, api.version_min), handler.last + 1) if handler and api else range(0)


def in_version(seed: Seed, version: int) -> bytes | None:
    """The same message in another version; None where it does not fit."""
    try:
        frame = memoryview(seed.frame)[4:]
        header = RequestHeader.decode(frame)
        message = decode_request(seed.api_key, seed.version, frame, header.position)
        body = encode_request(seed.api_key, version, message)
        return encode_request_frame(RequestHeader(seed.api_key, version, header.correlation_id, "hostile", 0), body)
    except (Bug, FrazilError):
        return None
