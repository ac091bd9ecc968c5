"""Creation and deletion of topics: CreateTopics 2-7 and DeleteTopics 1-6.

CreateTopics: -1 for the counts asks for the defaults from v4 on (KIP-464); v5 answers with the topic's counts
and settings (KIP-525); v7 with its id (KIP-516). DeleteTopics: by name, and by id from v6 on. Each topic of a
request succeeds or fails by itself; all that a request creates is one batch, so a crash leaves all of it or
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from ottla.core.decisions.config_changes import check_topic_config
from ottla.core.decisions.decision import (
    MAX_RECORDS_PER_REQUEST,
    ChargePartitions,
    Decision,
    MayTopic,
    Randomness,
    anyone_may,
    uncharged,
)
from ottla.core.decisions.partitions import check_assignment, partition_record, place
from ottla.core.decisions.topic_names import (
    CLUSTER_METADATA_TOPIC,
    may_collide,
    normalized,
    validate_topic_name,
)
from ottla.core.image.image import TOPIC_RESOURCE, MetadataImage
from ottla.core.settings.config_descriptions import describe_topic
from ottla.core.settings.config_layers import BrokerLayers
from ottla.protocol.errors import (
    ErrorCode,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopicException,
    KafkaError,
    PolicyViolation,
    TopicAlreadyExists,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest
from ottla.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from ottla.protocol.records.config_record import ConfigRecord
from ottla.protocol.records.remove_topic_record import RemoveTopicRecord
from ottla.protocol.records.topic_record import TopicRecord
from ottla.protocol.schema import ZERO_UUID, Message

T = TypeVar("T")

DEFAULT_COUNT = -1
_PARTITION_RECORD = 3


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """The values of a new topic for the fields that a request leaves out."""

    num_partitions: int
    replication_factor: int


def create_topics(
    image: MetadataImage,
    request: CreateTopicsRequest,
    defaults: TopicDefaults,
    layers: BrokerLayers,
    random: Randomness,
    charge: ChargePartitions = uncharged,
    may_create: MayTopic = anyone_may,
    may_describe_configs: MayTopic = anyone_may,
) -> Decision[CreateTopicsResponse]:
    """Create topics, each with its own error; a request that asks for too much fails as a whole.

    The records are empty for `validate_only`, whose partitions are charged all the same, as in Apache Kafka.
    """
    try:
        # topics that will be refused count too: each of them is checked
        _check_size(sum(max(1, _partition_count(topic, defaults)) for topic in request.topics))
        records, results = _create_each(image, request, defaults, layers, random, charge, may_create)
        if len(records) > MAX_RECORDS_PER_REQUEST:
            raise PolicyViolation("Unable to perform excessively large batch operation.")
    except PolicyViolation as error:
        names = dict.fromkeys(topic.name for topic in request.topics)
        return Decision([], CreateTopicsResponse(topics=[_failed(name, error) for name in names]))
    for result in results:
        if not result.error_code and not may_describe_configs(result.name):
            _hide_configs(result)
    return Decision([] if request.validate_only else records, CreateTopicsResponse(topics=results))


def _hide_configs(result: CreatableTopicResult) -> None:
    result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    result.num_partitions = result.replication_factor = -1
    result.configs = []


def _partition_count(topic: CreatableTopic, defaults: TopicDefaults) -> int:
    if topic.assignments:
        return len(topic.assignments)
    asked = topic.num_partitions
    return defaults.num_partitions if asked == DEFAULT_COUNT else max(asked, 0)


def _check_size(partition_count: int) -> None:
    if partition_count > MAX_RECORDS_PER_REQUEST:
        raise PolicyViolation("Excessively large number of partitions per request.")


def _create_each(
    image: MetadataImage,
    request: CreateTopicsRequest,
    defaults: TopicDefaults,
    layers: BrokerLayers,
    random: Randomness,
    charge: ChargePartitions,
    may_create: MayTopic,
) -> tuple[list[Message], list[CreatableTopicResult]]:
    records: list[Message] = []
    results: list[CreatableTopicResult] = []
    duplicates = _duplicates(topic.name for topic in request.topics)
    taken = _TakenNames(image)  # for the topics after it in this request, the name exists already
    for topic in request.topics:
        if topic.name in duplicates:
            continue
        try:
            if topic.name == CLUSTER_METADATA_TOPIC:
                raise InvalidRequest(f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited.")
            if not may_create(topic.name):
                raise TopicAuthorizationFailed("Authorization failed.")
            taken.check(topic.name)
            created = _create_topic(image, topic, defaults, layers, random)
            charge(sum(record.API_KEY == _PARTITION_RECORD for record in created))
        except KafkaError as error:
            results.append(_failed(topic.name, error))
            continue
        taken.add(topic.name)
        records += created
        results.append(_succeeded(topic, created, layers))
    results += [_failed(name, InvalidRequest("Duplicate topic name.")) for name in duplicates]
    return records, results


class _TakenNames:
    """The names that a new topic may not have or collide with."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._as_metrics_see_them: dict[str, str] | None = None

    def check(self, name: str) -> None:
        """Raises InvalidTopicException or TopicAlreadyExists."""
        validate_topic_name(name)
        if name in self._image.topics:
            raise TopicAlreadyExists(f"Topic '{name}' already exists.")
        if may_collide(name):
            collision = self._seen_by_metrics().get(normalized(name))
            if collision is not None:
                raise InvalidTopicException(f"Topic '{name}' collides with existing topic: {collision}")

    def add(self, name: str) -> None:
        """Add a name."""
        if may_collide(name):
            self._seen_by_metrics()[normalized(name)] = name

    def _seen_by_metrics(self) -> dict[str, str]:
        if self._as_metrics_see_them is None:
            self._as_metrics_see_them = {normalized(name): name for name in self._image.topics}
        return self._as_metrics_see_them


def _duplicates(items: Iterable[T]) -> list[T]:
    """The items that occur more than once, each once."""
    return [item for item, count in Counter(items).items() if count > 1]


def _failed(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        error_code=error.code,
        error_message=error.message,
        num_partitions=-1,
        replication_factor=-1,
        configs=[],
    )


def _succeeded(topic: CreatableTopic, records: list[Message], layers: BrokerLayers) -> CreatableTopicResult:
    first = records[0]
    assert isinstance(first, TopicRecord)
    partitions = [record for record in records if record.API_KEY == _PARTITION_RECORD]
    overrides = {config.name: config.value for config in topic.configs if config.value is not None}
    return CreatableTopicResult(
        name=topic.name,
        topic_id=first.topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),  # type: ignore[attr-defined]
        configs=_configs(layers, overrides),
    )


def _configs(layers: BrokerLayers, overrides: Mapping[str, str]) -> list[CreatableTopicConfigs]:
    """All settings of a topic with these values of its own, by name (KIP-525)."""
    return [
        CreatableTopicConfigs(
            name=entry.name,
            # The client's own values are answered as it wrote them.
            value=overrides.get(entry.name, entry.value),
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.sensitive,
        )
        for entry in describe_topic(layers, overrides)
    ]


def _create_topic(
    image: MetadataImage,
    topic: CreatableTopic,
    defaults: TopicDefaults,
    layers: BrokerLayers,
    random: Randomness,
) -> list[Message]:
    """The records of one topic, in Kafka's order: the topic, its settings, its partitions."""
    configs: dict[str, str | None] = {config.name: config.value for config in topic.configs}
    check_topic_config(topic.name, configs, layers)
    replicas = (
        _manual_assignments(image, topic)
        if topic.assignments
        else _placed_assignments(image, topic, defaults, random)
    )
    topic_id = random.new_id()
    records: list[Message] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += [
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value)
        for name, value in configs.items()
    ]
    records += [partition_record(image, topic_id, index, assigned) for index, assigned in enumerate(replicas)]
    return records


def _manual_assignments(image: MetadataImage, topic: CreatableTopic) -> list[list[int]]:
    if topic.replication_factor != DEFAULT_COUNT:
        raise InvalidRequest(
            "A manual partition assignment was specified, but replication factor was not set to -1."
        )
    if topic.num_partitions != DEFAULT_COUNT:
        raise InvalidRequest(
            "A manual partition assignment was specified, but numPartitions was not set to -1."
        )
    by_index: dict[int, list[int]] = {}
    replication_factor: int | None = None
    for assignment in topic.assignments:
        index, broker_ids = assignment.partition_index, list(assignment.broker_ids)
        if index in by_index:
            raise InvalidReplicaAssignment(
                f"Found multiple manual partition assignments for partition {index}"
            )
        check_assignment(image, broker_ids, replication_factor)
        replication_factor = len(broker_ids)
        by_index[index] = broker_ids
    if any(index not in by_index for index in range(len(by_index))):
        raise InvalidReplicaAssignment("partitions should be a consecutive 0-based integer sequence")
    return [by_index[index] for index in range(len(by_index))]


def _placed_assignments(
    image: MetadataImage, topic: CreatableTopic, defaults: TopicDefaults, random: Randomness
) -> list[list[int]]:
    if topic.replication_factor < DEFAULT_COUNT or topic.replication_factor == 0:
        raise InvalidReplicationFactor(
            "Replication factor must be larger than 0, or -1 to use the default value."
        )
    if topic.num_partitions < DEFAULT_COUNT or topic.num_partitions == 0:
        raise InvalidPartitions("Number of partitions was set to an invalid non-positive value.")
    count = defaults.num_partitions if topic.num_partitions == DEFAULT_COUNT else topic.num_partitions
    factor = (
        defaults.replication_factor if topic.replication_factor == DEFAULT_COUNT else topic.replication_factor
    )
    return place(image, count, factor, random)


# -- deletion -----------------------------------------------------------------------------------------


def delete_topics(
    image: MetadataImage,
    request: DeleteTopicsRequest,
    refused: KafkaError | None,
    charge: ChargePartitions = uncharged,
    may_describe: MayTopic = anyone_may,
    may_delete: MayTopic = anyone_may,
) -> Decision[DeleteTopicsResponse]:
    """Delete topics by name or id. `refused` is the error if deletion is disabled (delete.topic.enable).

    Of a topic that the client may not describe, it learns neither the name nor whether there is one.
    """
    wanted = _named(request)
    names_twice = set(_duplicates(name for name, topic_id in wanted if name is not None and not topic_id.int))
    ids_twice = set(_duplicates(topic_id for name, topic_id in wanted if name is None))
    deleted: dict[UUID, None] = {}
    results: list[DeletableTopicResult] = []
    for name, topic_id in dict.fromkeys(wanted):
        result = DeletableTopicResult(
            name=name, topic_id=topic_id, error_code=ErrorCode.NONE, error_message=None
        )
        results.append(result)
        try:
            if refused is not None:
                raise refused
            _check_names(name, topic_id, names_twice, ids_twice)
            if name is not None and not may_describe(name):
                raise TopicAuthorizationFailed()
            found = _find(image, name, topic_id)
            known_as = image.topics_by_id[found].name
            if not may_delete(known_as):
                result.name = known_as if name is not None or may_describe(known_as) else None
                raise TopicAuthorizationFailed()
            if found in deleted:
                raise InvalidRequest("The provided topic name maps to an ID that was already supplied.")
            charge(len(image.topics_by_id[found].partitions))
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
            continue
        deleted[found] = None
        result.name, result.topic_id = image.topics_by_id[found].name, found
    records: list[Message] = [RemoveTopicRecord(topic_id=topic_id) for topic_id in deleted]
    return Decision(records, DeleteTopicsResponse(responses=results))


def _named(request: DeleteTopicsRequest) -> list[tuple[str | None, UUID]]:
    """(name, id) of each topic in the request: names in the old versions, either one in the new."""
    if request.topic_names:
        return [(name, ZERO_UUID) for name in request.topic_names]
    return [(topic.name, topic.topic_id) for topic in request.topics]


def _check_names(name: str | None, topic_id: UUID, names_twice: set[str], ids_twice: set[UUID]) -> None:
    """Raise InvalidRequest for a topic that is not named, or named twice."""
    if name is None:
        if topic_id == ZERO_UUID:
            raise InvalidRequest("Neither topic name nor id were specified.")
        if topic_id in ids_twice:
            raise InvalidRequest("Duplicate topic id.")
    elif topic_id != ZERO_UUID:
        raise InvalidRequest("You may not specify both topic name and topic id.")
    elif name in names_twice:
        raise InvalidRequest("Duplicate topic name.")


def _find(image: MetadataImage, name: str | None, topic_id: UUID) -> UUID:
    """The id of a topic in the request. Raises KafkaError."""
    if name is None:
        if topic_id not in image.topics_by_id:
            raise UnknownTopicId()
        return topic_id
    topic = image.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartition()
    return topic.topic_id
