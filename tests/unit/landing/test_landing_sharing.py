"""Landing processes that share tables by claims: even parts, nobody's table is nobody's, exactly once through every change of hands."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from tests.simulation.loop import run_virtual
from tests.unit.landing.world import World, auto_off

from frazil.kit.tasks import spawn
from frazil.landing.sharing import plan_shares
from frazil.metadata.claims import Claim, Claims, claim_tables, read_claims
from frazil.metadata.landings import LandingSpec, put_landing

TABLES = [f"lake.t{at}" for at in range(6)]


@given(
    st.integers(min_value=0, max_value=23),
    st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=7, unique=True),
    st.lists(st.sampled_from("abcdefgh"), max_size=23),
    st.randoms(use_true_random=False),
)
def test_parts_become_even_and_stay_so_from_any_claims(count: int, processes: list[str], owners: list[str], chance: object) -> None:
    tables = [f"t{at}" for at in range(count)]
    held = {table: owner for table, owner in zip(tables, owners, strict=False) if owner in processes}
    for _ in range(4 * count + 4):
        for process in processes:
            claims = Claims(processes=tuple(processes), claims=tuple(Claim(table=table, process=owner) for table, owner in held.items()))
            shares = plan_shares(tables, claims, process)
            for table in shares.give_back:
                assert held.pop(table) == process
            held |= dict.fromkeys(shares.claim, process)
    counts = Counter(held.values())
    assert len(held) == count
    parts = [counts[process] for process in processes]
    assert max(parts) - min(parts) <= 1
    settled = Claims(processes=tuple(processes), claims=tuple(Claim(table=table, process=owner) for table, owner in held.items()))
    for process in processes:
        found = plan_shares(tables, settled, process)
        assert not found.give_back
        assert not found.claim


def test_two_claim_one_table_and_one_has_it() -> None:
    async def work() -> None:
        world = World()
        leases = [await world.store.grant_lease(10_000) for _ in "ab"]
        found = [await claim_tables(world.store, ["lake.x"], name, lease=lease) for name, lease in zip("ab", leases, strict=True)]
        assert found == [("lake.x",), ()]
        assert await claim_tables(world.store, ["lake.x"], "a", lease=leases[0]) == ("lake.x",), "told again after a lost answer"

    run_virtual(work())


async def _set_up(world: World) -> None:
    for at, table in enumerate(TABLES):
        await world.topics.create(f"t{at}", partitions=1)
        await put_landing(world.store, LandingSpec(table=table, topics=(f"t{at}",), commit_interval_ms=1_000))


async def _produce(world: World, first: int, count: int) -> None:
    for at in range(len(TABLES)):
        await world.produce(f"t{at}", [b'{"n": %d}' % number for number in range(first, first + count)])


async def _owners(world: World) -> Counter[str]:
    return Counter(claim.process for claim in (await read_claims(world.store)).claims)


def test_three_processes_take_even_parts_and_the_others_take_over_from_one_that_dies_or_leaves() -> None:
    async def work() -> None:
        world = World()
        await _set_up(world)
        landings = {name: world.landing(auto_off(), share=name) for name in "abc"}
        tasks = {name: spawn(f"landing {name}", landing.run()) for name, landing in landings.items()}
        await _produce(world, 0, 3)
        await asyncio.sleep(8)
        assert await _owners(world) == {"a": 2, "b": 2, "c": 2}
        tasks["a"].cancel()  # dies: nothing is given back, the lease of 3 s runs out
        await _produce(world, 3, 3)
        await asyncio.sleep(12)
        assert await _owners(world) == {"b": 3, "c": 3}
        landings["b"].stop()
        await tasks["b"]
        assert (await _owners(world))["b"] == 0, "a clean end gives its tables back at once"
        await _produce(world, 6, 3)
        await asyncio.sleep(6)
        for table in TABLES:
            assert await world.offsets(table) == list(range(9))
            assert (await world.status(table)).state == "idle"
        landings["c"].stop()
        await tasks["c"]
        await asyncio.gather(*tasks.values(), return_exceptions=True)

    run_virtual(work())


def test_f13_an_owner_that_slept_through_its_lease_does_no_harm() -> None:
    async def work() -> None:
        world = World()
        await _set_up(world)
        sleeper = world.landing(auto_off(), share="a")
        asleep = sleeper._deps.sharing
        mine = asleep.mine
        task = spawn("sleeper", sleeper.run())
        await _produce(world, 0, 3)
        await asyncio.sleep(4)
        found = await mine(TABLES)
        assert found == set(TABLES)

        async def still_mine(_wanted: object) -> frozenset[str]:
            return frozenset(found)

        asleep.mine = still_mine  # type: ignore[method-assign]  # it renews nothing and believes that all is as it was
        other = world.landing(auto_off(), share="b")
        task_b = spawn("other", other.run())
        for first in (3, 6, 9):
            await _produce(world, first, 3)
            await asyncio.sleep(3)
        assert await _owners(world) == {"b": 6}
        asleep.mine = mine  # type: ignore[method-assign]
        await asyncio.sleep(10)
        assert await _owners(world) == {"a": 3, "b": 3}
        for table in TABLES:
            assert await world.offsets(table) == list(range(12))
        sleeper.stop()
        other.stop()
        await asyncio.gather(task, task_b)

    run_virtual(work())
