"""The client table: every client through every step of the flow, and the broker's log afterwards.

python -m tests.compat.full [--records 100000] [--clients librdkafka,kcat]

Writes docs/results/clients.json with its commit and prints the table.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from tests.compat import builds, flow
from tests.compat.clients import aio, java, kafka_python, kcat, librdkafka
from tests.compat.process import Processes

RESULTS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "results" / "clients.json"
CLIENTS = (librdkafka.PLAIN, librdkafka.IDEMPOTENT, kafka_python.CLIENT, aio.CLIENT, kcat.CLIENT, java.CLIENT)


def missing(client: flow.Client) -> str:
    """Why this client cannot run here; empty if it can."""
    if client is kcat.CLIENT and not kcat.HERE:
        return "kcat is not installed"
    try:
        if client is java.CLIENT:
            builds.java()
    except builds.CannotBuild as error:
        return str(error)
    return ""


def take(client: flow.Client, bootstrap: str, records: int) -> flow.Outcome:
    """One client through the flow; a failed step is written down, not raised."""
    name = client.name.replace(" ", "-").replace(".", "-").lower()
    outcome = flow.Outcome(client.name)
    try:
        flow.run(client, flow.Plan(bootstrap, f"flow-{name}", f"group-{name}", records=records), outcome)
    except Exception as error:
        step = next((step for step in flow.STEPS if step not in outcome.steps), flow.STEPS[-1])
        outcome.steps[step] = f"FAILED: {type(error).__name__}: {str(error)[:300]}"
    return outcome


def print_table(outcomes: list[flow.Outcome]) -> None:
    print(f"{'client':<24}" + "".join(f"{step:<26}" for step in flow.STEPS) + f"{'lost':>5}{'doubled':>9}{'disordered':>12}")
    for o in outcomes:
        print(
            f"{o.client:<24}"
            + "".join(f"{o.steps.get(step, '-')[:25]:<26}" for step in flow.STEPS)
            + f"{o.lost:>5}{o.doubled:>9}{o.disordered:>12}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--clients", default="", help="only clients whose name contains one of these words")
    options = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    wanted = [word for word in options.clients.lower().split(",") if word]
    outcomes: list[flow.Outcome] = []
    with tempfile.TemporaryDirectory() as directory, Processes(pathlib.Path(directory)) as processes:
        processes.start("broker")
        for client in CLIENTS:
            if wanted and not any(word in client.name.lower() for word in wanted):
                continue
            if why := missing(client):
                print(f"{client.name}: left out, {why}", flush=True)
                continue
            outcomes.append(take(client, processes.bootstrap, options.records))
        rss = processes.rss_bytes("broker", highest=True)
    print_table(outcomes)
    rows = [
        {
            "client": o.client, "records": options.records, "steps": o.steps, "seconds": round(o.seconds, 1), "produced": o.produced,
            "consumed_first_session": o.first_session, "consumed_second_session": o.second_session,
            "lost": o.lost, "doubled": o.doubled, "out_of_order": o.disordered,
        }
        for o in outcomes
    ]  # fmt: skip
    command = f"python -m tests.compat.full --records {options.records}"
    if not wanted:
        result = {"commit": commit, "command": command, "broker_rss_max_bytes": rss, "clients": rows}
        RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(o.good for o in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
