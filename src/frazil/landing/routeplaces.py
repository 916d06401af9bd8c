"""The tables a route has, with the claims that make them last (``metadata.routes``), and the values that cannot have one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from frazil.landing.lake import within
from frazil.landing.routing import Places, Route
from frazil.landing.settings import LandingDeps, LandingSettings
from frazil.metadata.landings import LandingSpec, dead_table
from frazil.metadata.routes import RouteTable, claim_table, list_route_tables

_TOLD_MAX: Final = 3


class RoutePlaces:
    """``places`` answers; here it learns."""

    def __init__(self, spec: LandingSpec, route: Route, deps: LandingDeps, settings: LandingSettings, taken: Callable[[str], str]) -> None:
        """``taken``: from a table to who else has it, empty: nobody."""
        self.route = route
        self.places = Places(route=route, home=dead_table(spec.table), taken=taken)
        self._name = deps.label + spec.table
        self._store = deps.store
        self._deadline_ms = settings.call_deadline_ms
        self._loaded = False
        self._refused: dict[str, str] = {}

    @property
    def values(self) -> dict[str, str | None]:
        """Table → the value that it is named for."""
        return self.places.claims

    async def load(self) -> None:
        """The claims of earlier lives. Raises RetryLater."""
        if self._loaded:
            return
        for claim in await within(list_route_tables(self._store, self._name), self._deadline_ms, "reading a route's tables"):
            self.places.claim(claim.table, claim.value)
        self._loaded = True

    async def claim(self, values: Sequence[str]) -> None:
        """Claims the tables of values that have none yet. Raises RetryLater."""
        for value in (*values, None):
            place = self.places.find(value)
            if place.code and value is not None:
                self._note(value, place.code, place.why)
            if place.table and place.table not in self.places.claims:
                wanted = RouteTable(route=self._name, table=place.table, value=place.value)
                held = await within(claim_table(self._store, wanted), self._deadline_ms, "claiming a route's table")
                self.places.claim(held.table, held.value)

    def refusals(self) -> tuple[str, ...]:
        """Values whose records are dead letters because they cannot have a table, some of them."""
        told = list(self._refused.values())[:_TOLD_MAX]
        more = len(self._refused) - len(told)
        return (*told, *((f"and {more} more values without a table",) if more > 0 else ()))

    def _note(self, value: str, code: str, why: str) -> None:
        if code in ("route-collision", "route-reserved", "route-tables-max", "route-name") and len(self._refused) < self.route.tables_max:
            self._refused[value] = f"{why}; its records are dead letters"
