"""Offsets of partitions by name or time, or the error of the first partition that has none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.admin.partition_offsets import LATEST, list_offsets
from ottla.client.cluster_requests import ClusterRequests, TopicPartition
from ottla.client.errors import ClusterError


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
    offsets: dict[TopicPartition, int] = {}
    for partition, found in (await list_offsets(cluster, times, committed=read_committed)).items():
        if isinstance(found, ClusterError):
            raise found
        offsets[partition] = found.offset
    return offsets
