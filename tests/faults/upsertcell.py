"""A run of the fault matrix on a table with one row per key: what is there at the end is what a replay of the events says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.faults.onecell import SETTINGS, TABLE, Anywhere, Cell, Outcome
from tests.unit.landing.oracle import MergingOracle

from frazil.metadata.landings import LandingSpec, put_landing

WRITES = ("positions", "equality", "copy")


class UpsertCell(Cell):
    """Events are put, changed and deleted under a dozen keys, each in its own partition; old rows go in each of the three ways."""

    settings = replace(SETTINGS, care_interval_ms=4_000)

    def __init__(self, outcome: Outcome, seed: int) -> None:
        super().__init__(outcome, seed)
        self.write = WRITES[seed % len(WRITES)]
        self.wanted: dict[int, int] = {}
        self.count = 0

    async def set_up(self) -> None:
        """See ``Cell``."""
        await super().set_up()
        options = {"mode": "upsert", "upsert.key": "id", "upsert.write": self.write, "envelope": "op:what"}
        spec = LandingSpec(table=TABLE, topics=("t",), columns=("id long", "v long"), metadata_columns=False, options=options)
        await put_landing(self.world.store, replace(spec, commit_interval_ms=self.settings.commit_interval_ms))

    def values(self, partition: int, count: int) -> list[bytes | None]:
        """See ``Cell``."""
        found: list[bytes | None] = []
        for _ in range(count):
            self.count += 1
            key, what = 2 * self.chance.randrange(6) + partition, self.chance.choice("cuud")
            found.append(json.dumps({"id": key, "v": self.count, "what": what}).encode())
        return found

    def appended(self, partition: int, offsets: Sequence[int], values: Sequence[bytes | None]) -> None:
        """See ``Cell``."""
        for offset, value in zip(offsets, values, strict=True):
            if (partition, offset) in self.bad or value is None:
                continue
            event = json.loads(value)
            if event["what"] == "d":
                self.wanted.pop(event["id"], None)
            else:
                self.wanted[event["id"]] = event["v"]

    # --- judges ------------------------------------------------------------------------------------------------------

    def _progress(self) -> dict[int, int]:
        table = self.table(TABLE)
        text = None if table is None else table.metadata.get("properties", {}).get("frazil.progress")
        ends = [] if text is None else [ends for topics in json.loads(text)["next"].values() for ends in topics.values()]
        return dict(enumerate(ends[0])) if ends else {}

    def landed(self) -> int:
        """How far the table is."""
        return sum(end or 0 for end in self._progress().values())

    def complete(self) -> bool:
        """The table is past every record that is one."""
        found = self._progress()
        return all((found.get(partition) or 0) > offset for partition, offset in self.good | self.bad)

    def judge(self) -> None:
        """EO and WHOLE."""
        letters = self._rows(f"{TABLE}_dead", "partition", "offset")
        if set(letters) != self.bad or any(times > 1 for times in letters.values()):
            self.violate("EO", f"dead letters {sorted(letters.elements())[:5]}, not {sorted(self.bad)[:5]}")
        table = self.table(TABLE)
        if table is None:
            self.violate("EO", "there is no table")
            return
        oracle = Everywhere(Anywhere(self.world.bucket.objects))
        try:
            rows = oracle.merged(self.world.pointers._locations[TABLE])
        except (AssertionError, KeyError, TypeError) as error:
            self.violate("WHOLE", repr(error))
            return
        found: dict[int, list[int]] = {}
        for row in rows:
            found.setdefault(row["id"], []).append(row["v"])
        if found != {key: [value] for key, value in self.wanted.items()}:
            wrong = {
                key: (found.get(key), self.wanted.get(key)) for key in {*found, *self.wanted} if found.get(key) != [self.wanted.get(key)]
            }
            self.violate("EO", f"upsert.write={self.write}: rows and events differ: {wrong}")


class Everywhere(MergingOracle):
    """Reads locations of either spelling."""

    def bytes_of(self, location: str) -> Any:
        return self._objects.get(location.removeprefix("memory:///"))[0]
