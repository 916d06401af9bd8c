"""A run of the fault matrix on a route: one topic into three tables by a field; every record is in one of them, or a dead letter, once."""

from __future__ import annotations

from collections import Counter

from tests.faults.onecell import TABLE, Cell

from frazil.metadata.landings import LandingSpec, put_landing

KINDS = ("a", "b", "c")


class RouteCell(Cell):
    """Records of three kinds, and poison."""

    async def set_up(self) -> None:
        """See ``Cell``."""
        await super().set_up()
        options = {"route": "field:kind", "route.table": "default.of_{}"}
        spec = LandingSpec(table=TABLE, topics=("t",), options=options, commit_interval_ms=self.settings.commit_interval_ms)
        await put_landing(self.world.store, spec)

    def values(self, partition: int, count: int) -> list[bytes | None]:
        """See ``Cell``."""
        return [b'{"n":%d,"kind":"%s"}' % (n, self.chance.choice(KINDS).encode()) for n in range(count)]

    def landed(self) -> int:
        """See ``Cell``."""
        tables = [f"{TABLE}_dead", *(f"default.of_{kind}" for kind in KINDS)]
        return sum(table.total_records() for ident in tables if (table := self.table(ident)) is not None)

    def moved(self) -> int:
        """Records, and the snapshots of the home table, whose mark is the route's progress."""
        home = self.table(f"{TABLE}_dead")
        return self.landed() * 1_000 + (0 if home is None else int(home.metadata["last-sequence-number"]))

    def _rows(self, ident: str, partition: str, offset: str) -> Counter[tuple[int, int]]:
        if ident != TABLE:
            return super()._rows(ident, partition, offset)
        found: Counter[tuple[int, int]] = Counter()
        for kind in KINDS:
            found.update(super()._rows(f"default.of_{kind}", partition, offset))
        return found
