"""Reads the first and the last offsets of partitions; their leaders are asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.schema import Message
from ottla.rest.admin.model import OffsetSpec, Topic
from ottla.rest.kafka_errors import RETRIABLE, of_code
from ottla.web.errors import ApiError

Key: TypeAlias = tuple[str, int]
"""A topic and a partition."""

PARTITIONS_OF_A_REQUEST: Final = 1_000
POLL_SECONDS: Final = 0.1
GONE: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
CLIENT: Final = -1
"""The replica id of a client."""


async def partition_offsets(
    ask: Callable[[Message, int | None], Awaitable[Any]],
    topics: Callable[[Collection[str]], Awaitable[list[Topic]]],
    partitions: Iterable[Key],
    spec: OffsetSpec,
    timeout_seconds: float,
) -> dict[Key, int]:
    """The offset of each partition; partitions that are gone are left out. Raises ApiError.

    A partition that is without a leader, or whose leader moves or does not answer, is asked for again with
    the leader that it has by then, until the timeout. ask: the response of the broker with an id. topics: the
    topics of some names, without those that do not exist.
    """
    offsets: dict[Key, int] = {}
    left = set(partitions)
    problem = of_code(ErrorCode.LEADER_NOT_AVAILABLE)
    try:
        async with asyncio.timeout(timeout_seconds):
            while left:
                leaders = {
                    (topic.name, partition.id): partition.leader
                    for topic in await topics({name for name, _ in left})
                    for partition in topic.partitions
                    if (topic.name, partition.id) in left
                }
                left &= leaders.keys()
                for found, passing in await asyncio.gather(
                    *(_of_leader(ask, leader, page, spec) for leader, page in _pages_by_leader(leaders))
                ):
                    problem = passing or problem
                    left -= found.keys()
                    offsets |= {key: offset for key, offset in found.items() if offset is not None}
                if left:
                    await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise problem from None
    return offsets


def _pages_by_leader(leaders: Mapping[Key, int | None]) -> list[tuple[int, list[Key]]]:
    """The partitions that have a leader, by leader, at most PARTITIONS_OF_A_REQUEST in each list."""
    by_leader: dict[int, list[Key]] = {}
    for key, leader in sorted(leaders.items()):
        if leader is not None:
            by_leader.setdefault(leader, []).append(key)
    return [
        (leader, keys[start : start + PARTITIONS_OF_A_REQUEST])
        for leader, keys in by_leader.items()
        for start in range(0, len(keys), PARTITIONS_OF_A_REQUEST)
    ]


async def _of_leader(
    ask: Callable[[Message, int | None], Awaitable[Any]], leader: int, keys: Sequence[Key], spec: OffsetSpec
) -> tuple[dict[Key, int | None], ApiError | None]:
    """The offsets that the leader answers (None for a partition that is gone), and the error of the others.

    Raises ApiError for an error that does not pass.
    """
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for topic, partition in keys:
        asked = ListOffsetsPartition(partition_index=partition, timestamp=spec)
        by_topic.setdefault(topic, []).append(asked)
    request = ListOffsetsRequest(
        replica_id=CLIENT,
        topics=[ListOffsetsTopic(name=name, partitions=asked) for name, asked in by_topic.items()],
    )
    try:
        response = await ask(request, leader)
    except ApiError as problem:
        # 404: the cluster does not know the broker any more
        if problem.status != 404 and (problem.status, problem.error_code) != RETRIABLE:
            raise
        return {}, problem
    found: dict[Key, int | None] = {}
    passing: ApiError | None = None
    for topic in response.topics:
        for partition in topic.partitions:
            code = partition.error_code
            if code == ErrorCode.NONE:
                found[topic.name, partition.partition_index] = partition.offset
            elif code in GONE:
                found[topic.name, partition.partition_index] = None
            elif ErrorCode(code).retriable:
                passing = of_code(code)
            else:
                raise of_code(code)
    return found, passing
