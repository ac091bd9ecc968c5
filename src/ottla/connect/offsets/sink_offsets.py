"""Offsets of sink connectors: those of their consumer group, whose coordinator is asked."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from ottla.client.cluster_requests import ClusterRequests, TopicPartition
from ottla.client.errors import ClientOptionError, ClusterError
from ottla.client.groups.changes import PartitionResults, commit_offsets, delete_groups, delete_offsets
from ottla.client.groups.model import GroupType
from ottla.client.groups.offsets import group_offsets
from ottla.connect.host.clients import consumer_group, group_access
from ottla.connect.offsets.connector_offsets import (
    ALTERED,
    RESET,
    BadOffsets,
    ConnectorOffset,
    OffsetsFailed,
    OffsetsOwner,
)
from ottla.protocol.errors import ErrorCode

TOPIC: Final = "kafka_topic"
PARTITION: Final = "kafka_partition"
OFFSET: Final = "kafka_offset"
TIMEOUT_SECONDS: Final = 60.0
_MAX_INT: Final = 2**31 - 1
_MAX_LONG: Final = 2**63 - 1
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_HAS_MEMBERS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)


class SinkOffsets:
    """See ConnectorOffsets. A group with members keeps its offsets: they are the tasks' to write."""

    async def committed(self, owner: OffsetsOwner) -> list[ConnectorOffset]:
        """See ConnectorOffsets."""
        problem = f"Failed to retrieve consumer group offsets for sink connector {owner.name}"
        async with _requests(owner, problem) as client:
            found = await _committed(client, _group(owner), problem)
        return [
            ConnectorOffset({TOPIC: topic, PARTITION: partition}, {OFFSET: offset})
            for (topic, partition), offset in sorted(found.items())
        ]

    async def alter(self, owner: OffsetsOwner, offsets: Sequence[ConnectorOffset]) -> str:
        """See ConnectorOffsets."""
        wanted = parse_sink_offsets(offsets)
        problem = f"Failed to alter consumer group offsets for connector {owner.name}"
        async with _requests(owner, problem) as client:
            group = _group(owner)
            written = {place: offset for place, offset in wanted.items() if offset is not None}
            if written:
                _require(await commit_offsets(client, group, written), owner, problem, "alter")
            forgotten = [place for place, offset in wanted.items() if offset is None]
            if forgotten and await _is_there(client, group, problem):
                try:
                    _require(await delete_offsets(client, group, forgotten), owner, problem, "alter")
                except ClusterError as refused:
                    if refused.code != ErrorCode.GROUP_ID_NOT_FOUND:
                        raise
        return ALTERED

    async def reset(self, owner: OffsetsOwner) -> str:
        """See ConnectorOffsets."""
        problem = f"Failed to reset consumer group offsets for connector {owner.name}"
        async with _requests(owner, problem) as client:
            group = _group(owner)
            error = (await delete_groups(client, [group]))[group]
        if error is not None and error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise _refusal(error, owner, problem, "reset")
        return RESET


def parse_sink_offsets(offsets: Sequence[ConnectorOffset]) -> dict[TopicPartition, int | None]:
    """The offsets of a sink by partition. Raises BadOffsets with Connect's words."""
    found: dict[TopicPartition, int | None] = {}
    for partition, offset in offsets:
        if partition is None:
            raise BadOffsets("The partition for a sink connector offset cannot be null or missing")
        if TOPIC not in partition or PARTITION not in partition:
            raise BadOffsets(
                f"The partition for a sink connector offset must contain the keys '{TOPIC}' and '{PARTITION}'"
            )
        if partition[TOPIC] is None:
            raise BadOffsets("Kafka topic names must be valid strings and may not be null")
        if partition[PARTITION] is None:
            raise BadOffsets("Kafka partitions must be valid numbers and may not be null")
        number = _number(partition[PARTITION], _MAX_INT)
        if number is None:
            raise BadOffsets(
                "Failed to parse the following Kafka partition value in the provided offsets: "
                f"'{_text(partition[PARTITION])}'. Partition values for sink connectors need to be integers."
            )
        place = TopicPartition(_text(partition[TOPIC]), number)
        if offset is None:
            found[place] = None
            continue
        if OFFSET not in offset:
            raise BadOffsets(
                f"The offset for a sink connector should either be null or contain the key '{OFFSET}'"
            )
        next_offset = _number(offset[OFFSET], _MAX_LONG)
        if next_offset is None:
            raise BadOffsets(
                "Failed to parse the following Kafka offset value in the provided offsets: "
                f"'{_text(offset[OFFSET])}'. Offset values for sink connectors need to be integers."
            )
        found[place] = next_offset
    return found


def _number(value: Any, most: int) -> int | None:
    """A whole number of Java's, from a JSON number or text."""
    text = _text(value)
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -most - 1 <= number <= most else None


def _text(value: Any) -> str:
    """A JSON value as Java's String.valueOf writes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _group(owner: OffsetsOwner) -> str:
    return consumer_group(owner.name, owner.worker, owner.config)


@contextlib.asynccontextmanager
async def _requests(owner: OffsetsOwner, problem: str) -> AsyncIterator[ClusterRequests]:
    try:
        client = ClusterRequests(group_access(owner.worker, owner.config), TIMEOUT_SECONDS)
    except ClientOptionError as refused:
        raise OffsetsFailed(f"{problem}: {refused}") from refused
    try:
        yield client
    except ClusterError as refused:
        raise OffsetsFailed(f"{problem}: {refused}") from refused
    finally:
        await client.close()


async def _committed(client: ClusterRequests, group: str, problem: str) -> Mapping[TopicPartition, int]:
    found = (await group_offsets(client, {group: GroupType.CLASSIC}))[group]
    if isinstance(found, ClusterError):
        if found.code == ErrorCode.GROUP_ID_NOT_FOUND:
            return {}
        raise OffsetsFailed(f"{problem}: {found}")
    return {place: each.offset for place, each in found.items() if each.offset is not None}


async def _is_there(client: ClusterRequests, group: str, problem: str) -> bool:
    return bool(await _committed(client, group, problem))


def _require(results: PartitionResults, owner: OffsetsOwner, problem: str, word: str) -> None:
    for error in results.values():
        if error is not None:
            raise _refusal(error, owner, problem, word)


def _refusal(error: ClusterError, owner: OffsetsOwner, problem: str, word: str) -> OffsetsFailed:
    if error.code not in _HAS_MEMBERS:
        return OffsetsFailed(f"{problem}: {error}")
    return OffsetsFailed(
        f"Failed to {word} consumer group offsets for connector {owner.name} either because its tasks "
        "haven't stopped completely yet or the connector was resumed before the request to "
        f"{word} its offsets could be successfully completed. If the connector is in a stopped state, this "
        "operation can be safely retried. If it doesn't eventually succeed, the Connect cluster may need to "
        "be restarted to get rid of the zombie sink tasks."
    )
