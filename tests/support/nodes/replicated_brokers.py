"""Several brokers in one process that hold one partition together, under a controller that the test plays.

Each broker is a single node of its own; what they know of each other and of the partition is written into all
their images, as the metadata log would do it. AlterPartition is answered from here.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from ottla.broker.broker import Broker
from ottla.broker.replication.partition import Partition
from ottla.core.image.image import (
    BrokerImage,
    EndpointImage,
    MetadataDelta,
    PartitionImage,
    TopicImage,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_partition_request import AlterPartitionRequest
from ottla.protocol.messages.alter_partition_response import (
    AlterPartitionResponse,
    PartitionData,
    TopicData,
)
from ottla.protocol.schema import Message
from support.nodes.in_process import running_broker

TOPIC = "orders"
TOPIC_ID = uuid.UUID(int=0xABCDEF)


class ReplicatedBrokers:
    """The brokers, and the one partition as the controller has it."""

    def __init__(self, brokers: Mapping[int, Broker]) -> None:
        self.brokers = dict(brokers)
        self.partition = PartitionImage(
            partition_id=0,
            replicas=tuple(brokers),
            isr=tuple(brokers),
            leader=next(iter(brokers)),
            leader_epoch=0,
            partition_epoch=0,
        )
        self.unheard: set[int] = set()
        """Nodes that hear nothing of the metadata."""
        self.refuse: ErrorCode | None = None
        """The answer to AlterPartition instead of the usual one."""
        for broker in brokers.values():
            real = broker.controller_channel.ask

            async def ask(request: Message, *, timeout_ms: int | None = None, real: Any = real) -> Message:
                if isinstance(request, AlterPartitionRequest):
                    return self._alter(request)
                answer: Message = await real(request, timeout_ms=timeout_ms)
                return answer

            broker.controller_channel.ask = ask  # type: ignore[method-assign]
            for node_id, other in brokers.items():
                broker.image.brokers[node_id] = BrokerImage(
                    broker_id=node_id,
                    broker_epoch=other.lifecycle.broker_epoch,
                    incarnation_id=uuid.UUID(int=node_id),
                    endpoints=(
                        EndpointImage(other.config.inter_broker_listener_name, "127.0.0.1", other.port),
                    ),
                    rack=other.config.rack,
                    fenced=False,
                )

    def held(self, node_id: int) -> Partition:
        """The partition on a node."""
        return self.brokers[node_id].partitions.replica(TOPIC, 0)

    def publish(self, configs: Mapping[str, str] | None = None) -> None:
        """Let every node hear the partition's new state."""
        for node_id, broker in self.brokers.items():
            if node_id in self.unheard:
                continue
            image = broker.image
            topic = image.topics.get(TOPIC)
            if topic is None:
                topic = TopicImage(TOPIC, TOPIC_ID)
                image.topics[TOPIC] = image.topics_by_id[TOPIC_ID] = topic
            topic.partitions[0] = self.partition
            delta = MetadataDelta(changed_partitions={(TOPIC_ID, 0): None})
            if configs is not None:
                image.configs[2, TOPIC] = dict(configs)
                delta.changed_topic_configs[TOPIC] = None
            broker.roles.on_metadata(delta)

    def change(self, **fields: Any) -> None:
        """Change the partition and publish it."""
        self.partition = self.partition._replace(partition_epoch=self.partition.partition_epoch + 1, **fields)
        self.publish()

    def elect(self, node_id: int, isr: Iterable[int]) -> None:
        """A new leader epoch."""
        self.change(leader=node_id, leader_epoch=self.partition.leader_epoch + 1, isr=tuple(isr))

    def _alter(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        (topic,) = request.topics
        (wanted,) = topic.partitions
        answer = PartitionData(partition_index=0)
        if self.refuse is not None:
            answer.error_code = self.refuse
        elif wanted.leader_epoch != self.partition.leader_epoch:
            answer.error_code = ErrorCode.FENCED_LEADER_EPOCH
        elif wanted.partition_epoch != self.partition.partition_epoch:
            answer.error_code = ErrorCode.INVALID_UPDATE_VERSION
        else:
            self.change(isr=tuple(each.broker_id for each in wanted.new_isr_with_epochs))
            answer.leader_id = self.partition.leader
            answer.leader_epoch = self.partition.leader_epoch
            answer.isr = list(self.partition.isr)
            answer.partition_epoch = self.partition.partition_epoch
        return AlterPartitionResponse(topics=[TopicData(topic_id=topic.topic_id, partitions=[answer])])


@asynccontextmanager
async def replicated_brokers(
    tmp_path: Path, nodes: Iterable[int] = (1, 2, 3), settings: Mapping[str, str] | None = None
) -> AsyncIterator[ReplicatedBrokers]:
    """Brokers that hold the partition `orders`-0, the first of them as its leader."""
    async with AsyncExitStack() as stack:
        brokers = {}
        for node_id in nodes:
            values = {
                "node.id": str(node_id),
                "broker.rack": f"rack{node_id}",
                "broker.session.timeout.ms": "600000",
                **(settings or {}),
            }
            brokers[node_id] = await stack.enter_async_context(
                running_broker(tmp_path / str(node_id), values)
            )
        cluster = ReplicatedBrokers(brokers)
        cluster.publish()
        yield cluster
