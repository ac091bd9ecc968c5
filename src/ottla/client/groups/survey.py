"""Reads groups with all that tells how they are: members, offsets, ends, the age of the records ahead.

All groups are read together: a request for each coordinator and leader, not for each group.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.client.admin.partition_offsets import LATEST, list_offsets
from ottla.client.cluster_requests import ClusterRequests, TopicPartition
from ottla.client.errors import ClusterError
from ottla.client.first_records import first_record_times
from ottla.client.groups.describing import describe_groups
from ottla.client.groups.lag import PartitionLag, behind, group_lag
from ottla.client.groups.listing import list_groups
from ottla.client.groups.model import GroupDescription, GroupOffsets, GroupType
from ottla.client.groups.offsets import group_offsets
from ottla.protocol.errors import ErrorCode

LEADER_SECONDS: Final = 2.0
"""To wait for a partition that has no leader: its lag is then unknown, and the others are told."""


@dataclass(frozen=True, slots=True)
class SurveyedGroup:
    """A group, and how far it is behind. offsets_error: why its offsets are not known."""

    group: GroupDescription
    lags: list[PartitionLag]
    offsets_error: ClusterError | None = None


async def types_of(client: ClusterRequests, group_ids: Iterable[str]) -> dict[str, GroupType | None]:
    """The type of each group, None for one that is not there. Raises ClusterError."""
    known = {group.group_id: group.type for group in await list_groups(client)}
    return {group_id: known.get(group_id) for group_id in group_ids}


async def survey(
    client: ClusterRequests, types: Mapping[str, GroupType], *, ages: bool = True
) -> dict[str, SurveyedGroup | ClusterError]:
    """Each group with its members and lag, or its error.

    ages: also the age of the first record that is not committed, for which a batch of each partition is read.
    """
    described = await describe_groups(client, types)
    there = {
        group_id: types[group_id]
        for group_id, found in described.items()
        if isinstance(found, GroupDescription)
    }
    offsets = await group_offsets(client, there)
    known = {group_id: found for group_id, found in offsets.items() if not isinstance(found, ClusterError)}
    ends = await _ends(client, described, known)
    places = [place for found in known.values() for place in behind(found, ends)] if ages else []
    times = await first_record_times(client, places, LEADER_SECONDS)
    now_ms = time.time_ns() // 1_000_000
    surveyed: dict[str, SurveyedGroup | ClusterError] = {}
    for group_id, group in described.items():
        if isinstance(group, ClusterError):
            surveyed[group_id] = group
            continue
        found = offsets[group_id]
        error = found if isinstance(found, ClusterError) else None
        if error is not None and error.code == ErrorCode.GROUP_ID_NOT_FOUND:
            error = None  # a group with members and no offsets yet
        lags = group_lag(group, known.get(group_id, {}), ends, times, now_ms)
        surveyed[group_id] = SurveyedGroup(group, lags, error)
    return surveyed


async def _ends(
    client: ClusterRequests,
    described: Mapping[str, GroupDescription | ClusterError],
    offsets: Mapping[str, GroupOffsets],
) -> dict[TopicPartition, int]:
    """The ends of all partitions that groups read, without those that are gone or have no leader."""
    partitions = {partition for found in offsets.values() for partition in found}
    for group in described.values():
        if isinstance(group, GroupDescription):
            partitions |= group.owners().keys()
    if not partitions:
        return {}
    found = await list_offsets(client, dict.fromkeys(sorted(partitions), LATEST), seconds=LEADER_SECONDS)
    return {partition: end.offset for partition, end in found.items() if not isinstance(end, ClusterError)}
