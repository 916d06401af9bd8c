"""The one table from our error tree to Kafka's error codes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from frazil.kit.errors import Bug, Conflict, Corrupt, FrazilError, Missing, OutcomeUnknown, Refused, RetryLater
from frazil.log.append import AppendFault, FaultKind
from frazil.wire.errors import ErrorCode

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


_BY_FAULT: Mapping[FaultKind, ErrorCode] = MappingProxyType({
    FaultKind.OUT_OF_ORDER_SEQUENCE: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    FaultKind.INVALID_PRODUCER_EPOCH: ErrorCode.INVALID_PRODUCER_EPOCH,
    FaultKind.DUPLICATE_SEQUENCE: ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    FaultKind.RETRY: ErrorCode.REQUEST_TIMED_OUT,
})


def code_of_fault(fault: AppendFault) -> ErrorCode:
    """The code for one partition that the log did not take."""
    return _BY_FAULT[fault.kind]
