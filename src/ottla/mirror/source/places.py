"""Source partitions and offsets of connect-offsets, in MirrorMaker 2's form.

The partition is {"cluster", "topic", "partition"}, the offset {"offset": the last record that was copied}.
Ours has the topic's id besides, which MirrorMaker 2 does not look at: it tells a topic that was made again
while nobody copied it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.client.cluster_requests import TopicPartition
from ottla.connect.data.record import SourceOffset, SourcePartition
from ottla.mirror.source.fetching import NO_ID, Place

CLUSTER, TOPIC, PARTITION, OFFSET, TOPIC_ID = "cluster", "topic", "partition", "offset", "topic_id"


def source_partition(alias: str, partition: TopicPartition) -> dict[str, Any]:
    """A partition as a source partition; its names in the order in which Java puts them."""
    return {TOPIC: partition.topic, PARTITION: partition.partition, CLUSTER: alias}


def topic_partition(partition: SourcePartition) -> TopicPartition:
    """The partition of a source partition. Raises ValueError for one that is none of a mirror's."""
    topic, index = partition.get(TOPIC), partition.get(PARTITION)
    if not isinstance(topic, str) or not isinstance(index, int) or isinstance(index, bool):
        raise ValueError(f"{dict(partition)} is no source partition of a mirror")
    return TopicPartition(topic, index)


def source_offset(next_offset: int, topic_id: uuid.UUID) -> dict[str, Any]:
    """The offset behind which a partition goes on."""
    found: dict[str, Any] = {OFFSET: next_offset - 1}
    if topic_id != NO_ID:
        found[TOPIC_ID] = str(topic_id)
    return found


def place_of(partition: TopicPartition, offset: SourceOffset | None) -> Place:
    """Where a partition goes on; without a position where there is no offset."""
    last = None if offset is None else offset.get(OFFSET)
    if offset is None or not isinstance(last, int) or last < 0:
        return Place(partition, None, is_new=True)
    try:
        topic_id = uuid.UUID(str(offset.get(TOPIC_ID, NO_ID)))
    except ValueError:
        topic_id = NO_ID
    return Place(partition, last + 1, topic_id)


def places_of(
    alias: str,
    partitions: Sequence[TopicPartition],
    offsets: Sequence[tuple[SourcePartition, SourceOffset]],
) -> Mapping[TopicPartition, Place]:
    """The places of a task's partitions."""
    known: dict[TopicPartition, SourceOffset] = {}
    for partition, offset in offsets:
        if partition.get(CLUSTER) == alias:
            try:
                known[topic_partition(partition)] = offset
            except ValueError:
                continue
    return {each: place_of(each, known.get(each)) for each in partitions}
