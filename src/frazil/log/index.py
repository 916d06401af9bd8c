"""The index of the log in one process: the folded state, kept fresh by linearizable reads of the change feed (R04, R08, R20).

Hints from ``watch`` only say when to read; content comes from one range read at one revision. Answers that claim an end or
that an offset does not exist are given after ``refresh`` only; callers see to that (``log.read``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from frazil.kit.errors import RetryLater
from frazil.kit.names import PartitionKey, TopicId
from frazil.log.commitrecord import CommitRecord
from frazil.log.refs import Bounds, Ref
from frazil.log.shards import LOG_END, LOG_START, shard_of
from frazil.log.state import LogState
from frazil.metadata.port import START, MetadataStore, Revision

_REFRESH_PAUSE_S = 0.005
_NOTHING = Bounds(start=0, end=0)


class LogIndex:
    """Where every record is. One per process; all of it on one event loop."""

    def __init__(self, store: MetadataStore, *, shards: int, producers: bool = True) -> None:
        """``producers`` False: a process that neither appends nor collects need not remember producers."""
        self.state = LogState(shards, producers=producers)
        self._store = store
        self._revision: Revision = START
        self._reading: asyncio.Task[None] | None = None
        self._next: asyncio.Future[None] | None = None

    @property
    def revision(self) -> Revision:
        """Everything up to this revision is folded."""
        return self._revision

    async def refresh(self) -> None:
        """Returns when the index holds everything committed before the call.

        Callers share reads, but only one that starts after their call: a read under way may have been answered already.
        Raises RetryLater, Corrupt.
        """
        served = self._next
        if served is None:
            served = self._next = asyncio.get_running_loop().create_future()
            served.add_done_callback(_retrieve)
            if self._reading is None:
                self._start()
        await asyncio.shield(served)

    def bounds(self, key: PartitionKey) -> Bounds:
        """Start and end as known here; a partition nothing is known of is empty."""
        log = self.state.find(key)
        return _NOTHING if log is None else log.bounds

    def end(self, key: PartitionKey) -> int:
        """The next offset as known here."""
        log = self.state.find(key)
        return 0 if log is None else log.end

    def refs(self, key: PartitionKey, offset: int, *, bytes_max: int) -> tuple[Ref, ...]:
        """Refs without a gap from the one with ``offset`` on, about ``bytes_max`` bytes; none where nothing is known.

        A lost range is a border: refs begin after it or end before it.
        """
        log = self.state.find(key)
        return () if log is None or not log.start <= offset < log.end else log.refs(offset, bytes_max)

    def past_lost(self, key: PartitionKey, offset: int) -> int:
        """``offset``, or the first offset after the lost range it is in (R22)."""
        log = self.state.find(key)
        return offset if log is None or not log.start <= offset < log.end else log.past_lost(offset)

    def knows(self, topic_id: TopicId) -> bool:
        """True when some partition of the topic has or had records."""
        return topic_id in self.state.logs

    def shard(self, key: PartitionKey) -> int:
        """The shard of a partition."""
        return shard_of(key.topic_id, key.partition, len(self.state.shards))

    def runs(self, key: PartitionKey) -> Iterable[Ref]:
        """Every ref of the partition, in order, without lost ranges."""
        log = self.state.find(key)
        return () if log is None else [ref for ref in log.iterate(log.start) if not ref.lost]

    def trouble(self, key: PartitionKey) -> str | None:
        """Why the partition is not served to its end; None when it is."""
        log = self.state.find(key)
        return None if log is None or log.gap is None else f"offsets {log.gap[0]}-{log.gap[1] - 1} of the log have no run in metadata"

    def troubles(self) -> tuple[str, ...]:
        """Partitions that are not served to their end, each with offsets and reason."""
        return tuple(
            f"{log.key}: offsets {log.gap[0]}-{log.gap[1] - 1} have no run in metadata"
            for partitions in self.state.logs.values()
            for log in partitions.values()
            if log.gap is not None
        )

    async def wait_change(self, seen: Mapping[PartitionKey, int], *, timeout_ms: float) -> bool:
        """True as soon as the end of a partition is above the one the caller has ``seen``; False after ``timeout_ms``."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while not any(self.end(key) > end for key, end in seen.items()):
            left = deadline - loop.time()
            if left <= 0:
                return False
            waiter: asyncio.Future[None] = loop.create_future()
            logs = [self.state.log(key.topic_id, key.partition) for key in seen]
            for log in logs:
                log.waiters[waiter] = None
            try:
                await asyncio.wait((waiter,), timeout=left)
            finally:
                waiter.cancel()
                for log in logs:
                    log.waiters.pop(waiter, None)
        return True

    async def follow(self) -> None:
        """Refreshes on every hint, for ever; the one background task of an index. Raises Corrupt when the feed is damaged."""
        async for _ in self._store.watch(LOG_START):
            try:
                await self.refresh()
                # Most hints tell of this process's own commits, which are folded already: at a thousand a second, one read for several.
                await asyncio.sleep(_REFRESH_PAUSE_S)
            except RetryLater as error:
                await asyncio.sleep(error.after_ms / 1000)

    def fold_own(self, records: Sequence[CommitRecord], revision: Revision) -> None:
        """Folds what this process has committed, before any read shows it."""
        self.state.fold_own(records, revision)
        self._wake()

    def _start(self) -> None:
        served, self._next = self._next, None
        if served is not None:
            self._reading = asyncio.get_running_loop().create_task(self._read(served), name="log-index-refresh")

    async def _read(self, served: asyncio.Future[None]) -> None:
        try:
            feed = await self._store.range(LOG_START, LOG_END, after=self._revision)
            self.state.fold(feed.entries)
            self._revision = max(self._revision, feed.revision)
        except asyncio.CancelledError:
            served.set_exception(RetryLater("the refresh was cancelled"))
            raise
        except Exception as error:  # noqa: BLE001 - not swallowed: every caller that waits gets it
            served.set_exception(error)
        else:
            served.set_result(None)
        finally:
            self._wake()
            self._reading = None
            self._start()

    def _wake(self) -> None:
        for log in self.state.take_changed():
            for waiter in log.waiters:
                if not waiter.done():
                    waiter.set_result(None)


def _retrieve(future: asyncio.Future[None]) -> None:
    """Marks an error as seen: every caller of ``refresh`` may have been cancelled meanwhile."""
    if not future.cancelled():
        future.exception()
