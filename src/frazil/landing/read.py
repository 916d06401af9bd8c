"""Stage read: wants → slices of batches. One joint, bundle-major read for all partitions of the table (R12).

When the joint read fails or takes too long it is split: each partition is read alone, those that answer go on, and the
rest are followed up by one probe each until they answer. One unreadable object never holds up another partition (F30).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from frazil.kit.errors import FrazilError, RetryLater
from frazil.kit.names import PartitionKey
from frazil.kit.tasks import spawn
from frazil.landing.decode import BadPartition, Read
from frazil.log.refs import Slice, Want
from frazil.log.view import LogSource

PROBES_MAX = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOutcome:
    """Slices in the order of the wants, and partitions that gave nothing."""

    reads: tuple[Read, ...]
    bad_partitions: tuple[BadPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a joint read may take before it is split, a single read before it is given up, and the pause between probes."""

    joint_ms: int
    single_ms: int
    pause_ms: int


@dataclass(slots=True, kw_only=True)
class _Probe:
    task: asyncio.Task[Slice]
    want: Want
    why: str


class _TooSlow(RetryLater):
    """Our own patience ended, not the store's answer."""


class SliceReader:
    """Reads for one table; remembers which partitions are being probed."""

    def __init__(self, reader: LogSource, patience: Patience) -> None:
        self._reader = reader
        self._patience = patience
        self._probes: dict[PartitionKey, _Probe] = {}

    async def read(self, wants: Sequence[Want], topics: Mapping[PartitionKey, str]) -> ReadOutcome:
        """The slices that could be read in bounded time."""
        ready = self._take_ready(wants)
        joint = [want for want in wants if want.key not in ready and want.key not in self._probes]
        slices = {**ready, **(await self._joint(joint) if joint else {})}
        reads = tuple(
            Read(slice=slices[want.key], topic=topics[want.key], start=want.offset)
            for want in wants
            if want.key in slices and slices[want.key].end > want.offset
        )
        bad = tuple(
            BadPartition(key=want.key, topic=topics[want.key], stage="read", why=self._probes[want.key].why)
            for want in wants
            if want.key in self._probes
        )
        return ReadOutcome(reads=reads, bad_partitions=bad)

    async def close(self) -> None:
        """Ends the probes."""
        probes = list(self._probes.values())
        self._probes.clear()
        for probe in probes:
            probe.task.cancel()
        await asyncio.gather(*(probe.task for probe in probes), return_exceptions=True)

    def _take_ready(self, wants: Sequence[Want]) -> dict[PartitionKey, Slice]:
        """What probes have brought in, if it still begins where the table is; such a partition is well again."""
        ready: dict[PartitionKey, Slice] = {}
        for want in wants:
            probe = self._probes.get(want.key)
            if probe is not None and probe.want.offset != want.offset:  # progress or the log start moved meanwhile
                self._probes.pop(want.key).task.cancel()
                continue
            if probe is None or not probe.task.done():
                continue
            del self._probes[want.key]
            found = probe.task.result()
            if found.base <= want.offset < found.end:
                ready[want.key] = found
        return ready

    async def _joint(self, wants: Sequence[Want]) -> dict[PartitionKey, Slice]:
        try:
            async with asyncio.timeout(self._patience.joint_ms / 1000):
                slices = await self._reader.read_many(wants)
        except (TimeoutError, FrazilError):
            return await self._split(wants)
        return {slice_.key: slice_ for slice_ in slices}

    async def _split(self, wants: Sequence[Want]) -> dict[PartitionKey, Slice]:
        """Each partition alone; who does not answer within the same patience gets a probe."""
        results = await asyncio.gather(*(self._alone(want, self._patience.joint_ms) for want in wants), return_exceptions=True)
        errors = [result for result in results if isinstance(result, FrazilError)]
        if len(errors) == len(wants) and not any(isinstance(error, _TooSlow) for error in errors):
            raise errors[0]  # the store as a whole is in trouble: the table waits, nobody needs a probe
        slices: dict[PartitionKey, Slice] = {}
        for want, result in zip(wants, results, strict=True):
            if isinstance(result, Slice):
                slices[want.key] = result
            elif isinstance(result, FrazilError):
                self._probe(want, str(result))
            else:
                raise result
        return slices

    async def _alone(self, want: Want, patience_ms: int) -> Slice:
        try:
            async with asyncio.timeout(patience_ms / 1000):
                return await self._reader.fetch(want.key, want.offset, bytes_max=want.bytes_max)
        except TimeoutError:
            raise _TooSlow(f"reading offset {want.offset} takes longer than {patience_ms} ms") from None

    def _probe(self, want: Want, why: str) -> None:
        if len(self._probes) < PROBES_MAX:
            task = spawn(f"probe {want.key}", self._follow_up(want))
            self._probes[want.key] = _Probe(task=task, want=want, why=why)

    async def _follow_up(self, want: Want) -> Slice:
        while True:
            await asyncio.sleep(self._patience.pause_ms / 1000)
            try:
                return await self._alone(want, self._patience.single_ms)
            except FrazilError as error:
                probe = self._probes.get(want.key)
                if probe is not None:
                    probe.why = str(error)
