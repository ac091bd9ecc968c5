"""Appends the markers that end a transaction to partitions led here, and tells when they are committed.

A transaction's end counts only when it can't be lost: a marker that a new leader does not have would leave
the transaction open there for ever. So a marker is reported as written once it is below the high watermark,
which with one replica it is at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ottla.broker.parts import Cluster
from ottla.core.settings import broker_settings
from ottla.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger("ottla.broker.transactions")

TopicPartition = tuple[str, int]


class MarkedPartition(Protocol):
    """A partition led here that got a marker."""

    @property
    def high_watermark(self) -> int:
        """The first offset that is not known to be committed."""
        ...

    async def committed(self, end_offset: int, timeout_ms: int) -> ErrorCode:
        """Wait until all below an offset is committed; the reason if it is not."""
        ...


class LedPartitions(Protocol):
    """The partitions that are led here."""

    def partition(self, topic: str, index: int) -> MarkedPartition:
        """The partition as its leader. Raises KafkaError."""
        ...


class AppendsMarkers(Protocol):
    """Appends markers, as `InternalAppends` does."""

    def append_end_transaction_marker(
        self,
        topic: str,
        index: int,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,
        *,
        transaction_version: int,
    ) -> int:
        """End a producer's transaction in a partition; returns the marker's offset."""
        ...


class MarkersNode(Cluster, Protocol):
    """The members of a node that appends of markers use."""

    @property
    def partitions(self) -> LedPartitions:
        """The partitions with a replica here."""
        ...

    @property
    def internal_appends(self) -> AppendsMarkers:
        """Appends of this broker's own records."""
        ...


class TransactionEnd(NamedTuple):
    """The content of a marker."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int


class AppendedMarker(NamedTuple):
    """A marker that waits for its partition's other replicas."""

    partition: TopicPartition
    held: MarkedPartition
    offset: int


class MarkerAppends(NamedTuple):
    """The outcome of the appends: settled for some partitions, while others wait."""

    errors: dict[TopicPartition, ErrorCode]
    uncommitted: list[AppendedMarker]


def append_markers(
    node: MarkersNode, end: TransactionEnd, partitions: Sequence[TopicPartition]
) -> MarkerAppends:
    """Append a marker to each of the partitions. Raises nothing."""
    appends = MarkerAppends({}, [])
    for partition in partitions:
        _append(node, end, partition, appends)
    return appends


def _append(
    node: MarkersNode, end: TransactionEnd, partition: TopicPartition, appends: MarkerAppends
) -> None:
    topic, index = partition
    try:
        offset = node.internal_appends.append_end_transaction_marker(
            topic,
            index,
            end.producer_id,
            end.producer_epoch,
            end.coordinator_epoch,
            end.committed,
            transaction_version=end.transaction_version,
        )
        held = node.partitions.partition(topic, index)
    except KafkaError as error:
        appends.errors[partition] = error.code
    except OSError as problem:
        log.error("append of a marker failed topic=%s partition=%d error=%s", topic, index, problem)
        appends.errors[partition] = ErrorCode.KAFKA_STORAGE_ERROR
    else:
        if held.high_watermark > offset:
            appends.errors[partition] = ErrorCode.NONE
        else:
            appends.uncommitted.append(AppendedMarker(partition, held, offset))


async def until_committed(
    node: MarkersNode, appended: Sequence[AppendedMarker]
) -> dict[TopicPartition, ErrorCode]:
    """Wait for the markers, for request.timeout.ms at most. Returns the error of each. Raises nothing."""
    timeout_ms = node.config[broker_settings.REQUEST_TIMEOUT_MS]
    codes = await asyncio.gather(*(each.held.committed(each.offset + 1, timeout_ms) for each in appended))
    return {each.partition: code for each, code in zip(appended, codes, strict=True)}
