"""Groups of the two clusters: which there are, what they have committed, what is committed for them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from ottla.client.access import ClusterAccess
from ottla.client.cluster_requests import ClusterRequests, TopicPartition
from ottla.client.errors import ClusterError
from ottla.client.groups.changes import commit_offsets
from ottla.client.groups.listing import list_groups
from ottla.client.groups.model import GroupType, ListedGroup
from ottla.client.groups.offsets import group_offsets
from ottla.mirror.core.checkpoint_rules import Committed, PartitionKey
from ottla.mirror.core.record_formats import Checkpoint

T = TypeVar("T")

TIMEOUT_SECONDS: Final = 30.0
_CONSUMERS: Final = ("", "consumer")

_log = logging.getLogger("ottla.mirror")


def asked(access: ClusterAccess, question: Callable[[ClusterRequests], Awaitable[T]]) -> T:
    """The answer of a cluster, over connections of its own. Raises ClusterError."""

    async def ask() -> T:
        requests = ClusterRequests(access, TIMEOUT_SECONDS)
        try:
            return await question(requests)
        finally:
            await requests.close()

    return asyncio.run(ask())


async def listed_groups(requests: ClusterRequests) -> dict[str, ListedGroup]:
    """The groups of consumers, by their ids: without share groups and those of other protocols."""
    return {
        each.group_id: each
        for each in await list_groups(requests)
        if each.type is not GroupType.SHARE and each.protocol_type in _CONSUMERS
    }


async def commits_of(
    requests: ClusterRequests, groups: Iterable[str]
) -> dict[str, dict[PartitionKey, Committed]]:
    """What groups have committed; one that can't be asked now is left out, and told."""
    found = {}
    asked = await group_offsets(requests, dict.fromkeys(groups, GroupType.UNKNOWN))
    for group, offsets in asked.items():
        if isinstance(offsets, ClusterError):
            _log.warning("the offsets of group %s can't be read now: %s", group, offsets)
            continue
        found[group] = {
            (place.topic, place.partition): Committed(commit.offset, commit.metadata)
            for place, commit in offsets.items()
            if commit.offset is not None
        }
    return found


async def committed_for(
    requests: ClusterRequests,
    group: str,
    offsets: Mapping[PartitionKey, int],
    checkpoints: Sequence[Checkpoint],
) -> int:
    """Commit offsets for a group; how many were taken: none of a group that has got members meanwhile."""
    texts = {TopicPartition(each.topic, each.partition): each.metadata for each in checkpoints}
    wanted = {TopicPartition(*place): offset for place, offset in offsets.items()}
    try:
        results = await commit_offsets(requests, group, wanted, texts)
    except ClusterError as problem:
        _log.warning("the offsets of group %s can't be written now: %s", group, problem)
        return 0
    refused = [f"{place}: {error}" for place, error in results.items() if error is not None]
    if refused:
        _log.info("group %s: %d offsets are not taken, %s", group, len(refused), refused[0])
    return len(results) - len(refused)
