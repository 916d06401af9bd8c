"""Opening an object store by its URL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from frazil.kit.chance import Chance, system_chance
from frazil.kit.clock import Clock
from frazil.kit.errors import Refused
from frazil.kit.plugins import load_backend
from frazil.kit.tasks import Offload
from frazil.objects.access import AWS_CHAIN, CloudAccess
from frazil.objects.port import ObjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectDeps:
    """What a back-end may work with."""

    offload: Offload
    clock: Clock
    chance: Chance
    access: CloudAccess
    mid_put: Callable[[str], None] | None


def open_objects(
    url: str,
    *,
    offload: Offload,
    clock: Clock,
    mid_put: Callable[[str], None] | None = None,
    access: CloudAccess = AWS_CHAIN,
    chance: Chance | None = None,
) -> ObjectStore:
    """The store behind ``file:///path``, ``s3://bucket/prefix`` or ``memory:``; back-ends register under ``frazil.objects``.

    ``mid_put`` is the fault seam of kill points B2 and P2: called with the key when about half of an object is written.
    Raises Refused for an unknown scheme or an address the back-end cannot use.
    """
    scheme, colon, _ = url.partition(":")
    if not colon or not scheme:
        raise Refused(f"objects url {url!r}: write scheme:…, for example file:///var/lib/frazil/objects or s3://bucket/prefix")
    deps = ObjectDeps(offload=offload, clock=clock, chance=chance or system_chance(), access=access, mid_put=mid_put)
    store: ObjectStore = load_backend("frazil.objects", scheme)(url, deps)
    return store
