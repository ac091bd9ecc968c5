"""What members of the classic protocol say and are told in the bytes of JoinGroup and SyncGroup.

The "consumer" embedded protocol: a version in two bytes, then a ConsumerProtocolSubscription or a
ConsumerProtocolAssignment. A version from the future reads as the newest known one, as they only add fields.
"""

from __future__ import annotations

from ottla.core.groups.consumer.member import PartitionEpochs, TopicPartitions
from ottla.core.groups.topics import TopicsView
from ottla.protocol.errors import ProtocolError
from ottla.protocol.records.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.protocol.records.consumer_protocol_assignment import TopicPartition as AssignedTopic
from ottla.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription

NEWEST_VERSION = 3
VERSION_BYTES = 2


class MalformedEmbedded(ValueError):
    """The bytes are no such message."""


def parse_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """What a member wants. Raises MalformedEmbedded."""
    try:
        return ConsumerProtocolSubscription.decode_prefix(metadata, _version(metadata), VERSION_BYTES)[0]
    except ProtocolError as problem:
        raise MalformedEmbedded(str(problem)) from problem


def parse_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """What a member was told by its leader. Raises MalformedEmbedded."""
    try:
        return ConsumerProtocolAssignment.decode_prefix(assignment, _version(assignment), VERSION_BYTES)[0]
    except ProtocolError as problem:
        raise MalformedEmbedded(str(problem)) from problem


def assignment_bytes(
    partitions: TopicPartitions | PartitionEpochs, topics: TopicsView, metadata: bytes
) -> bytes:
    """What to tell a member, in the version of its own metadata; topics that are gone are left out."""
    version = _version(metadata)
    named = []
    for topic_id, of_topic in partitions.items():
        topic = topics.with_id(topic_id)
        if topic is not None:
            named.append(AssignedTopic(topic=topic.name, partitions=sorted(of_topic)))
    body = ConsumerProtocolAssignment(assigned_partitions=named).encode(version)
    return version.to_bytes(VERSION_BYTES, "big") + body


def with_ids(topics: TopicsView, partitions: dict[str, list[int]]) -> TopicPartitions:
    """Partitions by topic id instead of name; topics that do not exist are left out."""
    found = {}
    for name, of_topic in partitions.items():
        topic = topics.named(name)
        if topic is not None and of_topic:
            found[topic.topic_id] = frozenset(of_topic)
    return found


def _version(data: bytes) -> int:
    version = int.from_bytes(data[:VERSION_BYTES], "big", signed=True)
    if len(data) < VERSION_BYTES or version < 0:
        raise MalformedEmbedded("no version")
    return min(version, NEWEST_VERSION)
