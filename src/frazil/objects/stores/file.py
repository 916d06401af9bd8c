"""Objects as files of one directory on a local disk, durable against a power cut (R25).

A put writes a temporary file, fsyncs it, links it to its name (which fails if the name exists), fsyncs the directory and
removes the temporary name. A reader therefore sees all of an object or nothing, and an acknowledged object survives.

Temporary files live in ``{root}/.frazil/half-written/``, locked by their writer; what a dead writer left behind is
removed at the next open. One directory for all of them keeps that sweep independent of the number of objects.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from frazil.kit.errors import Conflict, FrazilError, Missing, OutcomeUnknown, Refused, RetryLater
from frazil.kit.tasks import Offload
from frazil.objects.keys import RESERVED, Data, buffers, check_key, check_prefix
from frazil.objects.opening import ObjectDeps
from frazil.objects.port import ObjectInfo, ObjectStore

MidPut = Callable[[str], None]

_HALF_WRITTEN: Final = f"{RESERVED}/half-written"
_BUFFERS_PER_WRITE: Final = 1024  # IOV_MAX on Linux
_DIRECTORIES_KNOWN_MAX: Final = 65_536
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_PASSING: Final = (errno.EMFILE, errno.ENFILE, errno.EINTR, errno.EAGAIN, errno.ENOMEM, errno.EIO, errno.ESTALE)


@dataclass(frozen=True, slots=True)
class _Found:
    """One directory entry: its full key, or its key with a trailing ``/`` for a directory."""

    key: str
    info: ObjectInfo | None


class FileObjects(ObjectStore):
    """Objects under ``root``. Blocking calls go through ``offload``.

    ``mid_put`` (kill points B2, P2) is called with the key when about half of an object's bytes are written.
    """

    def __init__(self, root: Path, *, offload: Offload, mid_put: MidPut | None = None) -> None:
        """Creates the root if needed and removes what dead writers left. Raises Refused when the directory cannot be used."""
        self._root = root
        self._offload = offload
        self._mid_put = mid_put
        self._half_written = root / _HALF_WRITTEN
        self._numbers = itertools.count()
        self._durable_directories: set[str] = set()
        with _errors(str(root)):
            _make_root(root)
            self._half_written.mkdir(parents=True, exist_ok=True)
            _sweep(self._half_written)

    def uri(self, key: str) -> str:
        """``file:///root/key``, not percent-encoded: Iceberg readers take such paths literally."""
        check_key(key)
        return f"file://{self._root}/{key}"

    async def put_if_absent(self, key: str, data: Data) -> None:
        """See ``ObjectStore.put_if_absent``. A full disk is RetryLater and says so."""
        check_key(key)
        views = buffers(data)
        await self._offload.run(lambda: self._put(key, views))

    async def get(self, key: str, *, start: int = 0, end: int | None = None) -> bytes:
        """See ``ObjectStore.get``."""
        check_key(key)
        if start < 0 or (end is not None and end < start):
            raise Refused(f"object {key}: no byte range [{start}, {end})")
        return await self._offload.run(lambda: self._get(key, start, end))

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        """See ``ObjectStore.list``. Reads one directory at a time; what changes meanwhile may or may not be seen."""
        check_prefix(prefix)
        above = prefix.rpartition("/")[0]
        waiting = [_Found(f"{above}/" if above else "", None)]
        while waiting:
            found = waiting.pop()
            if found.info is not None:
                yield found.info
                continue
            directory = found.key
            entries = await self._offload.run(lambda: self._scan(directory, prefix))  # noqa: B023 - awaited at once
            waiting.extend(reversed(entries))

    async def delete(self, keys: Sequence[str]) -> None:
        """See ``ObjectStore.delete``. Empty directories stay: removing them would race with a put into them."""
        for key in keys:
            check_key(key)
        await self._offload.run(lambda: self._delete(keys))

    def _put(self, key: str, views: Sequence[memoryview]) -> None:
        target = self._root / key
        with _errors(key):
            self._make_directory(target.parent)
            half_written, descriptor = self._begin(key)
            try:
                self._write(descriptor, key, views)
                os.fsync(descriptor)
                self._publish(half_written, target, key)
            finally:
                os.close(descriptor)
                with suppress(OSError):  # the next open sweeps it
                    half_written.unlink()

    def _begin(self, key: str) -> tuple[Path, int]:
        """A new temporary file, locked, so that a sweep by another process leaves it alone."""
        for _ in range(1000):
            path = self._half_written / f"{os.getpid()}-{next(self._numbers)}"
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            except FileExistsError:
                continue  # of a dead process that had our number
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(descriptor).st_nlink == 1:
                    return path, descriptor
            os.close(descriptor)  # a sweep got hold of it between creation and lock
        raise RetryLater(f"object {key}: no temporary file could be made in {self._half_written}")

    def _write(self, descriptor: int, key: str, views: Sequence[memoryview]) -> None:
        if self._mid_put is None:
            _write_all(descriptor, views)
            return
        first, second = _halves(views)
        _write_all(descriptor, first)
        self._mid_put(key)
        _write_all(descriptor, second)

    def _publish(self, half_written: Path, target: Path, key: str) -> None:
        try:
            os.link(half_written, target)
        except FileExistsError as error:
            if target.is_dir():
                raise Refused(f"object {key}: there are objects below {key}/") from error
            # the other writer may have died between link and fsync; whoever relies on the object must find it after a power cut
            _fsync_directory(target.parent)
            raise Conflict(f"object {key} exists") from error
        try:
            _fsync_directory(target.parent)
        except OSError as error:
            raise OutcomeUnknown(f"object {key} is stored, but it is not known whether it survives a power cut: {error}") from error

    def _make_directory(self, directory: Path) -> None:
        """The directory and its parents, each durable in its own parent before anything relies on it."""
        name = str(directory)
        if directory == self._root or name in self._durable_directories:
            return
        self._make_directory(directory.parent)
        with suppress(FileExistsError):
            directory.mkdir()
        _fsync_directory(directory.parent)
        if len(self._durable_directories) >= _DIRECTORIES_KNOWN_MAX:
            self._durable_directories.clear()
        self._durable_directories.add(name)

    def _get(self, key: str, start: int, end: int | None) -> bytes:
        with _errors(key):
            try:
                descriptor = os.open(self._root / key, os.O_RDONLY)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise Missing(f"no object {key}") from error
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise Missing(f"no object {key}: that is a directory")
                return _read(descriptor, start, status.st_size if end is None else min(end, status.st_size))
            finally:
                os.close(descriptor)

    def _scan(self, directory: str, prefix: str) -> Sequence[_Found]:
        """Entries of one directory that are, or may hold, keys with ``prefix``; in key order, so a directory sorts with its ``/``."""
        with _errors(directory or str(self._root)):
            try:
                entries = os.scandir(self._root / directory)
            except (FileNotFoundError, NotADirectoryError):
                return ()
            with entries:
                found = [one for entry in entries if (one := _entry(entry, directory, prefix)) is not None]
        return sorted(found, key=lambda one: one.key)

    def _delete(self, keys: Sequence[str]) -> None:
        touched: set[Path] = set()
        for key in keys:
            with _errors(key), suppress(FileNotFoundError, NotADirectoryError):
                (self._root / key).unlink()
                touched.add((self._root / key).parent)
        for directory in touched:
            with _errors(str(directory)):
                _fsync_directory(directory)


def open_store(url: str, deps: ObjectDeps) -> ObjectStore:
    """The store for ``file:///absolute/path`` (no host, no percent-encoding). Raises Refused."""
    path = url.removeprefix("file://")
    if path == url or not path.startswith("/") or path.strip("/") == "" or "\0" in path:
        raise Refused(f"objects url {url!r}: write file:///absolute/path")
    return FileObjects(Path(os.path.normpath(path)), offload=deps.offload, mid_put=deps.mid_put)


def _entry(entry: os.DirEntry[str], directory: str, prefix: str) -> _Found | None:
    key = f"{directory}{entry.name}"
    try:
        key.encode()
    except UnicodeEncodeError:
        return None  # not a name of ours
    if entry.is_dir(follow_symlinks=False):
        key += "/"
        inside = key.startswith(prefix) or prefix.startswith(key)
        return _Found(key, None) if inside and key != f"{RESERVED}/" else None
    if not key.startswith(prefix) or not entry.is_file(follow_symlinks=False):
        return None
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None  # deleted meanwhile
    return _Found(key, ObjectInfo(key=key, size_bytes=status.st_size, modified_ms=status.st_mtime_ns // 1_000_000))


def _write_all(descriptor: int, views: Sequence[memoryview]) -> None:
    waiting = list(reversed(views))
    while waiting:
        batch = waiting[: -_BUFFERS_PER_WRITE - 1 : -1]
        written = os.writev(descriptor, batch)
        while waiting and written >= len(waiting[-1]):
            written -= len(waiting.pop())
        if written:
            waiting[-1] = waiting[-1][written:]


def _halves(views: Sequence[memoryview]) -> tuple[list[memoryview], list[memoryview]]:
    left = sum(len(view) for view in views) // 2
    first: list[memoryview] = []
    second: list[memoryview] = []
    for view in views:
        first.append(view[:left])
        second.append(view[left:])
        left = max(0, left - len(view))
    return [view for view in first if view], [view for view in second if view]


def _read(descriptor: int, start: int, end: int) -> bytes:
    if end <= start:
        return b""
    data = os.pread(descriptor, end - start, start)
    if len(data) == end - start:
        return data
    parts = [data]
    while data and start < end:  # one read gives at most 2 GiB
        start += len(data)
        data = os.pread(descriptor, end - start, start)
        parts.append(data)
    return b"".join(parts)


def _make_root(directory: Path) -> None:
    if directory.is_dir():
        return
    _make_root(directory.parent)
    directory.mkdir(exist_ok=True)
    _fsync_directory(directory.parent)


def _fsync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sweep(directory: Path) -> None:
    """Removes temporary files whose writer is dead: nobody holds their lock."""
    for path in sorted(directory.iterdir()):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            continue  # its writer has just finished, or it is not a file of ours
        try:
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)


@contextmanager
def _errors(what: str) -> Iterator[None]:
    """Operating system errors as ours. Errors that mean an outcome (missing, exists) are handled where they arise."""
    try:
        yield
    except FrazilError:
        raise
    except OSError as error:
        if error.errno in _FULL:
            raise RetryLater(f"{what}: disk full ({error.strerror}); free space", after_ms=1000) from error
        if error.errno in _PASSING:
            raise RetryLater(f"{what}: {error}", after_ms=200) from error
        if isinstance(error, NotADirectoryError):
            raise Refused(f"{what}: a part of the path is an object, not a directory") from error
        raise Refused(f"{what}: {error}; check the directory and its permissions") from error
