"""Subscriptions and assignments of classic members, which are bytes in the classic protocol's requests.

The bytes are decoded in ottla.protocol.consumer_embedded.
"""

from __future__ import annotations

from ottla.core.groups.consumer.member import PartitionEpochs, TopicPartitions
from ottla.core.groups.topics import TopicsView
from ottla.protocol.consumer_embedded import VERSION_BYTES, version_of
from ottla.protocol.records.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.protocol.records.consumer_protocol_assignment import TopicPartition as AssignedTopic


def assignment_bytes(
    partitions: TopicPartitions | PartitionEpochs, topics: TopicsView, metadata: bytes
) -> bytes:
    """A member's assignment, in the version of its own metadata; deleted topics are left out."""
    version = version_of(metadata)
    named = []
    for topic_id, of_topic in partitions.items():
        topic = topics.with_id(topic_id)
        if topic is not None:
            named.append(AssignedTopic(topic=topic.name, partitions=sorted(of_topic)))
    body = ConsumerProtocolAssignment(assigned_partitions=named).encode(version)
    return version.to_bytes(VERSION_BYTES, "big") + body


def with_ids(topics: TopicsView, partitions: dict[str, list[int]]) -> TopicPartitions:
    """Partitions by topic id in place of name; topics that do not exist are left out."""
    found = {}
    for name, of_topic in partitions.items():
        topic = topics.named(name)
        if topic is not None and of_topic:
            found[topic.topic_id] = frozenset(of_topic)
    return found
