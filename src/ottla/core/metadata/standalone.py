"""The start and stop of a node that is controller and broker alone, each in one batch of records.

A partition's leader epoch thus grows with each start, which is what tells clients to check that their offsets
still exist (KIP-320). Clusters of several nodes go by `registration`, `heartbeats` and `fencing`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from ottla.core.metadata.features import ELIGIBLE_LEADER_REPLICAS, SUPPORTED_FEATURES
from ottla.core.metadata.image import NO_LEADER, EndpointImage, MetadataImage, PartitionImage, TopicImage
from ottla.protocol.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.protocol.records.partition_change_record import PartitionChangeRecord
from ottla.protocol.records.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from ottla.protocol.records.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from ottla.protocol.schema import Message

FENCE = 1
UNFENCE = -1


def register_controller(controller_id: int, incarnation_id: UUID, endpoint: EndpointImage) -> Message:
    """The record of a controller's start."""
    return RegisterControllerRecord(
        controller_id=controller_id,
        incarnation_id=incarnation_id,
        zk_migration_ready=False,
        end_points=[
            ControllerEndpoint(
                name=endpoint.name,
                host=endpoint.host,
                port=endpoint.port,
                security_protocol=endpoint.security_protocol,
            )
        ],
        features=[
            ControllerFeature(name=name, min_supported_version=smallest, max_supported_version=largest)
            for name, (smallest, largest) in SUPPORTED_FEATURES.items()
        ],
    )


def register_broker(
    broker_id: int,
    broker_epoch: int,
    incarnation_id: UUID,
    endpoints: Sequence[EndpointImage],
    rack: str | None,
    directory_id: UUID,
) -> list[Message]:
    """The records of a broker's start: registered, then unfenced.

    `broker_epoch` is the offset that the first of the records will have, as in Kafka.
    """
    return [
        RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=incarnation_id,
            broker_epoch=broker_epoch,
            end_points=[
                BrokerEndpoint(
                    name=each.name,
                    host=each.host,
                    port=each.port,
                    security_protocol=each.security_protocol,
                )
                for each in endpoints
            ],
            features=[
                BrokerFeature(name=name, min_supported_version=smallest, max_supported_version=largest)
                for name, (smallest, largest) in SUPPORTED_FEATURES.items()
            ],
            rack=rack,
            fenced=True,
            log_dirs=[directory_id],
        ),
        BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, fenced=UNFENCE),
    ]


def shut_down_broker(image: MetadataImage, broker_id: int) -> list[Message]:
    """The records of a broker that stops cleanly: it leads nothing any more, and is fenced.

    It stays eligible for what it led (KIP-966), so that the next start, of this broker or of Apache Kafka on
    the same directory, elects it at once. Without that feature it stays the only one in sync.
    """
    broker = image.brokers[broker_id]
    has_elr = bool(image.features.get(ELIGIBLE_LEADER_REPLICAS))
    records: list[Message] = [
        BrokerRegistrationChangeRecord(
            broker_id=broker_id, broker_epoch=broker.broker_epoch, in_controlled_shutdown=1
        )
    ]
    for _, topic in sorted(image.topics.items()):
        for _, partition in sorted(topic.partitions.items()):
            if partition.leader != broker_id:
                continue
            change = PartitionChangeRecord(
                partition_id=partition.partition_id, topic_id=topic.topic_id, leader=NO_LEADER
            )
            if has_elr and partition.isr == (broker_id,):
                change.isr = []
                change.eligible_leader_replicas = [*partition.elr, broker_id]
                change.last_known_elr = [broker_id]
            records.append(change)
    records.append(
        BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.broker_epoch, fenced=FENCE)
    )
    return records


def elect_after_start(
    image: MetadataImage, broker_id: int, directory_id: UUID, may_elect_uncleanly: Callable[[str], bool]
) -> list[Message]:
    """The partitions that a broker leads after its start, as changes of their leader and in-sync set.

    `image` is that before the registration. Those that it led keep it, with a new leader epoch; those
    without a leader get it if it is in sync or eligible (KIP-966), or, where the topic allows that, if it is
    a replica at all. Its data directory is noted where it is another one than before.
    """
    records: list[Message] = []
    for _, topic in sorted(image.topics.items()):
        for _, partition in sorted(topic.partitions.items()):
            change = _election(topic, partition, broker_id, directory_id, may_elect_uncleanly)
            if change is not None:
                records.append(change)
    return records


def _election(
    topic: TopicImage,
    partition: PartitionImage,
    broker_id: int,
    directory_id: UUID,
    may_elect_uncleanly: Callable[[str], bool],
) -> PartitionChangeRecord | None:
    if broker_id not in partition.replicas or partition.leader not in (NO_LEADER, broker_id):
        return None
    entitled = (
        broker_id == partition.leader
        or broker_id in partition.isr
        or broker_id in partition.elr
        # Nobody is in sync or eligible: the last leader is as good as it gets (KIP-966's last known leader).
        or (not partition.isr and not partition.elr and partition.last_known_elr == (broker_id,))
    )
    if not entitled and not may_elect_uncleanly(topic.name):
        return None
    change = PartitionChangeRecord(
        partition_id=partition.partition_id, topic_id=topic.topic_id, leader=broker_id
    )
    if broker_id not in partition.isr:
        change.isr = [broker_id]
    if partition.elr:
        change.eligible_leader_replicas = []
    if partition.last_known_elr:
        change.last_known_elr = []
    slot = partition.replicas.index(broker_id)
    if partition.directories[slot] != directory_id:
        directories = list(partition.directories)
        directories[slot] = directory_id
        change.directories = directories
    return change
