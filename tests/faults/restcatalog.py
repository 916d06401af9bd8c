"""A REST catalog that misbehaves all the time, real broker and landing processes before it, PyIceberg as the judge.

    python -m tests.faults.restcatalog --decks 20      280 faults, 40 deaths of landing; writes docs/results/rest-catalog.json

A deck is every word of the double that a commit can meet, in random order, each followed by a commit that goes well. Tokens live two
seconds; some loads fail; landing is killed twice per deck.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

from pyiceberg.catalog.rest import RestCatalog as ForeignCatalog
from pyiceberg.exceptions import NoSuchTableError
from tests.faults.readers import LogContent, Position
from tests.faults.results import save
from tests.faults.rig import TABLE, Deployment, Workload, check_log
from tests.standins.rest_catalog import DoubleRules, RestCatalogDouble

WORDS = (
    "409",
    "409/a",
    "429(0)",
    "500/n",
    "500/a",
    "502/a",
    "503(0)",
    "504/n",
    "cut/n",
    "cut/a",
    "garbage/a",
    "late(0.5)",
    "late(2)",
    "401",
)
SECRET = "the-client-secret"
Open = Callable[[], ForeignCatalog]


def positions(open_foreign: Open, table: str, columns: Sequence[str]) -> list[Position]:
    """Positions of all rows by PyIceberg's own client; duplicates stay."""
    try:
        found = open_foreign().load_table(table).scan(selected_fields=tuple(columns)).to_arrow()
    except NoSuchTableError:
        return []
    return sorted(zip(*(found[name].to_pylist() for name in columns), strict=True))


def check_exactly(deployment: Deployment, open_foreign: Open, content: LogContent, *, within_s: float = 40.0) -> None:
    """The table holds the good records of the log, its dead letters the bad ones, each once."""
    good = sorted(at for at, value in content.values.items() if not value.startswith(b"not json"))
    bad = sorted(at for at, value in content.values.items() if value.startswith(b"not json"))
    end = time.monotonic() + within_s
    while True:
        rows = positions(open_foreign, TABLE, ("_kafka_partition", "_offset"))
        letters = positions(open_foreign, f"{TABLE}_dead", ("partition", "offset"))
        if rows == good and letters == bad:
            return
        log = (deployment.directory / "land.log").read_text()[-2500:]
        assert len(rows) <= len(good) and len(letters) <= len(bad), (
            f"doubled: {len(rows)} of {len(good)}, {len(letters)} of {len(bad)}\n{log}"
        )
        assert time.monotonic() < end, f"{len(rows)} of {len(good)} rows, {len(letters)} of {len(bad)} letters\n{log}"
        time.sleep(0.3)


def misbehave(directory: pathlib.Path, *, decks: int, seed: int = 20) -> dict[str, object]:
    """Runs until every word was met; raises when a record is not in the table exactly once."""
    chance = random.Random(seed)
    rules = DoubleRules(client_id="id", client_secret=SECRET, scope="all", token_seconds=2.0, prefix="main", page=1)
    with RestCatalogDouble(directory / "warehouse", rules) as double:
        deployment = Deployment(
            directory / "data",
            settings=(f"catalog.uri={double.uri}", "catalog.scope=all"),
            variables={"FRAZIL_CATALOG_CREDENTIAL": f"id:{SECRET}"},
        )
        try:
            deployment.start("broker")
            deployment.start("land")
            work = Workload(deployment, idempotent=True)
            deaths = sum(_deck(double, deployment, work, chance) for _ in range(decks))
            double.settle()
            content = check_log(deployment, work)
            check_exactly(deployment, lambda: _foreign(double), content)
            said = "".join(path.read_text() for path in deployment.directory.glob("*.log"))
            assert SECRET not in said and "Bearer" not in said
        finally:
            deployment.close()
        met = {seen.status for seen in double.seen if seen.method == "POST" and "/tables/" in seen.path}
        assert {0, 200, 401, 409, 429, 500, 502, 503, 504} <= met, met
        return {
            "faults": decks * len(WORDS),
            "deaths_of_landing": deaths,
            "records": len(content.values),
            "commits": double.commits,
            "late_requests_refused": sum(1 for seen in double.seen if seen.method == "LATE"),
            "sign_ins": sum(1 for seen in double.seen if seen.path.endswith("/oauth/tokens")),
            "lost": 0,
            "doubled": 0,
        }


def _deck(double: RestCatalogDouble, deployment: Deployment, work: Workload, chance: random.Random) -> int:
    deck = list(WORDS)
    chance.shuffle(deck)
    double.script(*(word for fault in deck for word in (fault, "ok")))
    end, kills = time.monotonic() + 180, 2
    while double.faults:
        log = (deployment.directory / "land.log").read_text()[-2000:]
        assert time.monotonic() < end, f"{len(double.faults)} words left\n{log}"
        if not double.load_faults and chance.random() < 0.1:  # one at a time: landing waits longer after each in a row
            double.load_faults.append("500/n")
        work.send(80)
        work.settle()
        if kills and len(double.faults) < 10 * kills:
            kills -= 1
            deployment.processes["land"].kill()
            deployment.processes["land"].wait()
            deployment.start("land")
        time.sleep(0.3)
    double.load_faults.clear()
    return 2 - kills


def _foreign(double: RestCatalogDouble) -> ForeignCatalog:
    properties = {"uri": double.uri, "oauth2-server-uri": f"{double.uri}/v1/oauth/tokens", "credential": f"id:{SECRET}", "scope": "all"}
    return ForeignCatalog("judge", **properties)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decks", type=int, default=20)
    parser.add_argument("--seed", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        result = misbehave(pathlib.Path(directory), decks=options.decks, seed=options.seed)
    save("rest-catalog.json", f"python -m tests.faults.restcatalog --decks {options.decks}", result)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
