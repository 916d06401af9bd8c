"""How far one table is in each source partition: what the table itself says (R06), and row-less ranges read beyond it.

Ranges without any record (control batches, offsets that log compaction removed) are held back in memory for a while, so
that they travel with the next rows instead of making a snapshot of their own. Forgetting them costs a second reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from frazil.catalogs.progress import Move, SourcePartition
from frazil.kit.names import PartitionId, PartitionKey
from frazil.landing.decode import Consumed
from frazil.landing.naming import SourceNaming
from frazil.landing.plan import Loss, PartitionState
from frazil.log.view import LogView
from frazil.metadata.topics import TopicRecord


class Ledger:
    """Progress of one table against one log. ``source`` names the log (cluster id and incarnation)."""

    def __init__(self, source: str, naming: SourceNaming | None = None) -> None:
        self._source = source
        self._naming = naming
        self._names: dict[PartitionKey, str] = {}
        self._places: dict[PartitionKey, SourcePartition] = {}
        self._known: dict[PartitionKey, int | None] = {}
        """What was looked up of the table's progress since it was loaded: there may be 20,000 partitions, each asked for many times."""
        self._table: dict[SourcePartition, int] = {}
        self._held: dict[PartitionKey, Consumed] = {}
        self._held_since_ms: float | None = None

    def load(self, progress: Mapping[SourcePartition, int]) -> bool:
        """The table's own progress, as just read. What was held on top of another state is forgotten. False: nothing is new."""
        if self._naming is None and progress == self._table:
            return False
        before = {key: (self._at(key), self._table.get(self._at(key))) for key in self._held}
        self._names.clear()
        self._known.clear()
        if self._naming is not None:
            self._places.clear()
        self._table = dict(progress)
        for key, held in list(self._held.items()):
            at = self._at(key)
            if (at, progress.get(at)) != before[key] or (progress.get(at) or 0) >= held.end:
                del self._held[key]
        if not self._held:
            self._held_since_ms = None
        return True

    def states(self, topics: Iterable[TopicRecord], index: LogView, pinned: Mapping[PartitionKey, int]) -> list[PartitionState]:
        """Every partition of ``topics`` as the table sees it; a new topic id has no progress (F03)."""
        found = []
        for topic in topics:
            for number in range(topic.partitions):
                key = PartitionKey(topic.topic_id, PartitionId(number))
                at, bounds = self.next_offset(key), index.bounds(key)
                begin = bounds.start if at is None else max(at, bounds.start)
                lost_to = end if (end := index.past_lost(key, begin)) > begin else 0
                state = PartitionState(key=key, topic=topic.name, next_offset=at, bounds=bounds, pinned=pinned.get(key), lost_to=lost_to)
                found.append(state)
        return found

    def next_offset(self, key: PartitionKey) -> int | None:
        """Where reading goes on: held ranges included."""
        held = self._held.get(key)
        return self.table_offset(key) if held is None else held.end

    def table_offset(self, key: PartitionKey) -> int | None:
        """What the table says, and nothing else."""
        known = self._known
        if key not in known:
            known[key] = self._table.get(self._at(key))
        return known[key]

    def place(self, key: PartitionKey) -> SourcePartition:
        """The name under which the table's progress has, or will have, this partition."""
        return self._at(key)

    def recognises(self, keys: Iterable[PartitionKey]) -> bool:
        """The logs are still those that were planned from. False: one was made anew since, and what was read may be of either."""
        naming = self._naming
        return naming is None or all(naming.name(key, self._table) == self._name(key) for key in keys)

    def hold(self, consumed: Sequence[Consumed], now_ms: float) -> None:
        """These ranges hold no record; they may wait."""
        for done in consumed:
            self._held[done.key] = done
        if self._held and self._held_since_ms is None:
            self._held_since_ms = now_ms

    def held_too_long(self, now_ms: float, idle_ms: int) -> bool:
        """Row-less progress has waited for ``idle_ms``."""
        return self._held_since_ms is not None and now_ms - self._held_since_ms >= idle_ms

    def moves(self, consumed: Sequence[Consumed], losses: Sequence[Loss]) -> dict[SourcePartition, Move]:
        """The change of progress that a commit of ``consumed`` makes, with everything held and every recorded loss."""
        ends = {loss.key: loss.end for loss in losses}
        ends.update({key: max(held.end, ends.get(key, 0)) for key, held in self._held.items()})
        ends.update({done.key: max(done.end, ends.get(done.key, 0)) for done in consumed})
        return {
            self._at(key): Move(before=self._table.get(self._at(key)), after=end)
            for key, end in sorted(ends.items())
            if end != self._table.get(self._at(key))
        }

    def _at(self, key: PartitionKey) -> SourcePartition:
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = SourcePartition(source=self._name(key), topic_id=key.topic_id, partition=int(key.partition))
        return place

    def _name(self, key: PartitionKey) -> str:
        """The same from one look at the table to the next."""
        if self._naming is None:
            return self._source
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = self._naming.name(key, self._table)
        return name
