"""The local data directory: on a disk of this machine, and used by one owner at a time."""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from frazil.kit.errors import Refused

_NETWORK: Final = re.compile(r"nfs[34]?|cifs|smb[23]?|smbfs|ncpfs|afs|ceph|lustre|gpfs|glusterfs|beegfs|orangefs|pvfs2|ocfs2|gfs2|davfs")
_NETWORK_FUSE: Final = re.compile(r"fuse\.(sshfs|s3fs|goofys|mount-s3|gcsfuse|blobfuse2?|rclone|glusterfs|ceph|juicefs|cephfs|davfs2?)")


def network_filesystem(path: Path, mounts: str) -> str | None:
    """The type of the network file system that ``path`` (absolute, symlinks resolved) is on, or None when it is a local one.

    ``mounts`` is the text of ``/proc/mounts``. File locks and shared memory, which SQLite's WAL needs, work on local disks only.
    """
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[1])
        if path.is_relative_to(point) and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind if _NETWORK.fullmatch(kind) or _NETWORK_FUSE.fullmatch(kind) else None


def refuse_network_filesystem(path: Path) -> None:
    """Raises Refused when ``path`` is on a network file system. Knows nothing, and allows all, where there is no ``/proc/mounts``."""
    mounts = ""
    with suppress(OSError):
        mounts = Path("/proc/mounts").read_text(errors="surrogateescape")
    kind = network_filesystem(path.resolve(), mounts)
    if kind is not None:
        raise Refused(
            f"{path} is on a network file system ({kind}), where file locks and shared memory cannot be relied on. "
            "Put it on a local disk, or use a metadata server"
        )


class LockedDirectory:
    """Exclusive use of a directory: a lock on ``{directory}/lock`` that ends with the process, however it ends."""

    def __init__(self, directory: Path) -> None:
        """Makes the directory if needed. Raises Refused, naming the holder's process, when it is in use."""
        self.directory = directory
        lock = directory / "lock"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise Refused(f"cannot use {directory} as data directory: {error}") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(self._descriptor, 20, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._descriptor)
            raise Refused(f"{directory} is in use by process {holder}; stop it, or choose another data directory") from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Gives the directory free; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> LockedDirectory:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release()
