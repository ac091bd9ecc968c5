"""Fetches record batches of many partitions from their leaders, a bounded number of bytes at a time.

For looking at records here and there (`first_record_times`, `ottla log dump`), not for reading topics fast.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.cluster_requests import ClusterRequests, TopicPartition, refusal
from ottla.client.errors import ClusterError
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.fetch_response import FetchResponse

MAX_RESPONSE_BYTES: Final = 8 * 1024 * 1024
"""An answer is larger only where its first batch is."""
FINAL_EPOCH: Final = -1
"""A fetch outside of a session (KIP-227)."""


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """Batches of a partition, the last of which may be cut; none at its end, or if the answer was full.

    end: of the log for its reader: the high watermark, or the last stable offset for committed records.
    aborted: (first offset, producer id) of the aborted transactions among them, for that reader.
    """

    records: bytes
    log_start_offset: int
    high_watermark: int
    end: int
    aborted: tuple[tuple[int, int], ...] = ()


async def fetch_batches(
    client: ClusterRequests,
    offsets: Mapping[TopicPartition, int],
    partition_max_bytes: int,
    seconds: float | None = None,
    *,
    committed: bool = False,
) -> dict[TopicPartition, FetchedPartition | ClusterError]:
    """Batches from each partition's offset on, control batches and aborted ones too; or its error.

    committed: only up to the last stable offset, else uncommitted ones too.

    At least one whole batch of the first partition of a leader that has any; other partitions may come back
    empty, and are asked for again by the caller. An offset that is not in the log is OFFSET_OUT_OF_RANGE.
    """
    names: dict[uuid.UUID, str] = {}

    def request(some: Sequence[TopicPartition]) -> FetchRequest:
        topics: dict[str, FetchTopic] = {}
        for one in some:
            if one.topic not in topics:
                topic_id = client.topic_id(one.topic)
                names[topic_id] = one.topic
                topics[one.topic] = FetchTopic(topic=one.topic, topic_id=topic_id)
            topics[one.topic].partitions.append(
                FetchPartition(
                    partition=one.partition,
                    fetch_offset=offsets[one],
                    partition_max_bytes=partition_max_bytes,
                )
            )
        return FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=MAX_RESPONSE_BYTES,
            isolation_level=int(committed),
            session_epoch=FINAL_EPOCH,
            topics=list(topics.values()),
        )

    def parts(answer: Any) -> Iterable[tuple[TopicPartition, int, FetchedPartition | ClusterError]]:
        for topic in answer.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for one in topic.partitions:
                partition = TopicPartition(name, one.partition_index)
                found: FetchedPartition | ClusterError = FetchedPartition(
                    bytes(one.records or b""),
                    one.log_start_offset,
                    one.high_watermark,
                    one.last_stable_offset if committed else one.high_watermark,
                    tuple((each.first_offset, each.producer_id) for each in one.aborted_transactions or ()),
                )
                if one.error_code or answer.error_code:
                    found = refusal(one.error_code or answer.error_code, None, str(partition))
                yield partition, one.error_code or answer.error_code, found

    return await client.ask_leaders(offsets, request, FetchResponse, parts, seconds)
