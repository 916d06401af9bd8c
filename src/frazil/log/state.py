"""The folded state of all shards: what the change feed and this process's own commits say. Pure: no I/O, no time.

A feed is everything that changed under ``log/`` up to one revision, so it is consistent in itself. Deleted keys are not in
it; they need not be, since what was deleted is covered by something that is there:

* commit records are dropped only when every run in them is sealed or below the log start (partition record), and after the
  producer states they built are in a checkpoint. A step in a shard's dense version is therefore legal only up to the
  checkpoint's version; otherwise it is damage and raises.
* segment records go with a raised log start; a removed topic leaves the heads, which count removals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from frazil.kit.errors import Bug, Corrupt
from frazil.kit.names import PartitionId, PartitionKey, TopicId
from frazil.log.commitrecord import CommitRecord, Section, decode_commit
from frazil.log.condemned import decode_condemned
from frazil.log.head import HeadMark, decode_head, read_mark
from frazil.log.partitions import Bundle, PartitionLog
from frazil.log.producers import Seen, after_all, checkpoint_version, decode_checkpoint
from frazil.log.sealrecords import SealPlan, decode_partition, decode_plan, decode_segment
from frazil.log.shards import (
    COMMIT,
    CONDEMNED,
    HEAD,
    PARTITION,
    PLAN,
    PRODUCERS,
    SEGMENT,
    commit_key,
    commit_ulid,
    parse_partition,
    producers_key,
    shard_of,
)
from frazil.metadata.port import START, Entry, Revision
from frazil.segments.keys import bundle_key


class Shard:
    """One shard as known. ``version`` counts its commits; ``entry_version`` is what a transaction checks."""

    __slots__ = ("checkpoint", "checkpoint_entry", "entry_version", "nexts", "number", "removals", "version")

    def __init__(self, number: int) -> None:
        self.number = number
        self.version = 0
        self.removals = 0
        self.entry_version: Revision = START
        self.nexts: dict[TopicId, dict[int, int]] = {}
        self.checkpoint = 0
        self.checkpoint_entry: Revision = START

    @property
    def mark(self) -> HeadMark:
        """As in the stored head."""
        return HeadMark(version=self.version, removals=self.removals)


class KnownPlan(NamedTuple):
    """A seal under way and the version of its record."""

    plan: SealPlan
    version: Revision


class LogState:
    """Mutable; owned by ``LogIndex``. Other modules read it between awaits and never change it."""

    def __init__(self, shards: int, *, producers: bool = True) -> None:
        self.keeps_producers = producers
        self.shards = [Shard(number) for number in range(shards)]
        self.logs: dict[TopicId, dict[int, PartitionLog]] = {}
        self.bundles: dict[str, Bundle] = {}
        """Bundles with at least one needed run, by ULID."""
        self.spent: set[str] = set()
        """Bundles whose commit records are known and no longer needed; leaves when they are dropped."""
        self.plans: dict[PartitionKey, KnownPlan] = {}
        self._own: set[str] = set()
        self._changed: dict[int, PartitionLog] = {}

    def find(self, key: PartitionKey) -> PartitionLog | None:
        """The partition, or None when nothing is known of it."""
        partitions = self.logs.get(key.topic_id)
        return None if partitions is None else partitions.get(key.partition)

    def log(self, topic_id: TopicId, partition: int) -> PartitionLog:
        """The partition; an empty one is made when nothing is known of it."""
        partitions = self.logs.get(topic_id)
        if partitions is None:
            partitions = self.logs[topic_id] = {}
        log = partitions.get(partition)
        if log is None:
            shard = shard_of(topic_id, partition, len(self.shards))
            log = partitions[partition] = PartitionLog(PartitionKey(topic_id, PartitionId(partition)), shard)
        return log

    def take_changed(self) -> Iterable[PartitionLog]:
        """Logs whose end moved, or that are gone, since the last call."""
        changed, self._changed = self._changed, {}
        return changed.values()

    def fold_own(self, records: Sequence[CommitRecord], revision: Revision) -> None:
        """Folds what this process has just committed as ``revision``. What a feed has told already is skipped."""
        for record in records:
            for section in record.sections:
                shard = self.shards[section.shard]
                shard.entry_version = max(shard.entry_version, revision)
                if section.version <= shard.version:
                    continue
                if section.version != shard.version + 1:
                    raise Bug(f"own commit takes shard {shard.number} from {shard.version} to {section.version}")
                self._own.add(commit_key(record.ulid, record.chunk))
                self._add_rows(shard, section, self._bundle(record))
                self._add_deltas(section, record.created_ms)
                shard.version = section.version

    def fold(self, entries: Sequence[Entry]) -> None:
        """Folds one feed. Raises Corrupt when it contradicts itself."""
        heads: dict[int, Entry] = {}
        checkpoints: dict[int, Entry] = {}
        sections: dict[int, list[tuple[Section, CommitRecord]]] = {}
        dropped: set[str] = set()
        for entry in entries:
            key = entry.key
            if key.startswith(COMMIT):
                self._collect(entry, sections)
            elif key.startswith(HEAD):
                heads[self._number(key, HEAD)] = entry
            elif key.startswith(PRODUCERS):
                checkpoints[self._number(key, PRODUCERS)] = entry
            elif key.startswith(CONDEMNED):
                dropped.update(decode_condemned(entry.value, where=key).bundles)
            else:
                self._fold_rare(entry)
        for number in sorted(heads.keys() | sections.keys()):
            self._fold_shard(self.shards[number], heads.get(number), sections.get(number, []), checkpoints.get(number))
        for number, entry in checkpoints.items():
            shard = self.shards[number]
            if entry.version > shard.checkpoint_entry:
                shard.checkpoint_entry = entry.version
                shard.checkpoint = checkpoint_version(entry.value, where=entry.key)
        self.spent -= dropped

    def _number(self, key: str, prefix: str) -> int:
        number = int(key[len(prefix) :])
        if number >= len(self.shards):
            raise Corrupt(f"shard {number} of {len(self.shards)}", where=key)
        return number

    def _collect(self, entry: Entry, sections: dict[int, list[tuple[Section, CommitRecord]]]) -> None:
        if entry.key in self._own:
            self._own.discard(entry.key)
            return
        record = decode_commit(entry.value, where=entry.key)
        if record.ulid != commit_ulid(entry.key):
            raise Corrupt(f"commit record says it is of bundle {record.ulid}", where=entry.key)
        if record.ulid not in self.bundles:
            self.spent.add(record.ulid)  # until a run of it turns out to be needed
        for section in record.sections:
            if not 0 <= section.shard < len(self.shards):
                raise Corrupt(f"shard {section.shard} of {len(self.shards)}", where=entry.key)
            sections.setdefault(section.shard, []).append((section, record))

    def _fold_rare(self, entry: Entry) -> None:
        key = entry.key
        if key.startswith(PARTITION):
            partition = parse_partition(key, PARTITION)
            log = self.log(partition.topic_id, partition.partition)
            if entry.version <= log.record_version:
                return
            record = decode_partition(entry.value, where=key)
            log.record_version = entry.version
            log.start, log.sealed_to = record.log_start, record.sealed_to
            plan = self.plans.get(partition)
            if plan is not None and plan.plan.end <= record.sealed_to:
                del self.plans[partition]
            self._retire(log.trim_runs())
            log.trim_segments()
            self._changed[id(log)] = log
        elif key.startswith(SEGMENT):
            partition = parse_partition(key, SEGMENT)
            log = self.log(partition.topic_id, partition.partition)
            segment = decode_segment(entry.value, where=key)
            if segment.end > log.start:
                log.put_segment(segment)
        elif key.startswith(PLAN):
            partition = parse_partition(key, PLAN)
            self.plans[partition] = KnownPlan(decode_plan(entry.value, where=key), entry.version)

    def _fold_shard(self, shard: Shard, head: Entry | None, found: list[tuple[Section, CommitRecord]], checkpoint: Entry | None) -> None:
        sections = sorted((item for item in found if item[0].version > shard.version), key=lambda item: item[0].version)
        if head is None:
            if sections:
                raise Corrupt(f"commits of shard {shard.number} came without its head", where=sections[0][1].ulid)
            return
        if head.version <= shard.entry_version:
            return
        mark = read_mark(head.value, where=head.key)
        states_to = self._check_versions(shard, mark, sections, checkpoint)
        stepped = states_to >= 0
        if stepped and checkpoint is not None and self.keeps_producers:
            self._load_producers(shard, checkpoint)
        for section, record in sections:
            self._add_rows(shard, section, self._bundle(record))
            if section.version > states_to:
                self._add_deltas(section, record.created_ms)
        if stepped or mark.removals != shard.removals:
            self._fold_head(shard, head)
        shard.version, shard.removals = mark.version, mark.removals
        shard.entry_version = head.version

    def _check_versions(self, shard: Shard, mark: HeadMark, sections: list[tuple[Section, CommitRecord]], checkpoint: Entry | None) -> int:
        """The version up to which producer states come from the checkpoint, -1 when every version is there (R20)."""
        if mark.version < shard.version:
            raise Corrupt(f"version {mark.version} is below {shard.version} seen before", where=producers_key(shard.number))
        if len(sections) == mark.version - shard.version:
            return -1
        have = {section.version for section, _ in sections}
        missing = mark.version
        while missing in have:
            missing -= 1
        covered = checkpoint_version(checkpoint.value, where=checkpoint.key) if checkpoint is not None else 0
        if missing > covered:
            raise Corrupt(
                f"commit {missing} of shard {shard.number} is missing and its producer checkpoint reaches only {covered}",
                where=producers_key(shard.number),
            )
        return covered

    def _load_producers(self, shard: Shard, entry: Entry) -> None:
        for partitions in self.logs.values():
            for log in partitions.values():
                if log.shard == shard.number:
                    log.producers = {}
        for key, producer_id, state in decode_checkpoint(entry.value, where=entry.key).states:
            self.log(key.topic_id, key.partition).producers[producer_id] = state

    def _fold_head(self, shard: Shard, head: Entry) -> None:
        _, nexts = decode_head(head.value, where=head.key)
        for topic_id, partitions in nexts.items():
            for partition, end in partitions.items():
                log = self.log(topic_id, partition)
                if log.end > end:
                    raise Corrupt(f"next offset {end} of {log.key} is below {log.end}", where=head.key)
                if log.end < end:
                    if log.floor < end and log.gap is None:
                        log.gap = (max(log.end, log.floor), end)
                    log.end = end
                    self._changed[id(log)] = log
        for topic_id in list(self.logs):
            self._drop_gone(shard, topic_id, nexts.get(topic_id, {}))
        shard.nexts = nexts

    def _drop_gone(self, shard: Shard, topic_id: TopicId, kept: Mapping[int, int]) -> None:
        logs = self.logs[topic_id]
        gone = [log for partition, log in logs.items() if log.shard == shard.number and partition not in kept]
        for log in gone:
            self._retire(log.drop_all_runs())
            self._changed[id(log)] = log
            self.plans.pop(log.key, None)
            del logs[log.key.partition]
        if not logs:
            del self.logs[topic_id]

    def _add_rows(self, shard: Shard, section: Section, bundle: Bundle) -> None:
        changed = self._changed
        for topic_id, partition, base, count, position, length, first_ms, max_ms, _ in section.rows:
            log = self.log(topic_id, partition)
            end = base + count
            if end > log.start and end > log.sealed_to:
                log.add_run(base, (position, length, first_ms, max_ms), bundle)
            log.end = end
            nexts = shard.nexts.get(topic_id)
            if nexts is None:
                nexts = shard.nexts[topic_id] = {}
            nexts[partition] = end
            changed[id(log)] = log
        if bundle.live:
            self.bundles[bundle.ulid] = bundle
            self.spent.discard(bundle.ulid)

    def expire_producers(self, before_ms: int) -> int:
        """Forgets producers whose last batch is older; how many. Otherwise memory would keep every producer there ever was (R10)."""
        count = 0
        for partitions in self.logs.values():
            for log in partitions.values():
                idle = [producer_id for producer_id, state in log.producers.items() if state.last_ms < before_ms]
                for producer_id in idle:
                    del log.producers[producer_id]
                count += len(idle)
        return count

    def _add_deltas(self, section: Section, created_ms: int) -> None:
        if not self.keeps_producers:
            return
        seen: list[Seen] = []
        place = (-1, -1, 0)
        for row, producer_id, epoch, first, last, base in section.deltas:
            if (row, producer_id, epoch) != place:
                self._add_seen(section, place, seen, created_ms)
                place, seen = (row, producer_id, epoch), []
            seen.append(Seen(first, last, base))
        self._add_seen(section, place, seen, created_ms)

    def _add_seen(self, section: Section, place: tuple[int, int, int], seen: list[Seen], created_ms: int) -> None:
        """Batches of one producer that follow each other in one row: one step for all of them (R32)."""
        if not seen:
            return
        row, producer_id, epoch = place
        topic_id, partition, *_ = section.rows[row]
        producers = self.log(topic_id, partition).producers
        producers[producer_id] = after_all(producers.get(producer_id), epoch, seen, created_ms)

    def _bundle(self, record: CommitRecord) -> Bundle:
        bundle = self.bundles.get(record.ulid)
        return Bundle(record.ulid, bundle_key(record.ulid), record.bundle_bytes) if bundle is None else bundle

    def _retire(self, bundles: Iterable[Bundle]) -> None:
        for bundle in bundles:
            if self.bundles.pop(bundle.ulid, None) is not None:
                self.spent.add(bundle.ulid)
