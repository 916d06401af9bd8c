"""How much the next slice of one table may be: learnt from the slices before it."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.kit.names import PartitionKey
from frazil.landing.decode import Decoded, Limits
from frazil.landing.isolation import Isolation
from frazil.landing.plan import Budget
from frazil.landing.settings import LandingSettings


class Appetite:
    """Reads fewer bytes when they decompress to more, goes round all partitions, and counts reads of damaged batches."""

    def __init__(self, settings: LandingSettings) -> None:
        self._settings = settings
        self.growth = 1.0
        """Bytes held for each byte read, by the last slice."""
        self._damaged: dict[PartitionKey, int] = {}
        self.last_key: PartitionKey | None = None
        """The last partition the slice before took from; the next slice begins after it."""

    @property
    def budget(self) -> Budget:
        """Bytes to ask of the log."""
        return Budget(bytes_max=int(self._settings.slice_bytes_max / self.growth))

    def limits(self, isolation: Isolation, ends: Mapping[PartitionKey, int]) -> Limits:
        """Bytes and rows to hold in memory, which transactions they may be of, and where partitions end."""
        return Limits(
            rows_max=self._settings.slice_rows_max,
            bytes_max=self._settings.slice_bytes_max,
            batch_bytes_max=self._settings.batch_bytes_max,
            use_kernel=self._settings.use_kernel,
            committed_only=isolation.committed_only,
            held=isolation.held,
            ends=ends,
            accept_damage=frozenset(key for key, reads in self._damaged.items() if reads >= self._settings.damage_reads),
        )

    def learn(self, decoded: Decoded) -> None:
        """Takes what came of the last slice into account."""
        if decoded.bytes_read > 0 and decoded.consumed:
            self.growth = max(1.0, decoded.bytes_held / decoded.bytes_read)
        if decoded.consumed:
            self.last_key = decoded.consumed[-1].key
        for done in decoded.consumed:
            self._damaged.pop(done.key, None)
        for bad in decoded.bad_partitions:
            self._damaged[bad.key] = self._damaged.get(bad.key, 0) + 1
