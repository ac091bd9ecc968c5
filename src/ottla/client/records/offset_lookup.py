"""Offsets of partitions by name or time, from their leaders (ListOffsets)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.client.cluster_requests import ClusterRequests, TopicPartition, by_topic
from ottla.client.errors import ClusterError
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.list_offsets_response import ListOffsetsResponse

LATEST: Final = -1
"""The end: the high watermark, or the last stable offset for read_committed."""
EARLIEST: Final = -2
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1


async def offsets_at(
    cluster: ClusterRequests,
    wanted: Mapping[TopicPartition, int] | Iterable[TopicPartition],
    timestamp_ms: int = LATEST,
    *,
    read_committed: bool = False,
) -> dict[TopicPartition, int]:
    """The offset of each partition at a time in ms, LATEST or EARLIEST; -1 where no record is so new.

    wanted: partitions, or partitions with a time of their own. Raises ClusterError.
    """
    times = dict(wanted) if isinstance(wanted, Mapping) else dict.fromkeys(wanted, timestamp_ms)

    def request(partitions: Sequence[TopicPartition]) -> ListOffsetsRequest:
        return ListOffsetsRequest(
            replica_id=-1,
            isolation_level=READ_COMMITTED if read_committed else READ_UNCOMMITTED,
            topics=[
                ListOffsetsTopic(
                    name=name,
                    partitions=[
                        ListOffsetsPartition(
                            partition_index=index, timestamp=times[TopicPartition(name, index)]
                        )
                        for index in indexes
                    ],
                )
                for name, indexes in by_topic(partitions).items()
            ],
            timeout_ms=cluster.timeout_ms,
        )

    def parts(answer: ListOffsetsResponse) -> Iterable[tuple[TopicPartition, int, tuple[int, int]]]:
        for topic in answer.topics:
            for one in topic.partitions:
                place = TopicPartition(topic.name, one.partition_index)
                yield place, one.error_code, (one.error_code, one.offset)

    found: dict[TopicPartition, int] = {}
    for partition, value in (
        await cluster.ask_leaders(list(times), request, ListOffsetsResponse, parts)
    ).items():
        if isinstance(value, ClusterError):
            raise value
        code, offset = value
        if code:
            from ottla.client.cluster_requests import refusal

            raise refusal(code, None, str(partition))
        found[partition] = offset
    return found
