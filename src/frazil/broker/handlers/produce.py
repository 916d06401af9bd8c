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
from frazil.broker.registry import Call, Shape, handles
from frazil.broker.services import Services
from frazil.broker.topic_configs import TopicPolicy
from frazil.kit.errors import Corrupt, Refused, RetryLater
from frazil.kit.names import PartitionId, PartitionKey
from frazil.log.append import Appended, AppendRun
from frazil.metadata.topics import TopicRecord
from frazil.records import Batch, Codec, restamp, split_batches
from frazil.records.batches import BatchTooLarge
from frazil.wire.errors import ErrorCode
from frazil.wire.layout import Blob
from frazil.wire.messages.registry import ApiKey
from frazil.wire.produce import (
    ProduceCall,
    ProducedPartition,
    ProducedTopic,
    ProduceTopic,
    decode_produce,
    encode_produce_response,
)

_FIRST_SERVED = 3
_FIRST_WITH_ZSTD = 7
_MAGIC_AT = 16


@dataclass(slots=True)
class _Refusal(Exception):
    code: ErrorCode
    why: str


def _decode(version: int, frame: memoryview, position: int) -> ProduceCall:
    return decode_produce(version, frame, position) if version >= _FIRST_SERVED else decode_old_produce(version, frame, position)


def _encode(version: int, topics: Sequence[ProducedTopic]) -> Sequence[Blob]:
    if version < _FIRST_SERVED:
        return [encode_old_produce_response(version, topics)]
    return [encode_produce_response(version, topics)]


@handles(ApiKey.PRODUCE, 0, 11, shape=Shape(decode=_decode, encode=_encode, fault_point="B5"))
async def produce(call: Call[ProduceCall]) -> Sequence[ProducedTopic] | None:
    """Checks, appends, answers."""
    request = call.message
    runs: list[AppendRun] = []
    waiting: list[ProducedPartition] = []
    gate = call.session.produce_gate
    unknown = [t.name for t in request.topics if call.services.topics.get(t.name) is None]
    if unknown or gate.locked():
        async with gate:
            trouble = await _look_up(call.services, unknown)
    else:
        trouble = None
    # No await from here to append: the order of requests on this connection is the order in the log (R03).
    answer = [_check_topic(call, topic, runs, waiting, trouble) for topic in request.topics]
    if runs:
        await _append(call.services, runs, waiting)
    if request.acks == 0:
        failed = [f"{t.name}-{p.index}: {p.error_message}" for t in answer for p in t.partitions if p.error_code]
        if failed:
            call.session.close(f"produce with acks=0 failed: {', '.join(failed[:3])}")
        return None
    return answer


async def _append(services: Services, runs: list[AppendRun], waiting: list[ProducedPartition]) -> None:
    """Appends and fills in what became of each partition."""
    try:
        outcomes = await services.appender.append(runs)
    except RetryLater as error:
        for partition in waiting:
            partition.error_code = code_of(error)
            partition.error_message = str(error)
        return
    for partition, outcome in zip(waiting, outcomes, strict=True):
        if isinstance(outcome, Appended):
            partition.base_offset = outcome.base_offset
            partition.log_start_offset = outcome.log_start_offset
        else:
            partition.error_code = code_of_fault(outcome)
            partition.error_message = outcome.why


async def _look_up(services: Services, unknown: list[str]) -> RetryLater | None:
    """Refreshes the topics if some are unknown; what went wrong, if anything."""
    try:
        await services.topics.find_all(unknown)
    except RetryLater as error:
        return error
    return None


def _check_topic(
    call: Call[ProduceCall], topic: ProduceTopic, runs: list[AppendRun], waiting: list[ProducedPartition], trouble: RetryLater | None
) -> ProducedTopic:
    """Adds the topic's good partitions to ``runs`` (their answers to ``waiting``) and answers the others at once."""
    record = call.services.topics.get(topic.name)
    answers = []
    for partition in topic.partitions:
        answer = ProducedPartition(partition.index)
        answers.append(answer)
        try:
            if record is None and trouble is not None:
                raise _Refusal(code_of(trouble), str(trouble))
            if record is None or not 0 <= partition.index < record.partitions:
                raise _Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic.name} has no partition {partition.index}")
            runs.append(_check_run(call, record, partition.index, partition.records, answer))
            waiting.append(answer)
        except _Refusal as refusal:
            answer.error_code = refusal.code
            answer.error_message = refusal.why
    return ProducedTopic(topic.name, answers)


def _check_run(
    call: Call[ProduceCall], record: TopicRecord, partition: int, data: memoryview | None, answer: ProducedPartition
) -> AppendRun:
    request = call.message
    if request.acks not in (-1, 0, 1):
        raise _Refusal(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}; use -1, 0 or 1")
    if request.transactional_id is not None:
        raise _Refusal(ErrorCode.INVALID_TXN_STATE, "transactions are not supported; produce without a transactional id")
    if not data:
        raise _Refusal(ErrorCode.INVALID_RECORD, "a produce request carries at least one batch per partition")
    if call.version < _FIRST_SERVED or (len(data) > _MAGIC_AT and data[_MAGIC_AT] != 2):
        raise _Refusal(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "message formats 0 and 1 are gone (KIP-724); send v2 batches")
    policy = call.services.topics.policy(record)
    try:
        batches = split_batches(data, batch_bytes_max=policy.batch_bytes_max, where=f"{record.name}-{partition}")
    except BatchTooLarge as error:
        raise _Refusal(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error
    except Corrupt as error:
        raise _Refusal(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    now_ms = call.services.clock.now_ms()
    for batch in batches:
        _check_batch(batch, call.version, policy, now_ms)
    key = PartitionKey(record.topic_id, PartitionId(partition))
    if policy.log_append_time:
        # The stamp changes bytes under the CRC, so it happens before the bundle is built (R31).
        data = memoryview(b"".join(restamp(data[b.position : b.position + b.length], now_ms) for b in batches))
        batches = split_batches(data, batch_bytes_max=policy.batch_bytes_max)
        answer.log_append_time_ms = now_ms
    return AppendRun(key=key, data=data, batches=batches)


def _check_batch(batch: Batch, version: int, policy: TopicPolicy, now_ms: int) -> None:
    if batch.is_control:
        raise _Refusal(ErrorCode.INVALID_RECORD, "clients may not write control batches")
    if batch.is_transactional:
        raise _Refusal(ErrorCode.INVALID_TXN_STATE, "transactions are not supported; produce without a transactional id")
    if batch.offset_count != batch.record_count:
        raise _Refusal(ErrorCode.INVALID_RECORD, f"{batch.record_count} records that take {batch.offset_count} offsets")
    if batch.is_log_append_time:
        raise _Refusal(ErrorCode.INVALID_TIMESTAMP, "only the broker may stamp a batch with LogAppendTime")
    try:
        codec = batch.codec
    except Refused as error:
        raise _Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error)) from error
    if codec is Codec.ZSTD and version < _FIRST_WITH_ZSTD:
        raise _Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd may not be sent with Produce v{version} (KIP-110)")
    if policy.log_append_time:
        return
    if batch.max_timestamp_ms - now_ms > policy.after_max_ms:
        raise _Refusal(ErrorCode.INVALID_TIMESTAMP, f"timestamp {batch.max_timestamp_ms} is ahead by more than {policy.after_max_ms} ms")
    if batch.base_timestamp_ms >= 0 and now_ms - batch.base_timestamp_ms > policy.before_max_ms:
        raise _Refusal(ErrorCode.INVALID_TIMESTAMP, f"timestamp {batch.base_timestamp_ms} is behind by more than {policy.before_max_ms} ms")
