"""One way of landing values for the entries about types: ours, through log, landing and catalog; naive ones have the same answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.failures.stories import TABLE, looked_at, play
from tests.unit.landing.world import World, auto_off

from frazil.catalogs.schema import to_arrow
from frazil.metadata.landings import LandingSpec, put_landing
from frazil.schemas.ddl import describe


@dataclass(slots=True, kw_only=True)
class Landed:
    """What became of values: rows in order of their offsets, dead letters by offset and code, columns as declarations."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    dead: list[tuple[int, str]] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    stopped: bool = False
    """A sink that crashed, and would again."""

    def column(self, name: str) -> list[Any]:
        return [row.get(name) for row in self.rows]

    def values(self) -> list[dict[str, Any]]:
        """The rows without what is null."""
        return [{name: value for name, value in row.items() if value is not None} for row in self.rows]


def text(value: Any) -> bytes | None:
    return value if isinstance(value, bytes | None) else json.dumps(value).encode()


def ours(*slices: Sequence[Any], columns: tuple[str, ...] = (), **options: str) -> Landed:
    """Lands one batch of JSON values after the other, each by a process of its own."""
    found = Landed()

    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        given = {name.replace("__", "."): value for name, value in options.items()}
        await put_landing(world.store, LandingSpec(table=TABLE, topics=("t",), columns=columns, options=given))
        for values in slices:
            await world.produce("t", [text(value) for value in values])
            await world.land(2.5, auto_off())
        await look(world, found)

    play(story)
    return found


async def look(world: World, found: Landed) -> None:
    """Fills ``found`` from the tables, by the independent reader."""
    rows, problems = await looked_at(world, TABLE)
    assert not problems, problems
    letters, _ = await looked_at(world, f"{TABLE}_dead")
    hidden = {"_topic", "_kafka_partition", "_offset", "_timestamp", "_key", "_headers"}
    ordered = sorted(rows, key=lambda row: row["_offset"])
    found.rows = [{name: value for name, value in row.items() if name not in hidden} for row in ordered]
    found.dead = sorted((letter["offset"], letter["code"]) for letter in letters)
    table = await world.catalog().load(TABLE)
    schema = next(one for one in table.metadata["schemas"] if one["schema-id"] == table.metadata["current-schema-id"])
    found.columns = [column for column in describe(to_arrow(schema)) if column.split()[0] not in hidden]
