"""Kafka error codes, and the one table from our error tree to them (house rule 10).

Codes are those of the Kafka protocol, `Errors`. Only codes that this broker can answer are named.
"""

from __future__ import annotations

from enum import IntEnum

from frazil.kit.errors import Bug, Conflict, Corrupt, FrazilError, Missing, OutcomeUnknown, Refused, RetryLater


class ErrorCode(IntEnum):
    """Kafka error codes; 0 is success."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    KAFKA_STORAGE_ERROR = 56
    UNKNOWN_PRODUCER_ID = 59
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNKNOWN_TOPIC_ID = 100


_BY_KIND: tuple[tuple[type[FrazilError], ErrorCode], ...] = (
    # The first row that matches wins, so subclasses stand before their parents.
    (OutcomeUnknown, ErrorCode.REQUEST_TIMED_OUT),
    (RetryLater, ErrorCode.REQUEST_TIMED_OUT),
    (Conflict, ErrorCode.INVALID_REQUEST),
    (Refused, ErrorCode.INVALID_REQUEST),
    (Missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (Corrupt, ErrorCode.KAFKA_STORAGE_ERROR),
    (Bug, ErrorCode.UNKNOWN_SERVER_ERROR),
)


def code_of(error: FrazilError) -> ErrorCode:
    """The code a client is told when ``error`` ends its request. Handlers answer finer codes where they know more."""
    for kind, code in _BY_KIND:
        if isinstance(error, kind):
            return code
    return ErrorCode.UNKNOWN_SERVER_ERROR
