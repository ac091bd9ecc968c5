"""The partitions that a command of `ottla txn` means: those of a topic, of a broker, or of the cluster."""

from __future__ import annotations

from ottla.cli.cluster.outcomes import no_such_topic
from ottla.client.cluster_requests import ClusterRequests, TopicPartition, topic_error
from ottla.config.errors import UsageError
from ottla.protocol.errors import ErrorCode


async def partitions_to_search(
    client: ClusterRequests, topic: str | None, partition: int | None, broker: int | None
) -> list[TopicPartition]:
    """The partitions of a topic or of all topics, or one of them; only those that the broker has.

    Raises UsageError, ClusterError.
    """
    if partition is not None and topic is None:
        raise UsageError("--partition needs --topic")
    found = []
    for described in await client.topics(None if topic is None else [topic]):
        name = described.name or ""
        if described.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise no_such_topic(name, [one.name or "" for one in await client.topics()])
        if described.error_code:
            raise topic_error(name, described.error_code)
        found += [
            TopicPartition(name, one.partition_index)
            for one in described.partitions
            if partition in (None, one.partition_index) and (broker is None or broker in one.replica_nodes)
        ]
    if partition is not None and not found:
        where = "" if broker is None else f" on broker {broker}"
        raise UsageError(f"topic {topic} has no partition {partition}{where}")
    return sorted(found)
