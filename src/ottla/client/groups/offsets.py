"""Reads the offsets of groups: OffsetFetch of many groups in one request, DescribeShareGroupOffsets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ottla.client.cluster_requests import ClusterRequests, CoordinatorType, TopicPartition, refusal
from ottla.client.errors import ClusterError
from ottla.client.groups.model import GroupOffset, GroupOffsets, GroupType
from ottla.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from ottla.protocol.messages.describe_share_group_offsets_response import DescribeShareGroupOffsetsResponse
from ottla.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.offset_fetch_response import OffsetFetchResponse

GROUPS_A_REQUEST: Final = 250
REQUESTS_AT_ONCE: Final = 4
"""Pages of groups that are asked for side by side: one is read while the next is written."""

Found = dict[str, GroupOffsets | ClusterError]


async def group_offsets(client: ClusterRequests, types: Mapping[str, GroupType]) -> Found:
    """The offsets of each group of `types`, or its error; without the partitions that have one."""
    share = [group_id for group_id, one in types.items() if one is GroupType.SHARE]
    others = [group_id for group_id, one in types.items() if one is not GroupType.SHARE]
    committed, starts = await asyncio.gather(_committed(client, others), _share_starts(client, share))
    return {group_id: (committed | starts)[group_id] for group_id in types}


async def _committed(client: ClusterRequests, group_ids: Sequence[str]) -> Found:
    def request(some: Sequence[str]) -> OffsetFetchRequest:
        groups = [OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in some]
        return OffsetFetchRequest(groups=groups)

    def parts(response: Any) -> Iterable[tuple[str, int, GroupOffsets | ClusterError]]:
        for group in response.groups:
            if group.error_code:
                error = refusal(group.error_code, None, f"group {group.group_id}")
                yield group.group_id, group.error_code, error
                continue
            offsets = {
                TopicPartition(topic.name, one.partition_index): GroupOffset(
                    one.committed_offset, one.committed_leader_epoch, one.metadata or ""
                )
                for topic in group.topics
                for one in topic.partitions
                if one.committed_offset >= 0 and not one.error_code
            }
            yield group.group_id, 0, offsets

    room = asyncio.Semaphore(REQUESTS_AT_ONCE)

    async def page(start: int) -> Found:
        async with room:
            some = group_ids[start : start + GROUPS_A_REQUEST]
            return await client.ask_coordinators(
                CoordinatorType.GROUP, some, request, OffsetFetchResponse, parts
            )

    pages = await asyncio.gather(*map(page, range(0, len(group_ids), GROUPS_A_REQUEST)))
    return {group_id: found for one in pages for group_id, found in one.items()}


async def _share_starts(client: ClusterRequests, group_ids: Sequence[str]) -> Found:
    def request(some: Sequence[str]) -> DescribeShareGroupOffsetsRequest:
        groups = [DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None) for group_id in some]
        return DescribeShareGroupOffsetsRequest(groups=groups)

    def parts(response: Any) -> Iterable[tuple[str, int, GroupOffsets | ClusterError]]:
        for group in response.groups:
            if group.error_code:
                error = refusal(group.error_code, group.error_message, f"group {group.group_id}")
                yield group.group_id, group.error_code, error
                continue
            offsets = {
                TopicPartition(topic.topic_name, one.partition_index): GroupOffset(
                    one.start_offset if one.start_offset >= 0 else None,
                    one.leader_epoch,
                    lag=one.lag if one.lag >= 0 else None,
                )
                for topic in group.topics
                for one in topic.partitions
                if not one.error_code
            }
            yield group.group_id, 0, offsets

    return await client.ask_coordinators(
        CoordinatorType.GROUP, group_ids, request, DescribeShareGroupOffsetsResponse, parts
    )
