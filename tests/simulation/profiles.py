"""What a world is like: sizes, settings, and how much goes wrong. Drawn from the seed, or bent to one purpose."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from frazil.kit.delays import NO_DELAY, Delay
from frazil.metadata.faulty import NO_FAULTS as CALM_METADATA
from frazil.metadata.faulty import MetadataFaults
from frazil.objects.faulty import NO_FAULTS as CALM_OBJECTS
from frazil.objects.faulty import ObjectFaults


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Probabilities per call, and mean seconds between the larger misfortunes (0: never)."""

    metadata: MetadataFaults = CALM_METADATA
    objects: ObjectFaults = CALM_OBJECTS
    warehouse_short: float = 0.0
    catalog: dict[str, float] = field(default_factory=dict)
    catalog_load: float = 0.0
    catalog_delay: Delay = NO_DELAY
    kill_s: float = 0.0
    freeze_s: float = 0.0
    freeze_for_s: tuple[float, float] = (0.5, 6.0)
    freeze_points: tuple[str, ...] = ()
    """Stops wait for one of these fault points (empty: they come at any time)."""
    cut_s: float = 0.0
    burst_s: float = 0.0
    """Some seconds in which one process reaches a store only now and then."""
    point_share: float = 0.5
    """Share of kills that wait for a named fault point."""
    clean_share: float = 0.2
    """Share of kills that are clean stops instead."""
    rollback_s: float = 0.0
    """A foreign tool rolls the table back to an older snapshot."""
    skew_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One world."""

    name: str = "drawn"
    brokers: int = 2
    topics: tuple[tuple[str, int], ...] = (("events", 2),)
    landing: bool = True
    landings: int = 1
    """Landing processes at work on the same tables, as when an old one was only thought to be dead."""
    data_grace_ms: int = 25_000
    embedded_catalog: bool = True
    """The catalog is a library in the landing process (SQL); False: a service (REST)."""
    seconds: float = 8.0
    producers: int = 3
    batches: int = 4
    """Per producer and partition."""
    batch_max: int = 3
    consumers: int = 1
    group: bool = False
    bad_share: float = 0.06
    retention_ms: int = 0
    delete_records: bool = False
    """Somebody raises log starts by hand; in worlds without landing only, since that may pass what was not landed."""
    late_topic: bool = False
    """A topic is made while everything runs, and produced to at once."""
    reborn_topic: bool = False
    """A topic is deleted with its records and made anew under the same name."""
    reborn_pause_s: tuple[float, float] = (2.0, 6.0)
    flush_interval_ms: int = 0
    inflight: int = 2
    shards: int = 4
    seal_age_ms: int = 3_000
    grace_ms: int = 4_000
    upkeep: bool = True
    commit_interval_ms: int = 1_000
    fickle: bool = False
    """What the decoder takes for a good value changes with every start of landing."""
    latency_ms: float = 2.0
    faults: Faults = field(default_factory=Faults)
    tight: bool = False
    """Limits are turned down (``tight``), caches, slices and segments are tiny."""
    check_bound: bool = False
    """Wait at the end until nothing is left that should be gone."""
    settle_s: float = 150.0


def _odds(chance: random.Random, most: float) -> float:
    """Nothing, a little, or a lot."""
    return chance.choice((0.0, 0.0, most / 5, most))


def drawn(seed: int) -> Profile:
    """The ordinary worlds: every kind of fault may occur in any mixture."""
    chance = random.Random(f"profile {seed}")
    wild = chance.choice((0.0, 0.3, 1.0, 1.0))
    delays = chance.choice((NO_DELAY, Delay(p50_ms=2, p99_ms=30), Delay(p50_ms=20, p99_ms=400)))
    metadata = MetadataFaults(
        range_delay=delays,
        commit_delay=delays,
        unavailable=wild * _odds(chance, 0.05),
        lost_applied=wild * _odds(chance, 0.15),
        lost_unapplied=wild * _odds(chance, 0.10),
        lost_late=wild * _odds(chance, 0.10),
        late_ms=chance.choice((50.0, 800.0, 4000.0)),
        hint_dropped=wild * _odds(chance, 0.6),
        hint_doubled=wild * _odds(chance, 0.3),
        hint_late=wild * _odds(chance, 0.5),
    )
    puts = chance.choice((NO_DELAY, Delay(p50_ms=5, p99_ms=100), Delay(p50_ms=60, p99_ms=1500)))
    objects = ObjectFaults(
        put_delay=puts,
        get_delay=chance.choice((NO_DELAY, Delay(p50_ms=5, p99_ms=200))),
        list_delay=delays,
        delete_delay=delays,
        s_503=wild * _odds(chance, 0.08),
        s_404=wild * _odds(chance, 0.02),
        s_412=wild * _odds(chance, 0.05),
        s_cut_n=wild * _odds(chance, 0.08),
        s_cut_a=wild * _odds(chance, 0.10),
        s_late=wild * _odds(chance, 0.08),
        late_ms=chance.choice((100.0, 2000.0, 9000.0)),
    )
    words = ("C-409", "C-429", "C-404", "C-5xx/n", "C-5xx/a", "C-cut/n", "C-cut/a", "C-late(1)", "C-late(5)", "C-409/a")
    catalog = {word: wild * _odds(chance, 0.08) for word in words}
    catalog["C-hang"] = wild * _odds(chance, 0.02)
    faults = Faults(
        metadata=metadata,
        objects=objects,
        warehouse_short=wild * _odds(chance, 0.04),
        catalog={word: rate for word, rate in catalog.items() if rate},
        catalog_load=wild * _odds(chance, 0.1),
        catalog_delay=delays,
        kill_s=chance.choice((0.0, 2.0, 5.0)) if wild else 0.0,
        freeze_s=chance.choice((0.0, 0.0, 4.0)) if wild else 0.0,
        freeze_for_s=chance.choice(((0.2, 2.0), (1.0, 12.0))),
        freeze_points=chance.choice(((), (), ("B3", "B1", "P3", "P4", "P6"))),
        cut_s=chance.choice((0.0, 1.0, 4.0)) if wild else 0.0,
        burst_s=chance.choice((0.0, 0.0, 5.0)) if wild else 0.0,
        rollback_s=chance.choice((0.0, 0.0, 0.0, 4.0)) if wild else 0.0,
        skew_ms=chance.choice((0, 0, 700)),
    )
    landing = chance.random() < 0.5
    # After a rollback to before what retention has removed, a hole in the table is right and recorded.
    retention_ms = chance.choice((0, 0, 0, 5_000)) if not faults.rollback_s else 0
    return Profile(
        brokers=chance.choice((1, 2, 2, 3)),
        topics=chance.choice(((("events", 1),), (("events", 2),), (("events", 3),), (("events", 2), ("other", 1)))),
        landing=landing,
        landings=chance.choice((1, 1, 1, 2)),
        embedded_catalog=chance.random() < 0.5,
        seconds=chance.choice((4.0, 6.0, 9.0)),
        producers=chance.choice((2, 3)),
        batches=chance.choice((2, 4)) if landing else chance.choice((3, 6)),
        group=chance.random() < 0.2,
        retention_ms=retention_ms,
        delete_records=not landing and chance.random() < 0.1,
        reborn_topic=chance.random() < 0.2,
        late_topic=chance.random() < 0.2,
        flush_interval_ms=chance.choice((0, 0, 40)),
        inflight=chance.choice((1, 2, 4)),
        shards=chance.choice((1, 4)),
        seal_age_ms=chance.choice((1_500, 3_000)),
        grace_ms=chance.choice((2_000, 5_000)),
        latency_ms=chance.choice((0.5, 5.0)),
        faults=faults,
        tight=chance.random() < 0.35,
        check_bound=chance.random() < 0.3,
    )


def longer(seed: int, *, seconds: float) -> Profile:
    """The same, for longer: what the full run uses."""
    found = drawn(seed)
    scale = seconds / found.seconds
    faults = found.faults
    calmer = replace(faults, **{name: getattr(faults, name) * 4 for name in ("kill_s", "freeze_s", "cut_s", "burst_s", "rollback_s")})
    return replace(found, seconds=seconds, batches=max(4, int(found.batches * scale / 3)), faults=calmer, name=f"longer-{seconds:g}")
