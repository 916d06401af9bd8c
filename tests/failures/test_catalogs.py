"""F64–F67: catalogs, authentication, credentials. Real HTTP on loopback against the strict double where the protocol matters."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.failures.registry import Case, Naive, Planted, failure, must
from tests.simulation.loop import run_virtual
from tests.standins.rest_catalog import RestCatalogDouble
from tests.unit.catalogs.restrig import RULES, rigged, with_double
from tests.unit.catalogs.rig import assert_exactly_once, offsets
from tests.unit.catalogs.test_table_objects import Bucket
from tests.unit.catalogs.test_table_objects import World as Vending

from frazil.catalogs import write as catalog_write
from frazil.catalogs.commit import Committed
from frazil.catalogs.rest import answers, client
from frazil.kit.errors import Conflict, FrazilError, Missing, OutcomeUnknown, Refused, RetryLater


def lands(work: Callable[[RestCatalogDouble], Awaitable[None]]) -> Callable[[RestCatalogDouble], Awaitable[None]]:
    """``work``, in which a refusal is the end of landing."""

    async def run(double: RestCatalogDouble) -> None:
        try:
            await work(double)
        except (FrazilError, TimeoutError) as error:
            must(False, "LIVE", f"{type(error).__name__}: {error}")

    return run


# --- F64 --------------------------------------------------------------------------------------------------------------


def only_401(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(answers, "_UNAUTHORIZED", frozenset({401}))
    patch.setattr(answers, "_ENDED", re.compile("$^"))


@failure(
    "F64",
    title="The catalog's token ends",
    others="know one status code for it, and renew only after a success",
    promise="401, 419 and a 403 that speaks of the token sign in anew and send the request once more; a bad secret is said with the word"
    " credential, and never shown",
    prevented=("frazil.catalogs.rest.auth:ClientCredentials", "frazil.catalogs.rest.client:RestClient"),
    wrong=Planted("only 401 means that the token has ended", only_401),
)
def test_f64_an_ended_token_is_renewed(case: Case) -> None:
    async def work(double: RestCatalogDouble) -> None:
        async with rigged(double) as rig:
            end = 0
            for status in (401, 419, 403):
                double.say(status, "the access token has expired")
                end += 10
                async with asyncio.timeout(10):
                    await rig.land(end)
            assert_exactly_once(await rig.table(), end)

    with_double(case.path, lands(work))


# --- F65 --------------------------------------------------------------------------------------------------------------


def frozen(world: Vending) -> Any:
    """The keys of the table's load, in a client that is made once."""
    return Bucket(world, "s3://lake", {"s3.access-key-id": "a.t-0"})


def renewed(world: Vending) -> Any:
    return Renewed(world)


class Renewed:
    """Our store, asked as a bucket is."""

    def __init__(self, world: Vending) -> None:
        self._store = world.store

    async def put_if_absent(self, key: str, data: bytes) -> None:
        await self._store.put_if_absent(f"s3://lake/{key}", data)


@failure(
    "F65",
    title="Vended credentials end in the middle of the work",
    others="take credentials once, when a table is loaded",
    promise="keys are renewed before they end and after a store refused them; one asks for all, and the upload goes on",
    prevented=("frazil.catalogs.tablestore:TableObjects", "frazil.catalogs.rest.vended:accesses_of"),
    wrong=Naive("the keys of the table's load are used for ever", frozen, renewed),
)
def test_f65_keys_are_renewed(case: Case) -> None:
    async def run() -> None:
        world = Vending(life_s=60.0)
        world.vend("a.t")
        store = case.way(world)
        try:
            for number in range(12):
                await store.put_if_absent(f"a/t/data/{number}", b"x")
                await asyncio.sleep(50)
        except (FrazilError, TypeError) as error:
            must(False, "LIVE", error)
        must(len(world.objects) == 12, "EO", f"{len(world.objects)} of 12 files")

    run_virtual(run())


# --- F66 --------------------------------------------------------------------------------------------------------------


def status_decides(patch: pytest.MonkeyPatch) -> None:
    def by_status(answer: Any, what: str, **_: Any) -> FrazilError:
        if answer.status == 409:
            return Conflict(what)
        if answer.status == 404:
            return Missing(what)
        return RetryLater(what, after_ms=0) if answer.status >= 429 else Refused(what)

    patch.setattr(answers, "error_of", by_status)
    patch.setattr(client, "error_of", by_status)


@failure(
    "F66",
    title="Answers of the catalog in the wrong class",
    others="trust one status code: a conflict kills the job, a server error counts as not applied, a throttle is hammered",
    promise="conflict, throttle, unknown and fatal are told apart (docs/catalogs.md), what is not sure by a look at the table; Retry-After"
    " holds all requests",
    prevented=("frazil.catalogs.rest.answers:error_of", "frazil.catalogs.commit:Committer"),
    wrong=Planted("the status decides alone: 5xx is not applied, 429 may be tried at once", status_decides),
)
def test_f66_each_answer_has_its_class(case: Case) -> None:
    async def work(double: RestCatalogDouble) -> None:
        async with rigged(double) as rig, rigged(double, seed=9) as other:
            await rig.land(10)
            base = await rig.table()
            await other.land(20, partition=1)
            double.script("400")  # Polaris sent conflicts as 400
            must(isinstance(await rig.land_once(20, base=base), Committed), "LIVE", "a conflict sent as 400 is found out by looking")
            table = await rig.table()
            double.script("429(1)")
            update = [{"action": "set-properties", "updates": {"one": "1"}}]
            with pytest.raises(RetryLater):
                await rig.inner.commit("lake.events", table, [], update)
            asked = len(double.seen)
            for _ in range(3):
                try:
                    await rig.table()
                except RetryLater:
                    continue
            must(len(double.seen) == asked, "RULE", "requests before the time that Retry-After named")
            await asyncio.sleep(1)
            double.script("500/a")
            try:
                await rig.inner.commit("lake.events", await rig.table(), [], update)
            except OutcomeUnknown:
                pass
            except RetryLater:
                must(False, "RULE", "a server error after a change counts as not applied")
            must(offsets(await rig.table()) == list(range(20)), "EO")

    with_double(case.path, lands(work))


# --- F67 --------------------------------------------------------------------------------------------------------------


def assume_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(catalog_write, "check_writable", lambda table: None)


@failure(
    "F67",
    title="Location and capability rules of Polaris and Unity",
    others="pick paths themselves, assume all endpoints, and upload before they know whether they may commit",
    promise="paths are below the location that the catalog chose; a catalog without the commit endpoint is refused, with the reason,"
    " before any upload",
    prevented=(
        "frazil.catalogs.write:FileWriter",
        "frazil.catalogs.metadata_json:check_writable",
        "frazil.catalogs.kinds.rest:RestCatalog",
    ),
    wrong=Planted("what the catalog says about its endpoints is not looked at", assume_all),
)
def test_f67_a_read_only_catalog_leaves_nothing_behind(case: Case) -> None:
    warehouse = case.path / "warehouse"

    async def work(double: RestCatalogDouble) -> None:
        async with rigged(double) as rig:
            await rig.land(10)
        there = sorted(warehouse.rglob("*"))
        double.rules = replace(double.rules, read_only=True)
        async with rigged(double, seed=5) as rig:
            try:
                await rig.land(20)
            except Refused as error:
                must("read-only for Iceberg clients" in str(error), "LOUD", error)
        must(sorted(warehouse.rglob("*")) == there, "BOUND", "a data object is left behind")

    with_double(case.path, work, replace(RULES, inside=True))
