"""Offsets of partitions: looked up by their leaders (ListOffsets), and raised by deleting what is before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client.cluster_requests import ClusterRequests, TopicPartition, by_topic, refusal
from ottla.client.errors import ClusterError
from ottla.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.delete_records_response import DeleteRecordsResponse
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.list_offsets_response import ListOffsetsResponse

LATEST: Final = -1
"""The end: the high watermark, or the last stable offset for a reader of committed records."""
EARLIEST: Final = -2
"""The start: the first offset that can be read."""
ALL_RECORDS: Final = -1
"""For `delete_records`: up to the high watermark."""
NO_OFFSET: Final = -1
"""Found when no record is as late as the timestamp that was asked for."""
CLIENT: Final = -1


@dataclass(frozen=True, slots=True)
class FoundOffset:
    """An offset (NO_OFFSET for none), the timestamp of its record in ms (-1 for none), its leader epoch."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


async def list_offsets(
    requests: ClusterRequests,
    wanted: Mapping[TopicPartition, int],
    *,
    committed: bool = False,
    seconds: float | None = None,
) -> dict[TopicPartition, FoundOffset | ClusterError]:
    """The offset of each partition for LATEST, EARLIEST, or a time in ms since the epoch.

    For a time it is the first offset whose timestamp is as late. committed: LATEST is the last stable offset.
    seconds: how long a partition without a leader is waited for. Raises ClusterError where none can be asked.
    """

    def request(partitions: Sequence[TopicPartition]) -> ListOffsetsRequest:
        topics = [
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(
                        partition_index=index, timestamp=wanted[TopicPartition(topic, index)]
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(partitions).items()
        ]
        return ListOffsetsRequest(
            replica_id=CLIENT,
            isolation_level=int(committed),
            topics=topics,
            timeout_ms=requests.timeout_ms,
        )

    def parts(
        answer: ListOffsetsResponse,
    ) -> Iterator[tuple[TopicPartition, int, FoundOffset | ClusterError]]:
        for topic in answer.topics:
            for one in topic.partitions:
                key = TopicPartition(topic.name, one.partition_index)
                found = FoundOffset(one.offset, one.timestamp, one.leader_epoch)
                code = one.error_code
                yield key, code, refusal(code, None, str(key)) if code else found

    return await requests.ask_leaders(wanted, request, ListOffsetsResponse, parts, seconds)


async def delete_records(
    requests: ClusterRequests, before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | ClusterError]:
    """Delete the records of each partition before an offset, or ALL_RECORDS; the new start of each."""

    def request(partitions: Sequence[TopicPartition]) -> DeleteRecordsRequest:
        topics = [
            DeleteRecordsTopic(
                name=topic,
                partitions=[
                    DeleteRecordsPartition(partition_index=index, offset=before[TopicPartition(topic, index)])
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(partitions).items()
        ]
        return DeleteRecordsRequest(topics=topics, timeout_ms=requests.timeout_ms)

    def parts(answer: DeleteRecordsResponse) -> Iterator[tuple[TopicPartition, int, int | ClusterError]]:
        for topic in answer.topics:
            for one in topic.partitions:
                key = TopicPartition(topic.name, one.partition_index)
                code = one.error_code
                yield key, code, refusal(code, None, str(key)) if code else one.low_watermark

    return await requests.ask_leaders(before, request, DeleteRecordsResponse, parts)
