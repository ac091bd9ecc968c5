"""An image as records: the content of a metadata snapshot."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.core.image.features import METADATA_VERSION
from ottla.core.image.image import (
    BrokerImage,
    ControllerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from ottla.protocol.records.client_quota_record import ClientQuotaRecord, EntityData
from ottla.protocol.records.config_record import ConfigRecord
from ottla.protocol.records.feature_level_record import FeatureLevelRecord
from ottla.protocol.records.partition_record import PartitionRecord
from ottla.protocol.records.producer_ids_record import ProducerIdsRecord
from ottla.protocol.records.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from ottla.protocol.records.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from ottla.protocol.records.topic_record import TopicRecord
from ottla.protocol.schema import Message

NO_BROKER = -1


def image_records(image: MetadataImage) -> Iterator[Message]:
    """Records that, applied to an empty image, give an equal one (but for its last offset and epoch).

    metadata.version comes first, because it determines how the others are read.
    """
    for name, level in sorted(image.features.items(), key=lambda each: (each[0] != METADATA_VERSION, each)):
        yield FeatureLevelRecord(name=name, feature_level=level)
    for _, broker in sorted(image.brokers.items()):
        yield _broker(broker)
    for _, controller in sorted(image.controllers.items()):
        yield _controller(controller)
    for _, topic in sorted(image.topics.items()):
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for _, partition in sorted(topic.partitions.items()):
            yield _partition(topic, partition)
    for (resource_type, resource_name), values in sorted(image.configs.items()):
        for name, value in sorted(values.items()):
            yield ConfigRecord(
                resource_type=resource_type, resource_name=resource_name, name=name, value=value
            )
    for entity, quotas in sorted(image.client_quotas.items(), key=str):
        for key, quota in sorted(quotas.items()):
            parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
            yield ClientQuotaRecord(entity=parts, key=key, value=quota, remove=False)
    if image.next_producer_id > 0:
        yield ProducerIdsRecord(broker_id=NO_BROKER, next_producer_id=image.next_producer_id)
    yield from (image.acls[key] for key in sorted(image.acls))
    yield from (image.scram_credentials[key] for key in sorted(image.scram_credentials))
    yield from (image.delegation_tokens[key] for key in sorted(image.delegation_tokens))


def _broker(broker: BrokerImage) -> Message:
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.broker_epoch,
        end_points=[
            BrokerEndpoint(
                name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in broker.endpoints
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=smallest, max_supported_version=largest)
            for name, smallest, largest in broker.features
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.log_dirs),
        cordoned_log_dirs=None if broker.cordoned_log_dirs is None else list(broker.cordoned_log_dirs),
    )


def _controller(controller: ControllerImage) -> Message:
    return RegisterControllerRecord(
        controller_id=controller.controller_id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=False,
        end_points=[
            ControllerEndpoint(
                name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in controller.endpoints
        ],
        features=[
            ControllerFeature(name=name, min_supported_version=smallest, max_supported_version=largest)
            for name, smallest, largest in controller.features
        ],
    )


def _partition(topic: TopicImage, partition: PartitionImage) -> Message:
    return PartitionRecord(
        partition_id=partition.partition_id,
        topic_id=topic.topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.elr) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )
