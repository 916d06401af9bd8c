"""Makes the events, builds the Rust program beside this file and prints what it measures: python -m benchmarks.json_crates"""

from __future__ import annotations

import pathlib
import subprocess
import tempfile

from benchmarks.json_events import KINDS, events_of_bytes

HERE = pathlib.Path(__file__).parent
BYTES = 16_000_000


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        paths = []
        for kind in KINDS:
            path = pathlib.Path(directory) / f"{kind}.json"
            path.write_bytes(b"\n".join(events_of_bytes(kind, BYTES)))
            paths.append(str(path))
        subprocess.run(["cargo", "run", "--quiet", "--release", "--", *paths], check=True, cwd=HERE)


if __name__ == "__main__":
    main()
