"""How each table is doing: the stage it is in, how far behind, and who is to blame when it does not move (LOUD).

| state   | when                                                                                       |
|---------|--------------------------------------------------------------------------------------------|
| running | records are waiting or were landed lately, and nothing is overdue                          |
| idle    | everything is landed                                                                       |
| stalled | the last step met trouble that may pass, or nothing was committed for two intervals though records wait |
| failed  | the last step ended with an error that will not pass by itself, or a partition cannot be read |
| alert   | it goes on, and there are more dead letters than ``deadletters.alert``                     |
| paused  | the spec's option ``paused`` is ``true``                                                   |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from frazil.landing.decode import BadPartition
from frazil.landing.plan import Loss, PartitionState, describe_losses
from frazil.metadata.landings import LandingStatus, put_status
from frazil.metadata.port import MetadataStore

REASON_CHARACTERS_MAX = 500
LOSSES_MAX = 5
OVERDUE_MIN_MS = 4_000
"""A full slice takes a few seconds to convert; a table with a one-second interval is not stalled for that."""
_REFRESH_INTERVALS = 5
_ALIVE_MS = 60_000
_WELL = ("running", "idle")


@dataclass(slots=True, kw_only=True)
class Board:
    """What one table's owner task knows about itself; it alone writes here, ``status_of`` reads."""

    table: str
    interval_ms: int
    topics: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    """Topics of the spec that do not exist."""
    stage: str = "discover"
    stage_since_ms: float = 0.0
    error: str = ""
    error_may_pass: bool = False
    paused: bool = False
    done: bool = False
    """All that was to be landed is (option ``to``)."""
    bad_partitions: tuple[BadPartition, ...] = ()
    losses: tuple[str, ...] = ()
    alarm: str = ""
    """What somebody wanted to be told although landing goes on."""
    advice: str = ""
    """What would make the landing cheaper, or what it waits for without stopping."""
    behind: str = ""
    """Of a route: the tables that the others go on without, and why."""
    behind_stage: str = ""
    behind_may_pass: bool = False
    notes: tuple[str, ...] = ()
    """Of a route: what keeps records or rounds from being as they should."""
    lag_records: int = 0
    freshness_ms: int = 0
    waiting_partition: int = -1
    """The partition that is furthest behind."""
    waiting_since_ms: float | None = None
    """Monotonic time since which records wait without any commit."""
    failing_since_ms: float | None = None
    """Monotonic time of the first of the failures in a row."""
    rows_landed: int = 0
    rows_rejected: int = 0
    last_commit_ms: int = 0
    commit_took_ms: int = 0
    snapshot_id: int = 0

    def note_commit(self, snapshot_id: int, *, rows: int, rejected: int) -> None:
        """A slice is in the table."""
        self.snapshot_id = snapshot_id
        self.rows_landed += rows
        self.rows_rejected += rejected
        self.waiting_since_ms = None

    def note_times(self, now_ms: int, *, took_ms: int, losses: Sequence[Loss]) -> None:
        """When a slice was committed, how long the commit took, and what retention had removed before it could be landed."""
        self.last_commit_ms, self.commit_took_ms = now_ms, took_ms
        if losses:
            self.losses = (*self.losses, f"lost to retention: {describe_losses(losses)}")[-LOSSES_MAX:]

    def note_reset(self, states: Sequence[tuple[PartitionState, int | None]]) -> None:
        """Progress as read anew, and as it was known before: somebody may have set it back."""
        back = [
            f"{state.topic}[{state.key.partition}] {before} to {state.next_offset}"
            for state, before in states
            if before is not None and state.next_offset is not None and state.next_offset < before
        ]
        if back:
            self.losses = (*self.losses, f"progress was set back: {', '.join(back)}"[:REASON_CHARACTERS_MAX])[-LOSSES_MAX:]

    def enter(self, stage: str, now_ms: float) -> None:
        """The owner begins ``stage``."""
        if stage != self.stage:
            self.stage, self.stage_since_ms = stage, now_ms

    def fail(self, error: str, *, may_pass: bool, now_ms: float = 0.0) -> None:
        """The step ended with ``error`` in the stage entered last, at monotonic ``now_ms``."""
        self.error, self.error_may_pass = error[:REASON_CHARACTERS_MAX], may_pass
        if self.failing_since_ms is None:
            self.failing_since_ms = now_ms

    def recover(self) -> None:
        """The step ended well."""
        self.error, self.failing_since_ms = "", None

    def failing_too_long(self, now_ms: float) -> bool:
        """No step has ended well for two intervals, whether records are known to wait or not."""
        return self.failing_since_ms is not None and now_ms - self.failing_since_ms > self._patience_ms

    def see_lag(self, lag_records: int, now_ms: float) -> None:
        """Records wait now, or none does."""
        self.lag_records = lag_records
        if lag_records == 0:
            self.waiting_since_ms = None
        elif self.waiting_since_ms is None:
            self.waiting_since_ms = now_ms

    def overdue(self, now_ms: float) -> bool:
        """Records have waited for two intervals with no commit."""
        return self.waiting_since_ms is not None and now_ms - self.waiting_since_ms > self._patience_ms

    @property
    def _patience_ms(self) -> int:
        return max(2 * self.interval_ms, OVERDUE_MIN_MS)


def status_of(board: Board, *, now_ms: int, monotonic_ms: float, trouble: str | None) -> LandingStatus:
    """The record to publish. ``trouble`` is what the committer says about an undecided commit."""
    state, stage, reason = _verdict(board, monotonic_ms, trouble)
    topic, partition = "", -1
    if not board.error and board.bad_partitions:
        topic, partition = board.bad_partitions[0].topic, int(board.bad_partitions[0].key.partition)
    elif state in ("failed", "stalled"):
        topic, partition = ",".join(board.topics)[:REASON_CHARACTERS_MAX], board.waiting_partition
    return LandingStatus(
        table=board.table,
        state=state,
        stage=stage,
        reason=reason,
        topic=topic,
        partition=partition,
        freshness_ms=board.freshness_ms,
        behind_records=board.lag_records,
        rows_landed=board.rows_landed,
        rows_rejected=board.rows_rejected,
        updated_ms=now_ms,
        last_commit_ms=board.last_commit_ms,
        snapshot_id=board.snapshot_id,
    )


def _verdict(board: Board, monotonic_ms: float, trouble: str | None) -> tuple[str, str, str]:
    """State, stage, reason."""
    if board.paused:
        return "paused", "", "option paused"
    if board.error:
        return ("stalled" if board.error_may_pass else "failed"), board.stage, board.error
    if board.bad_partitions:
        worst = board.bad_partitions[0]
        more = f" (and {len(board.bad_partitions) - 1} more partitions)" if len(board.bad_partitions) > 1 else ""
        state = "stalled" if all(bad.may_pass for bad in board.bad_partitions) else "failed"
        return state, worst.stage, worst.why[: REASON_CHARACTERS_MAX - len(more)] + more
    if board.behind:
        return ("stalled" if board.behind_may_pass else "failed"), board.behind_stage, board.behind
    if trouble is not None and board.overdue(monotonic_ms):
        return "stalled", "commit", trouble[:REASON_CHARACTERS_MAX]
    if board.overdue(monotonic_ms):
        return "stalled", board.stage, f"records wait, nothing was committed for two intervals, stage {board.stage} is not done"
    if board.alarm:
        return "alert", "deadletter", board.alarm
    if board.notes:
        return "alert", "route", "; ".join(board.notes)[:REASON_CHARACTERS_MAX]
    absent = [f"no topic {name}" for name in board.absent]
    done = ["done: everything up to the end of option to is landed"] if board.done else []
    advice = [board.advice] if board.advice else []
    note = "; ".join([*absent, *done, *board.losses, *advice])[:REASON_CHARACTERS_MAX]
    return ("idle" if board.lag_records == 0 else "running"), "", note


@dataclass(slots=True, kw_only=True)
class StatusBook:
    """Publishes statuses: at once when a state changes, otherwise when numbers changed and a few intervals have passed."""

    store: MetadataStore
    interval_ms: int
    written: dict[str, LandingStatus] = field(default_factory=dict)

    async def publish(self, statuses: Sequence[LandingStatus], *, all_of_them: bool = False) -> None:
        """Writes what is worth writing. Raises RetryLater."""
        for status in statuses:
            last = self.written.get(status.table)
            if last is not None and not all_of_them and not self._worth(last, status):
                continue
            await put_status(self.store, status)
            self.written[status.table] = status

    def forget(self, table: str) -> None:
        """The table is not landed any more."""
        self.written.pop(table, None)

    def _worth(self, last: LandingStatus, status: LandingStatus) -> bool:
        """Trouble and its end, and each commit, at once; running and idle take turns all day and can wait."""
        well = last.state in _WELL and status.state in _WELL
        if _story(last) != _story(status) and not (well and _story(last)[1:] == _story(status)[1:]):
            return True
        if last.snapshot_id != status.snapshot_id:
            return True
        changed = replace(last, updated_ms=0) != replace(status, updated_ms=0)
        age_ms = status.updated_ms - last.updated_ms
        return age_ms >= _ALIVE_MS or (changed and age_ms >= _REFRESH_INTERVALS * self.interval_ms)


def _story(status: LandingStatus) -> tuple[str, str, str, str, int]:
    return status.state, status.stage, status.reason, status.topic, status.partition
