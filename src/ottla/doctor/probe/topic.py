"""The probe's topic: for each broker a partition that it is to lead, and more as brokers come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.client.admin.topics import NewTopic, create_topics, delete_topics, grow_topics
from ottla.client.cluster_requests import ClusterRequests
from ottla.client.errors import ClusterError
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.elect_leaders_response import ElectLeadersResponse

PROBE_TOPIC: Final = "ottla-doctor-probe"
REPLICAS: Final = 3
SETTINGS: Final = {
    "cleanup.policy": "delete",
    # the broker's clock in every answer to a produce request
    "message.timestamp.type": "LogAppendTime",
    "retention.ms": "3600000",
}
PREFERRED: Final = 0


def assignment(brokers: Sequence[int], leader: int) -> list[int]:
    """The replicas of the partition that `leader` is to lead: it and those that follow it in the ring."""
    ring = sorted(brokers)
    start = ring.index(leader)
    turned = ring[start:] + ring[:start]
    return turned[:REPLICAS]


async def make_topic(client: ClusterRequests, name: str) -> bool:
    """Create the topic; False if one of the name is there. Raises ClusterError."""
    brokers = sorted((await client.cluster(refresh=True)).brokers)
    new = NewTopic(
        name,
        assignments={index: assignment(brokers, leader) for index, leader in enumerate(brokers)},
        configs=dict(SETTINGS),
    )
    made = (await create_topics(client, [new]))[name]
    if isinstance(made, ClusterError):
        if made.code == ErrorCode.TOPIC_ALREADY_EXISTS:
            return False
        raise made
    return True


async def led_partitions(client: ClusterRequests, name: str) -> dict[int, int]:
    """Partition -> the broker that is to lead it. Raises ClusterError, also for a topic that is not there."""
    (topic,) = await client.topics([name])
    if topic.error_code and topic.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
        raise ClusterError(f"topic {name}: {ErrorCode(topic.error_code).message}", topic.error_code)
    return {one.partition_index: one.replica_nodes[0] for one in topic.partitions if one.replica_nodes}


async def cover_brokers(client: ClusterRequests, name: str) -> dict[int, int]:
    """Give every live broker that is to lead no partition one more; the partitions as `led_partitions`.

    Raises ClusterError.
    """
    led = await led_partitions(client, name)
    brokers = sorted((await client.cluster(refresh=True)).brokers)
    missing = [broker for broker in brokers if broker not in led.values()]
    if missing and led:
        replicas = [assignment(brokers, leader) for leader in missing]
        grown = (await grow_topics(client, {name: len(led) + len(missing)}, replicas))[name]
        if grown is not None:
            raise grown
        led |= {len(led) + index: leader for index, leader in enumerate(missing)}
    return led


async def lead_as_planned(client: ClusterRequests, name: str, partitions: Sequence[int]) -> None:
    """Let each partition be led by the broker that is to lead it, as far as it is there."""
    request = ElectLeadersRequest(
        election_type=PREFERRED,
        topic_partitions=[TopicPartitions(topic=name, partitions=list(partitions))],
        timeout_ms=client.timeout_ms,
    )
    await client.ask_controller(request, ElectLeadersResponse)


async def remove_topic(client: ClusterRequests, name: str) -> None:
    """Delete the topic. Raises ClusterError."""
    problem = (await delete_topics(client, [name]))[name]
    if problem is not None and problem.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise problem
