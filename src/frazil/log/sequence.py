"""Gives offsets: pieces of flushes + the folded state → one planned transaction. Pure; run again whenever the state moved (R11).

Offsets and verdicts are those of the shard versions in ``state``; they become true when a transaction that asserts these
versions is applied, and mean nothing otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from frazil.kit.names import PartitionKey, TopicId
from frazil.log.commitrecord import CommitRecord, Delta, Row, Section
from frazil.log.flush import Apart, Appended, AppendFault, FaultKind, Flush, Group, Outcome, Part
from frazil.log.head import HeadMark
from frazil.log.partitions import PartitionLog
from frazil.log.producers import SEQUENCES, ProducerState, Seen, Verdict, after, after_all, judge
from frazil.log.state import LogState
from frazil.records import Batch

Expected: TypeAlias = Mapping[tuple[PartitionKey, int], tuple[int, int, int]]
"""(partition, producer id) → (epoch, sequence, time): a run that failed here before the producer had any state (R03)."""

_FAULTS: Final = {
    Verdict.STALE_EPOCH: (FaultKind.INVALID_PRODUCER_EPOCH, "a newer epoch of this producer has written here"),
    Verdict.GAP: (FaultKind.OUT_OF_ORDER_SEQUENCE, "its sequence is not the next of this producer here"),
    Verdict.FORGOTTEN: (FaultKind.DUPLICATE_SEQUENCE, "the log has it, at an offset no longer remembered"),
}


class Piece(NamedTuple):
    """What one flush has for one shard (or part of it, when that is very much)."""

    flush: Flush
    shard: int
    groups: list[Group]


@dataclass(slots=True)
class Plan:
    """One transaction to be: ``records`` and ``heads`` to write, ``answers`` to give when it is applied."""

    pieces: Sequence[Piece]
    records: list[CommitRecord] = field(default_factory=list)
    heads: dict[int, tuple[HeadMark, dict[TopicId, dict[int, int]]]] = field(default_factory=dict)
    answers: list[tuple[Part, Outcome]] = field(default_factory=list)
    doubtful: bool = False
    """A sequence looks out of order: true only if no other broker has news. Refresh, then plan again."""


def sequence(pieces: Sequence[Piece], state: LogState, expected: Expected) -> Plan:
    """Plans ``pieces`` (in the order flushes were cut, R03) on top of ``state``."""
    work = _Work(state, expected, Plan(pieces))
    sections: dict[int, tuple[Flush, list[Section]]] = {}
    for piece in pieces:
        section = work.section(piece)
        if section is not None:
            sections.setdefault(id(piece.flush), (piece.flush, []))[1].append(section)
    for flush, found in sections.values():
        work.plan.records.append(
            CommitRecord(
                ulid=flush.ulid,
                chunk=flush.chunk,
                created_ms=flush.created_ms,
                bundle_bytes=len(flush.data),
                sections=tuple(found),
            )
        )
    return work.plan


class _Work:
    """Tentative state of one plan, laid over the folded one."""

    def __init__(self, state: LogState, expected: Expected, plan: Plan) -> None:
        self._state = state
        self._expected = expected
        self._producers: dict[PartitionLog, dict[int, ProducerState]] = {}
        self.plan = plan

    def section(self, piece: Piece) -> Section | None:
        """The section of one piece; None when nothing of it is new."""
        shard = self._state.shards[piece.shard]
        mark, nexts = self.plan.heads.get(piece.shard) or (shard.mark, {topic: dict(found) for topic, found in shard.nexts.items()})
        rows: list[Row] = []
        deltas: list[Delta] = []
        find = self._state.log
        for group in piece.groups:
            topic_id, partition = group.key.topic_id, group.key.partition
            log = find(topic_id, partition)
            topic = nexts.get(topic_id)
            base = 0 if topic is None else topic.get(partition, 0)
            if group.by_batch:
                end = self._by_batch(group, log, base, (rows, deltas, piece.flush.created_ms))
            else:
                end = self._whole(group, log, base, rows)
            if end != base:
                if topic is None:
                    topic = nexts[topic_id] = {}
                topic[partition] = end
        if not rows:
            return None
        mark = HeadMark(version=mark.version + 1, removals=mark.removals)
        self.plan.heads[piece.shard] = mark, nexts
        return Section(shard=piece.shard, version=mark.version, rows=rows, deltas=deltas)

    def _whole(self, group: Group, log: PartitionLog, base: int, rows: list[Row]) -> int:
        """No producer ids: the group is one row. The usual case; kept short (R32)."""
        run = group.run
        if run is None:
            return base
        topic_id, partition, position, length, batch_count, _, offsets, first_ms, max_ms, _ = run
        rows.append(Row(topic_id, partition, base, offsets, position, length, first_ms, max_ms, batch_count))
        answers, start, offset = self.plan.answers, log.start, base
        for part in group.parts:
            batches = part.run.batches
            answers.append((part, Appended(offset, start, append_time(batches))))
            for batch in batches:
                offset += batch.last_offset_delta + 1
        return base + offsets

    def _by_batch(self, group: Group, log: PartitionLog, base: int, into: tuple[list[Row], list[Delta], int]) -> int:
        """Judges every batch. Duplicates stay out of the log, so the group may become several rows (R10)."""
        rows, deltas, now_ms = into
        if group.batches == 1 and self._single(group, log, base, into):
            return base + rows[-1].offsets
        answers, start = self.plan.answers, log.start
        pieces: list[list[int]] = []
        offset, next_position = base, -1
        for part in group.parts:
            if part.dropped:
                continue
            batches: Sequence[Batch] = part.run.batches
            if self._chain(batches, log, offset, now_ms):
                answers.append((part, Appended(offset, start, append_time(batches))))
            elif part.run.apart:
                answer, batches = self._judge_apart(part, log, offset, now_ms)
                answers.append((part, answer))
            else:
                judged = self._judge(part, log, offset, now_ms)
                if isinstance(judged, AppendFault):
                    answers.append((part, judged))
                    continue
                answers.append((part, Appended(judged[0], start, append_time(batches))))
                batches = judged[1]
            for batch in batches:
                position = part.position + batch.position
                if position != next_position:
                    pieces.append([offset, 0, position, 0, _first_ms(batch), batch.max_timestamp_ms, 0])
                _grow(pieces[-1], batch)
                next_position = position + batch.length
                if batch.producer_id >= 0:
                    row, last = len(rows) + len(pieces) - 1, (batch.base_sequence + batch.last_offset_delta) % SEQUENCES
                    deltas.append(Delta(row, batch.producer_id, batch.producer_epoch, batch.base_sequence, last, offset))
                offset += batch.last_offset_delta + 1
        rows += [Row(group.key.topic_id, group.key.partition, *piece) for piece in pieces]
        return offset

    def _chain(self, batches: Sequence[Batch], log: PartitionLog, offset: int, now_ms: int) -> bool:
        """The usual case of ``_judge``, without its care: batches of one known producer, each next after the one before (R32).

        False: nothing was done, look closer.
        """
        first = batches[0]
        producer_id, epoch, expected = first.producer_id, first.producer_epoch, first.base_sequence
        known = self._producers.get(log)
        if known is None:
            known = self._producers[log] = {}
        state = known.get(producer_id) or log.producers.get(producer_id)
        if state is None or state.epoch != epoch or expected != (state.batches[-1].last_sequence + 1) % SEQUENCES:
            return False
        seen: list[Seen] = []
        for batch in batches:
            if batch.base_sequence != expected or batch.producer_id != producer_id or batch.producer_epoch != epoch:
                return False
            delta = batch.last_offset_delta
            last = (expected + delta) % SEQUENCES
            seen.append(Seen(expected, last, offset))
            expected = (last + 1) % SEQUENCES
            offset += delta + 1
        known[producer_id] = after_all(state, epoch, seen, now_ms)
        return True

    def _single(self, group: Group, log: PartitionLog, base: int, into: tuple[list[Row], list[Delta], int]) -> bool:
        """The usual case of the above, one batch that follows its producer's last one, without its loops; False for anything else (R32)."""
        rows, deltas, now_ms = into
        part, run = group.parts[0], group.run
        batch = part.run.batches[0]
        producer_id, epoch, first = batch.producer_id, batch.producer_epoch, batch.base_sequence
        state = log.producers.get(producer_id)
        if run is None or part.dropped or log in self._producers or state is None or state.epoch != epoch:
            return False
        if first != (state.batches[-1].last_sequence + 1) % SEQUENCES:
            return False
        last = (first + batch.last_offset_delta) % SEQUENCES
        self._producers[log] = {producer_id: after(state, epoch, Seen(first, last, base), now_ms)}
        deltas.append(Delta(len(rows), producer_id, epoch, first, last, base))
        topic_id, partition, position, length, _, _, offsets, first_ms, max_ms, _ = run
        rows.append(Row(topic_id, partition, base, offsets, position, length, first_ms, max_ms, 1))
        self.plan.answers.append((part, Appended(base, log.start, append_time(part.run.batches))))
        return True

    def _judge(self, part: Part, log: PartitionLog, offset: int, now_ms: int) -> tuple[int, Sequence[Batch]] | AppendFault:
        """Offset to answer and the batches that are new; a fault of one batch is a fault of the whole part."""
        known = self._producers.setdefault(log, {})
        staged: dict[int, ProducerState] = {}
        accepted: list[Batch] = []
        answer = -1
        for batch in part.run.batches:
            original = self._judge_one(batch, log, staged, (offset, now_ms))
            if isinstance(original, AppendFault):
                return original
            if original >= 0:
                answer = original if answer < 0 else answer
                continue
            answer = offset if answer < 0 else answer
            accepted.append(batch)
            offset += batch.last_offset_delta + 1
        known |= staged
        return answer, accepted

    def _judge_apart(self, part: Part, log: PartitionLog, offset: int, now_ms: int) -> tuple[Outcome, Sequence[Batch]]:
        """The same for batches that stand for themselves: the answer, and those that are new."""
        known = self._producers.setdefault(log, {})
        accepted: list[Batch] = []
        outcomes: list[Appended | AppendFault] = []
        for batch in part.run.batches:
            original = self._judge_one(batch, log, known, (offset, now_ms))
            if isinstance(original, AppendFault):
                outcomes.append(original)
            elif original >= 0:
                outcomes.append(Appended(original, log.start, append_time((batch,))))
            else:
                outcomes.append(Appended(offset, log.start, append_time((batch,))))
                accepted.append(batch)
                offset += batch.last_offset_delta + 1
        return Apart(tuple(outcomes)), accepted

    def _judge_one(self, batch: Batch, log: PartitionLog, staged: dict[int, ProducerState], at: tuple[int, int]) -> int | AppendFault:
        """-1: new, and its producer's state in ``staged`` says so; else the offset it has already. ``at``: offset to be, now."""
        producer_id, epoch = batch.producer_id, batch.producer_epoch
        if producer_id < 0:
            return -1
        offset, now_ms = at
        last = (batch.base_sequence + batch.last_offset_delta) % SEQUENCES
        state = staged.get(producer_id) or self._producers[log].get(producer_id) or log.producers.get(producer_id)
        if state is None and self._expected and self._overtakes(log, batch):
            verdict, original = Verdict.GAP, -1
        else:
            verdict, original = judge(state, epoch, batch.base_sequence, last)
        if verdict is Verdict.DUPLICATE:
            return original
        if verdict is not Verdict.ACCEPT:
            self.plan.doubtful |= verdict is Verdict.GAP
            kind, why = _FAULTS[verdict]
            return AppendFault(kind, f"producer {producer_id}, sequence {batch.base_sequence}: {why}")
        staged[producer_id] = after(state, epoch, Seen(batch.base_sequence, last, offset), now_ms)
        return -1

    def _overtakes(self, log: PartitionLog, batch: Batch) -> bool:
        """R03: another run of this producer failed here before any was accepted; this is not that one."""
        epoch, first, _ = self._expected.get((log.key, batch.producer_id), (-1, 0, 0))
        return epoch == batch.producer_epoch and first != batch.base_sequence


def append_time(batches: Sequence[Batch]) -> int:
    """The append time the broker stamped on a run, -1 for producers' own times."""
    first = batches[0]
    return first.max_timestamp_ms if first.attributes & 0x08 else -1


def _first_ms(batch: Batch) -> int:
    return batch.max_timestamp_ms if batch.attributes & 0x08 else batch.base_timestamp_ms


def _grow(piece: list[int], batch: Batch) -> None:
    """Takes a batch into a row to be: base, offsets, position, length, first and max timestamp, batches."""
    piece[1] += batch.last_offset_delta + 1
    piece[3] += batch.length
    if batch.max_timestamp_ms > piece[5]:
        piece[5] = batch.max_timestamp_ms
    piece[6] += 1
