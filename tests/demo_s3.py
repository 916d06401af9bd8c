"""The demo on SeaweedFS: S3 for the log, its Iceberg REST catalog for the table, by a settings file only.

    python -m tests.demo_s3 [--result docs/results/demo-s3.json]

Runs ``examples/flights.py`` as it is, then looks for data files outside the bucket: there must be none.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from tests.servers import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, SeaweedFs, running_seaweedfs

ROOT = pathlib.Path(__file__).resolve().parents[1]
DEMO = ROOT / ".demo"
LOCAL = ("metadata.db", "metadata.db-shm", "metadata.db-wal", "lock", "dev.log", "bucket.txt")
"""What may be on the local disk: the metadata store, its lock, and what the demo itself writes down."""
SETTINGS = """\
store:
  objects: s3://{bucket}/{prefix}
s3:
  endpoint: {server.s3}
  region: {region}
  access_key_id: {key}
  secret_access_key: {secret}
  allow_http: true
catalog:
  uri: {server.catalog}
  warehouse: {server.warehouse}
  credential: {key}:{secret}
"""


def settings(server: SeaweedFs) -> str:
    """The settings file."""
    return SETTINGS.format(server=server, bucket=BUCKET, prefix=server.new_prefix(), region=REGION, key=ACCESS_KEY, secret=SECRET_KEY)


def run(server: SeaweedFs, directory: pathlib.Path, *, result: str = "") -> subprocess.CompletedProcess[str]:
    """The demo with its output."""
    config = directory / "frazil.yaml"
    config.write_text(settings(server))
    command = [sys.executable, "examples/flights.py", "--config", str(config), *(["--result", result] if result else [])]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def local_files() -> list[str]:
    """Files under the demo's directory that should not be there."""
    return [str(path.relative_to(DEMO)) for path in sorted(DEMO.rglob("*")) if path.is_file() and path.name not in LOCAL]


def complete(result: pathlib.Path, output: str, strays: list[str]) -> None:
    """Adds what was shown to the figures: the settings as explained, the objects in the buckets, the files beside them."""
    figures = json.loads(result.read_text())
    listed = (DEMO / "bucket.txt").read_text().splitlines()
    figures |= {
        "command": f"python -m tests.demo_s3 --result {result}",
        "objects_in_buckets": len(listed),
        "local_data_files": len(strays),
        "settings": [_told(line) for line in output.partition("\n\n")[0].splitlines()],
        "objects": [" ".join(line.split()) for line in listed if not line.endswith(".kfb")],
    }
    result.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")


def _told(line: str) -> str:
    """Name, value and source of a setting, without the directories of this machine."""
    name, value, source, *_ = re.split(r"\s{2,}", line)
    return f"{name} = {value.replace(f'{ROOT}/', '')} ({pathlib.Path(source).name if source.startswith('/') else source})"


def main() -> int:
    """Exit code 0 when the demo succeeds and leaves no data on the local disk."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--result", default="", help="write the figures to this JSON file")
    given = options.parse_args()
    with running_seaweedfs() as server, tempfile.TemporaryDirectory() as directory:
        done = run(server, pathlib.Path(directory), result=given.result)
    strays = local_files()
    if given.result and done.returncode == 0:
        complete(pathlib.Path(given.result), done.stdout, strays)
    sys.stdout.write(done.stdout + done.stderr)
    listed = (DEMO / "bucket.txt").read_text().splitlines(keepends=True)
    others = [line for line in listed if not line.rstrip().endswith(".kfb")]
    sys.stdout.write(f"\nobjects in the buckets: {len(listed) - len(others)} bundles (see .demo/bucket.txt) and\n{''.join(others)}")
    sys.stdout.write(f"\nlocal data files: {', '.join(strays) or 'none'}\n")
    return 0 if done.returncode == 0 and not strays else 1


if __name__ == "__main__":
    sys.exit(main())
