"""The file store: order of fsyncs, what a kill or a full disk leaves, and the URL."""

from __future__ import annotations

import asyncio
import errno
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

from frazil.kit.clock import SystemClock
from frazil.kit.errors import Conflict, OutcomeUnknown, Refused, RetryLater
from frazil.kit.tasks import InlineOffload
from frazil.objects import open_objects
from frazil.objects.stores.file import FileObjects

HALF = ".frazil/half-written"


def store_in(root: pathlib.Path, **options: object) -> FileObjects:
    return FileObjects(root, offload=InlineOffload(), **options)  # type: ignore[arg-type] # test options


async def keys(store: FileObjects) -> list[str]:
    return [info.key async for info in store.list("")]


class Trace:
    """The durable steps of the store in order, with paths relative to the root."""

    def __init__(self, root: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[str] = []
        self._root = root
        real = {name: getattr(os, name) for name in ("fsync", "link", "mkdir", "writev", "unlink")}

        def fsync(descriptor: int) -> None:
            self.note("fsync", os.readlink(f"/proc/self/fd/{descriptor}"))
            real["fsync"](descriptor)

        def writev(descriptor: int, parts: list[memoryview]) -> int:
            self.note("write", os.readlink(f"/proc/self/fd/{descriptor}"))
            written: int = real["writev"](descriptor, parts)
            return written

        def named(step: str, name: str) -> object:
            def call(*paths: object, **options: object) -> None:
                self.note(step, os.fspath(paths[-1] if step == "link" else paths[0]))  # type: ignore[call-overload] # paths
                real[name](*paths, **options)

            return call

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(os, "writev", writev)
        for step, name in (("link", "link"), ("mkdir", "mkdir"), ("unlink", "unlink")):
            monkeypatch.setattr(os, name, named(step, name))

    def note(self, step: str, path: str) -> None:
        name = os.path.relpath(path, self._root)
        self.steps.append(f"{step} {'TEMP' if name.startswith(HALF) else name}")


def test_r25_a_put_is_durable_before_it_is_acknowledged(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        store = store_in(tmp_path)
        trace = Trace(tmp_path, monkeypatch)
        await store.put_if_absent("a/b/c", b"data")
        assert trace.steps == [
            "mkdir a", "fsync .", "mkdir a/b", "fsync a",  # a new directory is durable in its parent
            "write TEMP", "fsync TEMP", "link a/b/c", "fsync a/b", "unlink TEMP",
        ]  # fmt: skip
        trace.steps.clear()
        await store.put_if_absent("a/b/d", b"data")
        assert trace.steps == ["write TEMP", "fsync TEMP", "link a/b/d", "fsync a/b", "unlink TEMP"]

    asyncio.run(main())


def test_r25_another_handle_makes_directories_durable_again(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that made them may have died before its fsync."""

    async def main() -> None:
        await store_in(tmp_path).put_if_absent("a/b/c", b"data")
        second = store_in(tmp_path)
        trace = Trace(tmp_path, monkeypatch)
        await second.put_if_absent("a/b/d", b"data")
        assert [step for step in trace.steps if step.startswith("fsync")] == ["fsync .", "fsync a", "fsync TEMP", "fsync a/b"]

    asyncio.run(main())


def test_r25_an_object_found_there_is_made_durable_before_conflict_says_so(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        store = store_in(tmp_path)
        await store.put_if_absent("a/b", b"data")
        trace = Trace(tmp_path, monkeypatch)
        with pytest.raises(Conflict):
            await store.put_if_absent("a/b", b"data")
        assert "fsync a" in trace.steps[trace.steps.index("link a/b") :]

    asyncio.run(main())


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_r25_the_kernel_sees_the_same_order(tmp_path: pathlib.Path) -> None:
    program = (
        "import asyncio, pathlib, sys\n"
        "from frazil.kit.tasks import InlineOffload\n"
        "from frazil.objects.stores.file import FileObjects\n"
        "store = FileObjects(pathlib.Path(sys.argv[1]), offload=InlineOffload())\n"
        "asyncio.run(store.put_if_absent('a/b', b'x' * 100000))\n"
    )
    log = tmp_path / "strace"
    traced = ["strace", "-y", "-e", "trace=fsync,fdatasync,link,linkat,writev", "-o", str(log), sys.executable, "-c", program]
    done = subprocess.run([*traced, str(tmp_path / "objects")], check=False, capture_output=True)
    if not log.exists() or "writev" not in log.read_text():
        pytest.skip(f"strace may not trace here: {done.stderr.decode()[-200:]}")
    calls = [line.split("(")[0] + (" TEMP" if HALF in line else "") for line in log.read_text().splitlines() if "objects" in line]
    assert calls[-4:] == ["writev TEMP", "fsync TEMP", "link TEMP", "fsync"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("call", ["writev", "fsync", "link"])
def test_r35_a_full_disk_is_said_and_leaves_nothing(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int) -> None:
    async def main() -> None:
        store = store_in(tmp_path)
        await store.put_if_absent("a/b", b"before")

        def full(*_: object) -> None:
            raise OSError(code, os.strerror(code))

        with monkeypatch.context() as broken:
            broken.setattr(os, call, full)
            with pytest.raises(RetryLater, match="disk full") as caught:
                await store.put_if_absent("a/c", b"data")
            assert not isinstance(caught.value, OutcomeUnknown)
            assert await store.get("a/b") == b"before"
        assert await keys(store) == ["a/b"]
        assert list((tmp_path / HALF).iterdir()) == []
        await store.put_if_absent("a/c", b"data")

    asyncio.run(main())


def test_a_failed_directory_fsync_leaves_the_outcome_open(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        store = store_in(tmp_path)
        await store.put_if_absent("a/b", b"")
        real = os.fsync

        def fsync(descriptor: int) -> None:
            if os.readlink(f"/proc/self/fd/{descriptor}").endswith("/a"):
                raise OSError(errno.EIO, "no")
            real(descriptor)

        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", fsync)
            with pytest.raises(OutcomeUnknown):
                await store.put_if_absent("a/c", b"data")
        assert await store.get("a/c") == b"data"

    asyncio.run(main())


def test_short_writes_are_continued(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        store = store_in(tmp_path)
        real = os.write
        monkeypatch.setattr(os, "writev", lambda descriptor, parts: real(descriptor, bytes(parts[0])[:3]))
        await store.put_if_absent("a", [b"0123456", b"", b"78", b"9"])
        assert await store.get("a") == b"0123456789"

    asyncio.run(main())


KILLED = """
import asyncio, os, pathlib, signal, sys
from frazil.kit.tasks import InlineOffload
from frazil.objects.stores.file import FileObjects
kill = lambda key: os.kill(os.getpid(), signal.SIGKILL)
store = FileObjects(pathlib.Path(sys.argv[1]), offload=InlineOffload(), mid_put=kill)
asyncio.run(store.put_if_absent("bundles/aa/one", [b"x" * 5000, b"y" * 5000]))
"""


def test_r25_kill_9_in_the_middle_of_a_put_leaves_nothing_visible(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        store = store_in(tmp_path)
        killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
        assert killed.returncode == -signal.SIGKILL
        (left,) = (tmp_path / HALF).iterdir()
        assert left.stat().st_size == 5000  # it did die half way
        assert await keys(store) == []
        await store.put_if_absent("bundles/aa/one", b"new")
        store_in(tmp_path)  # the next open sweeps
        assert list((tmp_path / HALF).iterdir()) == []
        assert await store.get("bundles/aa/one") == b"new"

    asyncio.run(main())


def test_the_sweep_leaves_a_living_writer_alone(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        seen: list[list[str]] = []

        def open_another(key: str) -> None:
            store_in(tmp_path)
            seen.append([path.name for path in (tmp_path / HALF).iterdir()])

        store = store_in(tmp_path, mid_put=open_another)
        await store.put_if_absent("a", b"0123456789")
        assert [len(names) for names in seen] == [1]
        assert await store.get("a") == b"0123456789"

    asyncio.run(main())


def test_mid_put_comes_after_half_of_the_bytes(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        sizes: list[tuple[str, int]] = []

        def look(key: str) -> None:
            (half,) = (tmp_path / HALF).iterdir()
            sizes.append((key, half.stat().st_size))

        store = store_in(tmp_path, mid_put=look)
        await store.put_if_absent("a", [b"x" * 10, b"y" * 90, b"z" * 100])
        await store.put_if_absent("b", b"")
        assert sizes == [("a", 100), ("b", 0)]
        assert len(await store.get("a")) == 200

    asyncio.run(main())


def test_a_stop_in_the_middle_by_an_exception_leaves_nothing(tmp_path: pathlib.Path) -> None:
    class Stopped(Exception):
        pass

    def stop(key: str) -> None:
        raise Stopped

    async def main() -> None:
        store = store_in(tmp_path, mid_put=stop)
        with pytest.raises(Stopped):
            await store.put_if_absent("a", b"data")
        assert await keys(store) == []

    asyncio.run(main())


def test_an_object_cannot_be_a_directory_of_another(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        store = store_in(tmp_path)
        await store.put_if_absent("a/b", b"")
        with pytest.raises(Refused):
            await store.put_if_absent("a", b"")
        with pytest.raises(Refused):
            await store.put_if_absent("a/b/c", b"")

    asyncio.run(main())


def test_links_and_foreign_names_are_not_objects(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        store = store_in(tmp_path / "objects")
        await store.put_if_absent("a", b"")
        (tmp_path / "secret").mkdir()
        (tmp_path / "secret" / "x").write_bytes(b"x")
        (tmp_path / "objects" / "link").symlink_to(tmp_path / "secret")
        (tmp_path / "objects" / os.fsdecode(b"\xff")).write_bytes(b"")
        assert await keys(store) == ["a"]

    asyncio.run(main())


def test_uri_is_the_path_as_it_is(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        store = open_objects(f"file://{tmp_path}/o b", offload=InlineOffload(), clock=SystemClock())
        await store.put_if_absent("t!2/é x", b"data")
        uri = store.uri("t!2/é x")
        assert uri == f"file://{tmp_path}/o b/t!2/é x"
        assert pathlib.Path(uri.removeprefix("file://")).read_bytes() == b"data"

    asyncio.run(main())


@pytest.mark.parametrize("url", ["file:", "file:///", "file://host/x", "file:x", "nothing", ":x", "memory:///x", "ftp://x"])
def test_urls_that_cannot_be_are_refused(url: str) -> None:
    with pytest.raises(Refused):
        open_objects(url, offload=InlineOffload(), clock=SystemClock())


def test_a_place_that_cannot_be_used_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Refused):
        store_in(tmp_path / "file" / "below")
