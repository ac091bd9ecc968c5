"""Metadata for tests: randomness from a seed, images made by records, batches of decisions."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Sequence
from typing import TypeVar

from ottla.core.decisions.decision import Decision
from ottla.core.decisions.fencing import (
    begin_controlled_shutdown,
    fence_broker,
    restart_broker,
    unfence_broker,
)
from ottla.core.decisions.partition_changes import PartitionChanges, TopicRules
from ottla.core.decisions.topics import TopicDefaults, create_topics
from ottla.core.image.features import INITIAL_FEATURES, SUPPORTED_FEATURES
from ottla.core.image.image import EndpointImage, MetadataDelta, MetadataImage
from ottla.core.settings.config_layers import BrokerLayers
from ottla.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.create_topics_response import CreateTopicsResponse
from ottla.protocol.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.protocol.records.feature_level_record import FeatureLevelRecord
from ottla.protocol.records.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from ottla.protocol.schema import Message

T = TypeVar("T")

NOTHING_CONFIGURED = BrokerLayers({})
DEFAULTS = TopicDefaults(num_partitions=1, replication_factor=1)
#: No unclean elections, and one replica in sync is enough.
RULES = TopicRules(lambda topic: False, lambda topic: 1)


class SeededRandomness:
    """The core's random choices, the same ones for the same seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def below(self, limit: int) -> int:
        return self._random.randrange(limit)

    def new_id(self) -> uuid.UUID:
        return uuid.UUID(int=self._random.getrandbits(128), version=4)


def directory_of(broker_id: int) -> uuid.UUID:
    return uuid.UUID(int=1000 + broker_id)


def apply(image: MetadataImage, records: Iterable[Message]) -> MetadataDelta:
    """Apply records, and return their delta."""
    delta = MetadataDelta()
    for record in records:
        image.apply(record, delta)
    return delta


def decided(image: MetadataImage, decision: Decision[T]) -> T:
    """Apply a decision's records and return its answer."""
    apply(image, decision.records)
    return decision.response


def running_broker(
    broker_id: int,
    broker_epoch: int,
    incarnation_id: uuid.UUID,
    endpoints: Sequence[EndpointImage],
    rack: str | None,
    directory_id: uuid.UUID,
) -> list[Message]:
    """The records of a broker that has registered and is unfenced."""
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
        BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, fenced=-1),
    ]


def started_broker(
    image: MetadataImage,
    broker_id: int,
    broker_epoch: int,
    incarnation_id: uuid.UUID,
    endpoints: Sequence[EndpointImage],
    rack: str | None,
    directory_id: uuid.UUID,
) -> list[Message]:
    """The records of a broker's whole (re)start: it leaves the
    in-sync sets, registers, and leads partitions without a leader.
    """
    after = image.copy()
    lost = PartitionChanges(after, RULES)
    restart_broker(lost, broker_id, clean=True)
    apply(after, lost.records)
    running = running_broker(broker_id, broker_epoch, incarnation_id, endpoints, rack, directory_id)
    apply(after, running[:1])
    gained = PartitionChanges(after, RULES)
    unfence_broker(gained, broker_id)
    return [*lost.records, running[0], *gained.records]


def stopped_broker(image: MetadataImage, broker_id: int) -> list[Message]:
    """The records of a broker's stop: its partitions move to other leaders, then it is fenced."""
    after = image.copy()
    shutdown = PartitionChanges(after, RULES)
    begin_controlled_shutdown(shutdown, broker_id)
    apply(after, shutdown.records)
    fenced = PartitionChanges(after, RULES)
    fence_broker(fenced, broker_id)
    return [*shutdown.records, *fenced.records]


def image_with_brokers(broker_ids: Sequence[int] = (1,), racks: Sequence[str | None] = ()) -> MetadataImage:
    """A cluster with running brokers and the features of a new one."""
    image = MetadataImage()
    apply(image, [FeatureLevelRecord(name=name, feature_level=level) for name, level in INITIAL_FEATURES])
    for position, broker_id in enumerate(broker_ids):
        rack = racks[position] if racks else None
        endpoints = [EndpointImage("PLAINTEXT", f"host-{broker_id}", 9092)]
        incarnation = uuid.UUID(int=broker_id)
        apply(
            image,
            running_broker(broker_id, 100 + broker_id, incarnation, endpoints, rack, directory_of(broker_id)),
        )
    return image


def topic(
    name: str,
    partitions: int = -1,
    replication_factor: int = -1,
    *,
    configs: dict[str, str | None] | None = None,
    assignments: dict[int, list[int]] | None = None,
) -> CreatableTopic:
    """A topic in a client's request."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=broker_ids)
            for index, broker_ids in (assignments or {}).items()
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )


def create(
    image: MetadataImage,
    *topics: CreatableTopic,
    validate_only: bool = False,
    defaults: TopicDefaults = DEFAULTS,
    seed: int = 0,
) -> CreateTopicsResponse:
    """Create topics in the image and return the answer."""
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    decision = create_topics(image, request, defaults, NOTHING_CONFIGURED, SeededRandomness(seed))
    return decided(image, decision)
