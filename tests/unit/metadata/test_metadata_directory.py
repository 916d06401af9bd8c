from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from frazil.kit.errors import Refused
from frazil.metadata.directory import LockedDirectory, network_filesystem

HOLD = (
    "import pathlib, sys, time; from frazil.metadata.directory import LockedDirectory;"
    "lock = LockedDirectory(pathlib.Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
)


def test_a_directory_has_one_owner_and_the_second_learns_who_it_is(tmp_path: pathlib.Path) -> None:
    with LockedDirectory(tmp_path / "data") as held:
        assert held.directory == tmp_path / "data"
        with pytest.raises(Refused, match=rf"{tmp_path}/data is in use by process {os.getpid()}\b"):
            LockedDirectory(tmp_path / "data")
        with LockedDirectory(tmp_path / "other"):
            pass
    with LockedDirectory(tmp_path / "data") as again:
        again.release()
        again.release()


def test_the_lock_ends_with_a_killed_process(tmp_path: pathlib.Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    with pytest.raises(Refused, match=f"process {process.pid};"):
        LockedDirectory(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    with LockedDirectory(tmp_path):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_a_place_that_cannot_be_a_directory_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Refused):
        LockedDirectory(tmp_path / "file")


MOUNTS = r"""
/dev/vda / ext4 rw 0 0
server:/x /mnt/nfs nfs4 rw 0 0
server:/y /mnt/with\040space nfs rw 0 0
me@host: /mnt/ssh fuse.sshfs rw 0 0
/dev/vdb /mnt/nfs/local xfs rw 0 0
tmpfs /tmp tmpfs rw 0 0
overmounted / overlay rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/frazil", None),
        ("/mnt/nfs", "nfs4"),
        ("/mnt/nfs/a/b", "nfs4"),
        ("/mnt/nfs-not", None),
        ("/mnt/nfs/local/a", None),
        ("/mnt/with space/a", "nfs"),
        ("/mnt/ssh/a", "fuse.sshfs"),
        ("/tmp/a", None),
    ],
)
def test_r20_network_file_systems_are_known(path: str, kind: str | None) -> None:
    assert network_filesystem(pathlib.Path(path), MOUNTS) == kind


def test_r20_metadata_on_a_network_file_system_is_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from frazil.kit.clock import SystemClock
    from frazil.metadata.stores.sqlite import SqliteMetadata

    monkeypatch.setattr(pathlib.Path, "read_text", lambda self, **_: f"server:/x {tmp_path} nfs4 rw 0 0\n")
    with pytest.raises(Refused, match="network file system \\(nfs4\\)"):
        SqliteMetadata(tmp_path / "m.db", SystemClock())
    assert not (tmp_path / "m.db").exists()
