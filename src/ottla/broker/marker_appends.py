"""Appends the markers that end a transaction to partitions led here, and tells when they are committed.

A transaction's end counts only when it can't be lost: a marker that a new leader does not have would leave
the transaction open there, with nobody to end it. So a marker is reported as written once it is below the
high watermark, which with one replica it is at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.core.metadata import broker_settings
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger("ottla.broker.transactions")

TopicPartition = tuple[str, int]


class TransactionEnd(NamedTuple):
    """What a marker says."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int


class AppendedMarker(NamedTuple):
    """A marker that waits for its partition's other replicas."""

    partition: TopicPartition
    offset: int
    leader_epoch: int


class MarkerAppends(NamedTuple):
    """What came of the appends: settled for some partitions, others wait."""

    errors: dict[TopicPartition, ErrorCode]
    uncommitted: list[AppendedMarker]


def append_markers(
    broker: Broker, end: TransactionEnd, partitions: Sequence[TopicPartition]
) -> MarkerAppends:
    """Append a marker to each of the partitions. Raises nothing."""
    appends = MarkerAppends({}, [])
    for partition in partitions:
        _append(broker, end, partition, appends)
    return appends


def _append(broker: Broker, end: TransactionEnd, partition: TopicPartition, appends: MarkerAppends) -> None:
    topic, index = partition
    try:
        offset = broker.replicas.append_end_transaction_marker(
            topic,
            index,
            end.producer_id,
            end.producer_epoch,
            end.coordinator_epoch,
            end.committed,
            transaction_version=end.transaction_version,
        )
        held = broker.replicas.partition(topic, index)
    except KafkaError as error:
        appends.errors[partition] = error.code
    except OSError as problem:
        log.error("append of a marker failed topic=%s partition=%d error=%s", topic, index, problem)
        appends.errors[partition] = ErrorCode.KAFKA_STORAGE_ERROR
    else:
        if held.high_watermark > offset:
            appends.errors[partition] = ErrorCode.NONE
        else:
            appends.uncommitted.append(AppendedMarker(partition, offset, held.leader.leader_epoch))


async def until_committed(
    broker: Broker, appended: Iterable[AppendedMarker]
) -> dict[TopicPartition, ErrorCode]:
    """Wait for the markers, for request.timeout.ms at most; what became of each. Raises nothing."""
    deadline = broker.loop.time() + broker.config[broker_settings.REQUEST_TIMEOUT_MS] / 1000
    return {each.partition: await _outcome(broker, each, deadline) for each in appended}


async def _outcome(broker: Broker, appended: AppendedMarker, deadline: float) -> ErrorCode:
    changed = asyncio.Event()
    topic, index = appended.partition
    try:
        partition = broker.replicas.partition(topic, index)
        partition.add_waiter(changed.set)
        try:
            async with asyncio.timeout_at(deadline):
                while partition.leader.leader_epoch == appended.leader_epoch:
                    if partition.high_watermark > appended.offset:
                        return ErrorCode.NONE
                    changed.clear()
                    await changed.wait()
                    partition = broker.replicas.partition(topic, index)
        finally:
            partition.remove_waiter(changed.set)
    except KafkaError as error:
        return error.code
    except TimeoutError:
        return ErrorCode.REQUEST_TIMED_OUT
    return ErrorCode.NOT_LEADER_OR_FOLLOWER
