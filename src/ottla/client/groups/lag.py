"""How far groups are behind: in records, and in time. Plain arithmetic over what was read of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.cluster_requests import TopicPartition
from ottla.client.groups.model import GroupDescription, GroupMember, GroupOffsets


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """A group in one partition. None for what there is not, or what is not known.

    lag: records between offset and end, control records counted; negative where the offset is beyond the
    end. lag_ms: the age of the first record that is not committed, 0 where all are.
    """

    topic: str
    partition: int
    offset: int | None
    log_end_offset: int | None
    lag: int | None
    lag_ms: int | None
    leader_epoch: int | None
    metadata: str
    member: GroupMember | None


def group_lag(
    group: GroupDescription,
    offsets: GroupOffsets,
    ends: Mapping[TopicPartition, int],
    first_times: Mapping[tuple[TopicPartition, int], int | None],
    now_ms: int,
) -> list[PartitionLag]:
    """The lag of each partition that the group has an offset for, or a member; sorted by topic and partition.

    ends: the partitions' ends, without those that are gone. first_times: the timestamp of the first record
    at or after an offset, None where there is none.
    """
    owners = group.owners()
    lags = []
    for partition in sorted(offsets.keys() | owners.keys()):
        known = offsets.get(partition)
        offset = None if known is None else known.offset
        end = ends.get(partition)
        lag = None if offset is None or end is None else end - offset
        if known is not None and known.lag is not None:
            lag = known.lag  # a share group's broker leaves out records that were acknowledged already
        lags.append(
            PartitionLag(
                topic=partition.topic,
                partition=partition.partition,
                offset=offset,
                log_end_offset=end,
                lag=lag,
                lag_ms=_lag_ms(offset, end, lag, first_times.get((partition, offset or 0)), now_ms),
                leader_epoch=None if known is None or known.leader_epoch < 0 else known.leader_epoch,
                metadata="" if known is None else known.metadata,
                member=owners.get(partition),
            )
        )
    return lags


def behind(offsets: GroupOffsets, ends: Mapping[TopicPartition, int]) -> list[tuple[TopicPartition, int]]:
    """The partitions in which a group has records before it, with its offsets."""
    return [
        (partition, known.offset)
        for partition, known in offsets.items()
        if known.offset is not None and partition in ends and known.offset < ends[partition]
    ]


def total_lag(lags: list[PartitionLag]) -> int | None:
    """The records that a group has before it; None if no partition's lag is known."""
    known = [max(0, one.lag) for one in lags if one.lag is not None]
    return sum(known) if known else None


def longest_lag_ms(lags: list[PartitionLag]) -> int | None:
    """The age of the oldest record that a group has before it; None if no partition's is known."""
    return max((one.lag_ms for one in lags if one.lag_ms is not None), default=None)


def _lag_ms(
    offset: int | None, end: int | None, lag: int | None, first_ms: int | None, now_ms: int
) -> int | None:
    if offset is None or end is None:
        return None
    if offset >= end or lag == 0:
        return 0
    return None if first_ms is None else max(0, now_ms - first_ms)
