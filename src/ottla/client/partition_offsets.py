"""Offsets of partitions from their leaders: the first, the end, the first at a timestamp (ListOffsets)."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.client.cluster_requests import ClusterRequests, TopicPartition, refusal
from ottla.client.errors import ClusterError
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.list_offsets_response import ListOffsetsResponse

READ_UNCOMMITTED: Final = 0
CONSUMER: Final = -1
"""The replica id of clients."""


class Special(enum.IntEnum):
    """Timestamps with a meaning of their own."""

    LATEST = -1
    EARLIEST = -2


class OffsetAt(NamedTuple):
    """An answer: the offset and its record's timestamp. -1 for none: no record is as young."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


async def offsets_at(
    client: ClusterRequests, timestamps: Mapping[TopicPartition, int], seconds: float | None = None
) -> dict[TopicPartition, OffsetAt | ClusterError]:
    """The first offset at or after each partition's timestamp, or its end or start for LATEST or EARLIEST.

    seconds: to wait for a partition without a leader; None for the client's timeout.
    """

    def request(some: Sequence[TopicPartition]) -> ListOffsetsRequest:
        topics: dict[str, ListOffsetsTopic] = {}
        for one in some:
            topic = topics.setdefault(one.topic, ListOffsetsTopic(name=one.topic))
            topic.partitions.append(
                ListOffsetsPartition(partition_index=one.partition, timestamp=timestamps[one])
            )
        return ListOffsetsRequest(
            replica_id=CONSUMER,
            isolation_level=READ_UNCOMMITTED,
            topics=list(topics.values()),
            timeout_ms=client.timeout_ms,
        )

    def parts(answer: Any) -> Iterable[tuple[TopicPartition, int, OffsetAt | ClusterError]]:
        for topic in answer.topics:
            for one in topic.partitions:
                partition = TopicPartition(topic.name, one.partition_index)
                found: OffsetAt | ClusterError = OffsetAt(one.offset, one.timestamp, one.leader_epoch)
                if one.error_code:
                    found = refusal(one.error_code, None, str(partition))
                yield partition, one.error_code, found

    return await client.ask_leaders(timestamps, request, ListOffsetsResponse, parts, seconds)


async def ends(
    client: ClusterRequests, partitions: Iterable[TopicPartition], seconds: float | None = None
) -> dict[TopicPartition, OffsetAt | ClusterError]:
    """The end of each partition: its high watermark."""
    return await offsets_at(client, dict.fromkeys(partitions, int(Special.LATEST)), seconds)


async def starts(
    client: ClusterRequests, partitions: Iterable[TopicPartition], seconds: float | None = None
) -> dict[TopicPartition, OffsetAt | ClusterError]:
    """The first offset of each partition."""
    return await offsets_at(client, dict.fromkeys(partitions, int(Special.EARLIEST)), seconds)
