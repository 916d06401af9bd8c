"""The named bounds on memory of each process: what its settings allow it to hold at most, beside the process itself."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.assembly.settings import FrazilSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A setting that bounds bytes in memory, and its value."""

    setting: str
    bytes_max: int


def broker_bounds(settings: FrazilSettings) -> tuple[Bound, ...]:
    """A broker process. Bundles being stored are bytes of requests that wait for their answer, so they count once."""
    given = settings.broker
    return (
        Bound(setting="broker.requests_bytes_max", bytes_max=requests_bytes_max(settings)),
        Bound(setting="broker.fetches_bytes_max", bytes_max=given.fetches_bytes_max),
        Bound(setting="broker.cache_bytes", bytes_max=given.cache_bytes),
        Bound(setting="broker.seal_bytes_max", bytes_max=given.seal_bytes_max),
    )


def landing_bounds(settings: FrazilSettings) -> tuple[Bound, ...]:
    """A landing process."""
    given = settings.landing
    return (
        Bound(setting="landing.slices_bytes_max", bytes_max=given.slices_bytes_max),
        Bound(setting="landing.cache_bytes", bytes_max=given.cache_bytes),
        Bound(setting="landing.key_cache_bytes", bytes_max=given.key_cache_bytes),
        Bound(setting="landing.rewrite_bytes_max", bytes_max=given.rewrite_bytes_max if given.rewrite else 0),
    )


def requests_bytes_max(settings: FrazilSettings) -> int:
    """Bytes of requests and answers of all connections: never less than two of the largest requests."""
    return max(settings.broker.requests_bytes_max, 2 * settings.broker.request_bytes_max)


def sum_of(bounds: tuple[Bound, ...]) -> int:
    """Bytes of all bounds together."""
    return sum(bound.bytes_max for bound in bounds)
