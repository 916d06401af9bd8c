"""Every object store back-end, as a way to open several handles ("processes") on one fresh store."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.servers import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, SeaweedFs

from frazil.kit.clock import Clock, SystemClock
from frazil.kit.delays import Delay
from frazil.kit.tasks import InlineOffload, ThreadOffload
from frazil.objects.access import CloudAccess
from frazil.objects.faulty import NO_FAULTS, FaultyObjects, ObjectFaults
from frazil.objects.opening import open_objects
from frazil.objects.port import ObjectStore
from frazil.objects.stores.file import FileObjects
from frazil.objects.stores.memory import MemoryBucket, MemoryObjects

Opener = Callable[[], ObjectStore]

WEATHER = ObjectFaults(
    put_delay=Delay(p50_ms=40, p99_ms=400),
    get_delay=Delay(p50_ms=15, p99_ms=200),
    s_503=0.1,
    s_404=0.05,
    s_412=0.05,
    s_cut_n=0.05,
    s_cut_a=0.15,
    s_late=0.05,
    late_ms=300,
)


@dataclass(frozen=True)
class Backend:
    name: str
    opener: Callable[[pathlib.Path, Clock], Opener]
    virtual: bool

    def __str__(self) -> str:
        return self.name


def memory(directory: pathlib.Path, clock: Clock) -> Opener:
    bucket = MemoryBucket()
    return lambda: MemoryObjects(bucket, clock)


def file(directory: pathlib.Path, clock: Clock) -> Opener:
    return lambda: FileObjects(directory / "objects", offload=ThreadOffload("objects"))


def file_inline(directory: pathlib.Path, clock: Clock) -> Opener:
    return lambda: FileObjects(directory / "objects", offload=InlineOffload())


def s3(server: SeaweedFs) -> Callable[[pathlib.Path, Clock], Opener]:
    """A prefix of its own in the test bucket; handles share it."""

    def opener(directory: pathlib.Path, clock: Clock) -> Opener:
        url = f"s3://{BUCKET}/{server.new_prefix()}"
        access = CloudAccess(
            endpoint=server.s3,
            region=REGION,
            access_key_id=ACCESS_KEY,
            secret_access_key=SECRET_KEY,
            allow_http=True,
            check_conditions=False,
        )
        return lambda: open_objects(url, offload=InlineOffload(), clock=SystemClock(), access=access)

    return opener


def faulty(below: Callable[[pathlib.Path, Clock], Opener], plan: ObjectFaults) -> Callable[[pathlib.Path, Clock], Opener]:
    def opener(directory: pathlib.Path, clock: Clock) -> Opener:
        open_below = below(directory, clock)
        chance = random.Random(20240607)
        return lambda: FaultyObjects(open_below(), chance, plan)

    return opener


CALM = (
    Backend("memory", memory, True),
    Backend("file", file, False),
    Backend("file-inline", file_inline, True),
    Backend("faulty-memory-without-faults", faulty(memory, NO_FAULTS), True),
    Backend("faulty-file-without-faults", faulty(file_inline, NO_FAULTS), True),
)
ALL = (*CALM, Backend("faulty-memory", faulty(memory, WEATHER), True), Backend("faulty-file", faulty(file_inline, WEATHER), True))
