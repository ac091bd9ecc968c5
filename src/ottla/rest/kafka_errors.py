"""Kafka's errors over HTTP: the one table of their status, error_code and message."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from confluent_kafka import KafkaError

from ottla.protocol.errors import ErrorCode
from ottla.web.errors import ApiError

UNAUTHENTICATED: Final = (401, 40101)
FORBIDDEN: Final = (403, 40301)
UNKNOWN: Final = (404, 40403)
REFUSED: Final = (400, 40002)
UNSUPPORTED: Final = (400, 40035)
FAILED: Final = (500, 50002)
RETRIABLE: Final = (500, 50003)

NO_SUCH_PARTITION: Final = "This server does not host this topic-partition."
UNSUPPORTED_BY_CLUSTER: Final = "The version of this API is not supported in the underlying Kafka cluster."


class _Local(IntEnum):
    """librdkafka's own errors, with numbers below those of brokers."""

    UNKNOWN_PARTITION = KafkaError._UNKNOWN_PARTITION
    UNKNOWN_TOPIC = KafkaError._UNKNOWN_TOPIC
    INVALID_ARG = KafkaError._INVALID_ARG
    AUTHENTICATION = KafkaError._AUTHENTICATION
    UNSUPPORTED_FEATURE = KafkaError._UNSUPPORTED_FEATURE
    TIMED_OUT = KafkaError._TIMED_OUT
    TIMED_OUT_QUEUE = KafkaError._TIMED_OUT_QUEUE
    TRANSPORT = KafkaError._TRANSPORT
    ALL_BROKERS_DOWN = KafkaError._ALL_BROKERS_DOWN
    RESOLVE = KafkaError._RESOLVE
    WAIT_COORDINATOR = KafkaError._WAIT_COORD
    LEADER_CHANGED = KafkaError._WAIT_CACHE
    QUEUE_FULL = KafkaError._QUEUE_FULL
    PURGED_QUEUE = KafkaError._PURGE_QUEUE
    PURGED_IN_FLIGHT = KafkaError._PURGE_INFLIGHT
    NO_LEADER = KafkaError._NOENT


_STATUS: Final[Mapping[int, tuple[int, int]]] = {
    ErrorCode.SASL_AUTHENTICATION_FAILED: UNAUTHENTICATED,
    _Local.AUTHENTICATION: UNAUTHENTICATED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: FORBIDDEN,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: FORBIDDEN,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: FORBIDDEN,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: FORBIDDEN,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: FORBIDDEN,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UNKNOWN,
    ErrorCode.UNKNOWN_TOPIC_ID: UNKNOWN,
    ErrorCode.GROUP_ID_NOT_FOUND: UNKNOWN,
    _Local.UNKNOWN_TOPIC: UNKNOWN,
    _Local.UNKNOWN_PARTITION: UNKNOWN,
    ErrorCode.INVALID_TOPIC_EXCEPTION: REFUSED,
    ErrorCode.INVALID_GROUP_ID: REFUSED,
    ErrorCode.TOPIC_ALREADY_EXISTS: REFUSED,
    ErrorCode.INVALID_PARTITIONS: REFUSED,
    ErrorCode.INVALID_REPLICATION_FACTOR: REFUSED,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: REFUSED,
    ErrorCode.INVALID_CONFIG: REFUSED,
    ErrorCode.INVALID_REQUEST: REFUSED,
    ErrorCode.INVALID_PRINCIPAL_TYPE: REFUSED,
    ErrorCode.POLICY_VIOLATION: REFUSED,
    ErrorCode.SECURITY_DISABLED: REFUSED,
    ErrorCode.RESOURCE_NOT_FOUND: REFUSED,
    ErrorCode.TOPIC_DELETION_DISABLED: REFUSED,
    _Local.INVALID_ARG: REFUSED,
    ErrorCode.UNSUPPORTED_VERSION: UNSUPPORTED,
    _Local.UNSUPPORTED_FEATURE: UNSUPPORTED,
    _Local.TIMED_OUT: RETRIABLE,
    _Local.TIMED_OUT_QUEUE: RETRIABLE,
    _Local.TRANSPORT: RETRIABLE,
    _Local.ALL_BROKERS_DOWN: RETRIABLE,
    _Local.RESOLVE: RETRIABLE,
    _Local.WAIT_COORDINATOR: RETRIABLE,
    _Local.LEADER_CHANGED: RETRIABLE,
    _Local.QUEUE_FULL: RETRIABLE,
    _Local.PURGED_QUEUE: RETRIABLE,
    _Local.PURGED_IN_FLIGHT: RETRIABLE,
    _Local.NO_LEADER: RETRIABLE,
}
_MESSAGES: Final[Mapping[int, str]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: NO_SUCH_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID: NO_SUCH_PARTITION,
    _Local.UNKNOWN_TOPIC: NO_SUCH_PARTITION,
    _Local.UNKNOWN_PARTITION: NO_SUCH_PARTITION,
    ErrorCode.UNSUPPORTED_VERSION: UNSUPPORTED_BY_CLUSTER,
    _Local.UNSUPPORTED_FEATURE: UNSUPPORTED_BY_CLUSTER,
}


def of_code(code: int, message: str | None = None) -> ApiError:
    """The answer to an error code of a broker or of librdkafka, and the message that came with it, if any."""
    status, error_code = _STATUS.get(code, FAILED)
    if code > 0 and (status, error_code) == FAILED and ErrorCode(code).retriable:
        status, error_code = RETRIABLE
    if code in _MESSAGES:
        message = _MESSAGES[code]
    elif not message:
        text = ErrorCode(code).message if code >= -1 else "The Kafka client failed"
        message = f"{text[:1].upper()}{text[1:]}."
    return ApiError(status, error_code, message)


def raise_for(code: int, message: str | None) -> None:
    """Raises the ApiError of an error code; nothing for NONE."""
    if code != ErrorCode.NONE:
        raise of_code(code, message)


def of_kafka_error(error: KafkaError) -> ApiError:
    """The answer to an error of a confluent-kafka client."""
    text = error.str().rstrip()
    # the broker sent no message: these are librdkafka's own words, or its prefix without a message
    return of_code(error.code(), None if text.startswith("Broker: ") or text.endswith(":") else text)


def unreachable(problem: str) -> ApiError:
    """The answer when the cluster does not respond, or not in time."""
    return ApiError(*RETRIABLE, problem)
