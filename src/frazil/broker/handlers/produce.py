"""Produce (key 0), versions 0-11: takes batches for any partitions and answers when they are durable.

3-11 are served; 0-2 carry message formats that are gone and are answered with UNSUPPORTED_FOR_MESSAGE_FORMAT, but are
advertised, since old librdkafka otherwise sends gzip, snappy and lz4 data uncompressed (KAFKA-18659).

Per request: topics are resolved, each partition's batches are checked (magic, size, CRC, flags), everything good goes to
the log in one call, and the answer leaves when it is durable and has its offsets. acks 1 and -1 are alike; acks 0 takes
the same path unanswered, and a failure closes its connection, which is how Kafka tells such a client. Requests of one
connection reach the log in their order (R03). Idempotent producers (KIP-98) are checked by the log.

Deviations: batches are taken or refused whole, so record errors (KIP-467) are never sent; ``timeout_ms`` is not used (the
log has its own deadlines); several batches per partition are taken; transactional and control batches are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from frazil.broker.codes import code_of, code_of_fault
from frazil.broker.handlers.produce_old import decode_old_produce, encode_old_produce_response
from frazil.broker.registry import Call, Reply, Shape, handles
from frazil.broker.services import Services
from frazil.broker.topic_configs import TopicPolicy
from frazil.broker.topic_view import KnownTopic
from frazil.kit.errors import Bug, Corrupt, OutcomeUnknown, Refused, RetryLater
from frazil.kit.names import PartitionId, PartitionKey
from frazil.log.append import Answer, Appended, AppendFault, AppendRun, Outcome
from frazil.records import Batch, Codec, restamp, split_batches
from frazil.records.batches import BatchTooLarge
from frazil.wire.errors import ErrorCode
from frazil.wire.layout import Blob
from frazil.wire.messages.registry import ApiKey
from frazil.wire.produce import (
    ProduceCall,
    ProducedPartition,
    ProducedTopic,
    ProducePartition,
    ProduceTopic,
    decode_produce,
    encode_produce_response,
)

_FIRST_SERVED = 3
_FIRST_WITH_ZSTD = 7
_MAGIC_AT = 16
_MAGIC = 2
_ATTRIBUTES_TO_CHECK = ~0b11
"""Everything but the codecs that every version may send."""


@dataclass(slots=True)
class _Refusal(Exception):
    code: ErrorCode
    why: str


@dataclass(slots=True)
class _Good:
    """What goes to the log, and the places of its answers, side by side."""

    runs: list[AppendRun]
    waiting: list[ProducedPartition]


def _decode(version: int, frame: memoryview, position: int) -> ProduceCall:
    return decode_produce(version, frame, position) if version >= _FIRST_SERVED else decode_old_produce(version, frame, position)


def _encode(version: int, topics: Sequence[ProducedTopic]) -> Sequence[Blob]:
    if version < _FIRST_SERVED:
        return [encode_old_produce_response(version, topics)]
    return [encode_produce_response(version, topics)]


def _at_once(call: Call[ProduceCall], reply: Reply) -> bool:
    """The whole of it without a task, when the topics are known and the log has room; else the request's turn is announced."""
    services, session, request = call.services, call.session, call.message
    topics = [services.topics.known(topic.name) for topic in request.topics]
    if session.produce_gate.busy or None in topics or not services.appender.admits(_size(request)):
        session.produce_gate.announce()
        return False
    work = _Work(call, topics, None)
    if not work.runs:
        reply.give(work.conclude())
        return True

    def decided(answer: Answer) -> None:
        if isinstance(answer, OutcomeUnknown):
            reply.fail(answer)
        else:
            work.fill(answer)
            reply.give(work.conclude())

    if not services.appender.offer(work.runs, decided):
        raise Bug("the log refused a request that it had admitted")
    return True


@handles(ApiKey.PRODUCE, 0, 11, shape=Shape(decode=_decode, encode=_encode, fault_point="B5", at_once=_at_once))
async def produce(call: Call[ProduceCall]) -> Sequence[ProducedTopic] | None:
    """The way of a request that has to wait before it has its place in the order."""
    services, request = call.services, call.message
    # The gate is held until the log has the request: the order on this connection is the order in the log (R03).
    async with call.session.produce_gate:
        trouble: RetryLater | None = None
        topics = [services.topics.known(topic.name) for topic in request.topics]
        if None in topics:
            trouble = await _look_up(services, request)
            topics = [services.topics.known(topic.name) for topic in request.topics]
        work = _Work(call, topics, trouble)
        answer = await services.appender.enter(work.runs)
    work.fill(await answer)
    return work.conclude()


def _size(request: ProduceCall) -> int:
    return sum(len(partition.records or b"") for topic in request.topics for partition in topic.partitions)


class _Work:
    """A checked request: what goes to the log, the places of its answers beside it, and the response to be."""

    __slots__ = ("_call", "_topics", "_waiting", "runs")

    def __init__(self, call: Call[ProduceCall], topics: Sequence[KnownTopic | None], trouble: RetryLater | None) -> None:
        self._call = call
        self.runs: list[AppendRun] = []
        self._waiting: list[ProducedPartition] = []
        good = _Good(self.runs, self._waiting)
        self._topics = [
            _check_topic(call, asked, known, good, trouble) for asked, known in zip(call.message.topics, topics, strict=True)
        ]

    def fill(self, outcomes: Sequence[Outcome]) -> None:
        """What became of each run."""
        for partition, outcome in zip(self._waiting, outcomes, strict=True):
            if isinstance(outcome, Appended):
                partition.base_offset = outcome.base_offset
                partition.log_start_offset = outcome.log_start_offset
            elif isinstance(outcome, AppendFault):
                partition.error_code = code_of_fault(outcome)
                partition.error_message = outcome.why
            else:
                raise Bug("batches of one request were judged apart")

    def conclude(self) -> Sequence[ProducedTopic] | None:
        """The response; None for acks=0, where a failure can only be told by closing the connection."""
        if self._call.message.acks != 0:
            return self._topics
        failed = [f"{t.name}-{p.index}: {p.error_message}" for t in self._topics for p in t.partitions if p.error_code]
        if failed:
            self._call.session.close(f"produce with acks=0 failed: {', '.join(failed[:3])}")
        return None


async def _look_up(services: Services, request: ProduceCall) -> RetryLater | None:
    """Refreshes the topics if some are unknown; what went wrong, if anything."""
    try:
        await services.topics.find_all([topic.name for topic in request.topics])
    except RetryLater as error:
        return error
    return None


def _check_topic(
    call: Call[ProduceCall], asked: ProduceTopic, known: KnownTopic | None, good: _Good, trouble: RetryLater | None
) -> ProducedTopic:
    """Adds the topic's good partitions to ``good`` and answers the others at once."""
    answers = []
    for partition in asked.partitions:
        answer = ProducedPartition(partition.index)
        answers.append(answer)
        try:
            if known is None and trouble is not None:
                raise _Refusal(code_of(trouble), str(trouble))
            if known is None or not 0 <= partition.index < known.record.partitions:
                raise _Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{asked.name} has no partition {partition.index}")
            good.runs.append(_check_run(call, known, partition, answer))
            good.waiting.append(answer)
        except _Refusal as refusal:
            answer.error_code = refusal.code
            answer.error_message = refusal.why
    return ProducedTopic(asked.name, answers)


def _check_run(call: Call[ProduceCall], known: KnownTopic, asked: ProducePartition, answer: ProducedPartition) -> AppendRun:
    version = call.header.api_version
    data = _records(call.message, version, asked)
    policy = known.policy
    batches = _split(data, known, asked.index)
    for batch in batches:
        if batch.offset_count != batch.record_count:
            raise _Refusal(ErrorCode.INVALID_RECORD, f"{batch.record_count} records that take {batch.offset_count} offsets")
        if batch.attributes & _ATTRIBUTES_TO_CHECK:
            _check_attributes(batch, version)
    key = PartitionKey(known.record.topic_id, PartitionId(asked.index))
    if policy.bounded:
        _check_timestamps(batches, policy, call.services.clock.now_ms())
    if policy.log_append_time:
        # The stamp changes bytes under the CRC, so it happens before the bundle is built (R31).
        now_ms = call.services.clock.now_ms()
        data = memoryview(b"".join(restamp(data[b.position : b.position + b.length], now_ms) for b in batches))
        batches = split_batches(data, batch_bytes_max=policy.batch_bytes_max)
        answer.log_append_time_ms = now_ms
    return AppendRun(key=key, data=data, batches=batches)


def _records(request: ProduceCall, version: int, asked: ProducePartition) -> memoryview:
    if request.acks not in (-1, 0, 1):
        raise _Refusal(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}; use -1, 0 or 1")
    if request.transactional_id is not None:
        raise _Refusal(ErrorCode.INVALID_TXN_STATE, "transactions are not supported; produce without a transactional id")
    data = asked.records
    if not data:
        raise _Refusal(ErrorCode.INVALID_RECORD, "a produce request carries at least one batch per partition")
    if version < _FIRST_SERVED or (len(data) > _MAGIC_AT and data[_MAGIC_AT] != _MAGIC):
        raise _Refusal(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "message formats 0 and 1 are gone (KIP-724); send v2 batches")
    return data


def _split(data: memoryview, known: KnownTopic, partition: int) -> list[Batch]:
    try:
        return split_batches(data, batch_bytes_max=known.policy.batch_bytes_max)
    except BatchTooLarge as error:
        raise _Refusal(ErrorCode.MESSAGE_TOO_LARGE, f"{known.record.name}-{partition}: {error}") from error
    except Corrupt as error:
        raise _Refusal(ErrorCode.CORRUPT_MESSAGE, f"{known.record.name}-{partition}: {error}") from error


def _check_attributes(batch: Batch, version: int) -> None:
    """Flags that only the broker may set, and codecs that not every version may send."""
    if batch.is_control:
        raise _Refusal(ErrorCode.INVALID_RECORD, "clients may not write control batches")
    if batch.is_transactional:
        raise _Refusal(ErrorCode.INVALID_TXN_STATE, "transactions are not supported; produce without a transactional id")
    if batch.is_log_append_time:
        raise _Refusal(ErrorCode.INVALID_TIMESTAMP, "only the broker may stamp a batch with LogAppendTime")
    try:
        codec = batch.codec
    except Refused as error:
        raise _Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error)) from error
    if codec is Codec.ZSTD and version < _FIRST_WITH_ZSTD:
        raise _Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd may not be sent with Produce v{version} (KIP-110)")


def _check_timestamps(batches: Sequence[Batch], policy: TopicPolicy, now_ms: int) -> None:
    for batch in batches:
        newest, first = batch.max_timestamp_ms, batch.base_timestamp_ms
        if newest - now_ms > policy.after_max_ms:
            raise _Refusal(ErrorCode.INVALID_TIMESTAMP, f"timestamp {newest} is ahead by more than {policy.after_max_ms} ms")
        if first >= 0 and now_ms - first > policy.before_max_ms:
            raise _Refusal(ErrorCode.INVALID_TIMESTAMP, f"timestamp {first} is behind by more than {policy.before_max_ms} ms")
