"""The errors of requests to consumer instances, with the codes of Confluent's REST Proxy."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError

from ottla.rest import kafka_errors
from ottla.web.errors import ApiError

INSTANCE_NOT_FOUND: Final = 40403
FORMAT_MISMATCH: Final = 40601
ALREADY_EXISTS: Final = 40902
ILLEGAL_STATE: Final = 40903
UNDECODABLE: Final = 42207

_TOPIC_UNKNOWN: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})
_GROUP_IN_MOTION: Final = frozenset(
    {KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID}
)

PASSING: Final = _TOPIC_UNKNOWN | {
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._MAX_POLL_EXCEEDED,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
}
"""Errors that a read waits out: the topic may be created yet, the broker come back."""


def illegal_state(reason: str) -> ApiError:
    """A request that does not fit the state of its instance."""
    return ApiError(409, ILLEGAL_STATE, f"Illegal state: {reason}")


def instance_not_found() -> ApiError:
    """The instance does not exist, or not any more."""
    return ApiError(404, INSTANCE_NOT_FOUND, "Consumer instance not found.")


def of_kafka(error: KafkaError) -> ApiError:
    """A Kafka error. 40403 stands for a missing instance, so topics and partitions have other codes."""
    code = error.code()
    if code in _TOPIC_UNKNOWN:
        return ApiError(404, 40401, "Topic not found.")
    if code == KafkaError._UNKNOWN_PARTITION:
        return ApiError(404, 40402, "Partition not found.")
    if code == KafkaError._STATE:
        return illegal_state(error.str())
    if code in _GROUP_IN_MOTION:
        return ApiError(500, 50003, f"The group is being rebalanced; try again: {error.str()}")
    return kafka_errors.of_kafka_error(error)
