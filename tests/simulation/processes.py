"""Simulated processes: what runs in one can be stopped for a while (SIGSTOP), killed at once (SIGKILL) and started again.

Everything a process does runs in a context that names it. The loop asks the owner of each callback before it runs, so a
stopped process simply does not get time, and a dead one never does anything again: no ``finally``, no last write.
Its only ways to the world are ``Door`` (stores, catalog) and the network.
"""

from __future__ import annotations

import asyncio
import contextvars
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from tests.simulation.loop import OWNER, VirtualLoop

from frazil.catalogs.port import Catalog, CreateTable, LoadedTable
from frazil.kit.names import TimestampMs
from frazil.metadata.port import START, MetadataStore, Range, Revision
from frazil.objects.port import ObjectInfo, ObjectStore

T = TypeVar("T")


class Killed(BaseException):
    """Raised inside a process at the point where it is killed; nothing in the process can catch it and go on."""


class Process:
    """One run of one program. A restart is another ``Process`` of the same name with a higher ``boot``."""

    def __init__(self, name: str, boot: int, *, skew_ms: int = 0) -> None:
        self.name = name
        self.boot = boot
        self.stopped = False
        self.dead = False
        self.clock = ProcessClock(skew_ms)
        self.context = contextvars.copy_context()
        self.context.run(OWNER.set, self)
        self.failure: BaseException | None = None
        """What ended it, if it was not killed."""
        self._parked: list[asyncio.Handle] = []
        self._loop: VirtualLoop = asyncio.get_running_loop()  # type: ignore[assignment]  # simulation only

    def spawn(self, name: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task of this process."""
        return self._loop.create_task(work, name=f"{self.name}.{self.boot}: {name}", context=self.context.copy())

    def park(self, handle: asyncio.Handle) -> None:
        """See ``Owner``. Callbacks of the dead are kept too, only so that nothing of them is collected while the world runs."""
        self._parked.append(handle)

    def freeze(self) -> None:
        """SIGSTOP."""
        if not self.stopped:
            self.stopped = True
            self._loop.stopped_owners += 1

    def thaw(self) -> None:
        """SIGCONT: everything that came due meanwhile happens now, in order."""
        if self.stopped and not self.dead:
            self.stopped = False
            self._loop.stopped_owners -= 1
            self._release()

    def kill(self) -> None:
        """SIGKILL."""
        self.freeze()
        self.dead = True

    def bury(self) -> None:
        """After the world's end: lets cancelled tasks of a dead process run to their ends, so that nothing is left over."""
        if self.stopped:
            self.stopped = False
            self._loop.stopped_owners -= 1
            self._release()

    def _release(self) -> None:
        parked, self._parked = self._parked, []
        self._loop._ready.extend(handle for handle in parked if not handle._cancelled)


class ProcessClock:
    """A process's own idea of time: off by ``skew_ms`` from the others'."""

    def __init__(self, skew_ms: int = 0, epoch_ms: int = 1_700_000_000_000) -> None:
        self._epoch_ms = epoch_ms + skew_ms
        self._loop = asyncio.get_running_loop()

    def now_ms(self) -> TimestampMs:
        return TimestampMs(self._epoch_ms + int(self._loop.time() * 1000))

    def monotonic_ms(self) -> float:
        return self._loop.time() * 1000.0


class Server:
    """Where the calls of all processes are carried out. A request that has left its process is served even if that dies."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self.calls = 0
        self.closed = False
        self.faults: Counter[str] = Counter()
        """What was injected into the answers, by kind."""

    async def call(self, work: Callable[[], Awaitable[T]]) -> T:
        """The answer to a request, if the caller lives to see it."""
        if self.closed:
            raise Killed
        owner = OWNER.get()
        if isinstance(owner, Process) and owner.dead:  # code that unwinds in a process just killed
            await self._loop.create_future()
        if owner is not None and owner.stopped:  # stopped in the middle of a step: the request leaves when it goes on
            await asyncio.sleep(0)
        self.calls += 1
        reply: asyncio.Future[T] = self._loop.create_future()
        self._loop.create_task(self._serve(work, reply), name="server", context=self._context.copy())
        return await reply

    async def _serve(self, work: Callable[[], Awaitable[T]], reply: asyncio.Future[T]) -> None:
        try:
            answer = await work()
        except Killed:
            return  # the caller was killed in the middle of its request: nobody waits
        except Exception as error:
            self._count(str(error))
            if not reply.done():
                reply.set_exception(error)
                reply.exception()  # seen: the caller may be gone
            return
        if not reply.done():
            reply.set_result(answer)

    def _count(self, words: str) -> None:
        if words.startswith("injected: "):
            words = re.sub(r"\S*/\S*|\d+ (?=keys)", "…", words.removeprefix("injected: "))
            self.faults[words] += 1


class MetadataDoor(MetadataStore):
    """A metadata store as one process reaches it."""

    def __init__(self, server: Server, store: MetadataStore) -> None:
        self._server, self._store = server, store

    async def range(self, start: str, end: str, *, after: Revision = START) -> Range:
        return await self._server.call(lambda: self._store.range(start, end, after=after))

    async def commit(self, checks: Any, writes: Any, range_deletes: Any = ()) -> Any:
        return await self._server.call(lambda: self._store.commit(checks, writes, range_deletes))

    def watch(self, prefix: str) -> AsyncIterator[None]:
        return self._store.watch(prefix)

    async def grant_lease(self, ttl_ms: int) -> int:
        return await self._server.call(lambda: self._store.grant_lease(ttl_ms))

    async def renew_lease(self, lease: int) -> bool:
        return await self._server.call(lambda: self._store.renew_lease(lease))

    async def close(self) -> None:
        return None


class ObjectsDoor(ObjectStore):
    """An object store as one process reaches it."""

    def __init__(self, server: Server, store: ObjectStore) -> None:
        self._server, self._store = server, store

    def uri(self, key: str) -> str:
        return self._store.uri(key)

    async def put_if_absent(self, key: str, data: Any) -> None:
        await self._server.call(lambda: self._store.put_if_absent(key, data))

    async def get(self, key: str, *, start: int = 0, end: int | None = None) -> bytes:
        return await self._server.call(lambda: self._store.get(key, start=start, end=end))

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        async def collect() -> Sequence[ObjectInfo]:
            return [info async for info in self._store.list(prefix)]

        for info in await self._server.call(collect):
            yield info

    async def delete(self, keys: Sequence[str]) -> None:
        await self._server.call(lambda: self._store.delete(keys))


class CatalogDoor(Catalog):
    """A catalog service as one process reaches it."""

    def __init__(self, server: Server, catalog: Catalog) -> None:
        self._server, self._catalog = server, catalog

    async def load(self, ident: str) -> LoadedTable:
        return await self._server.call(lambda: self._catalog.load(ident))

    async def create(self, ident: str, table: CreateTable) -> LoadedTable:
        return await self._server.call(lambda: self._catalog.create(ident, table))

    async def commit(self, ident: str, base: LoadedTable, requirements: Any, updates: Any) -> LoadedTable:
        return await self._server.call(lambda: self._catalog.commit(ident, base, requirements, updates))

    async def list(self, namespace: str) -> tuple[str, ...]:
        return await self._server.call(lambda: self._catalog.list(namespace))

    async def drop(self, ident: str) -> None:
        await self._server.call(lambda: self._catalog.drop(ident))


class PointersDoor:
    """The pointers of an embedded catalog (its SQL database, say) as one process reaches them, with lost answers."""

    def __init__(self, server: Server, pointers: Any) -> None:
        self._server, self._pointers = server, pointers

    async def read(self, ident: str) -> str | None:
        return await self._server.call(lambda: self._pointers.read(ident))

    async def swap(self, ident: str, old: str | None, new: str, table: Any) -> bool:
        return await self._server.call(lambda: self._pointers.swap(ident, old, new, table))

    async def names(self, namespace: str) -> tuple[str, ...]:
        return await self._server.call(lambda: self._pointers.names(namespace))

    async def forget(self, ident: str) -> bool:
        return await self._server.call(lambda: self._pointers.forget(ident))
