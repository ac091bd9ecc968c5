"""Creation and deletion of topics: records, and refusals with their codes."""

from __future__ import annotations

import uuid

import pytest

from ottla.core.decisions.topics import TopicDefaults, delete_topics
from ottla.core.image.image import MetadataImage
from ottla.protocol.errors import ErrorCode, TopicDeletionDisabled
from ottla.protocol.messages.create_topics_request import CreatableTopic
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.delete_topics_response import DeletableTopicResult
from ottla.protocol.schema import ZERO_UUID
from support.core.metadata import create, decided, directory_of, image_with_brokers, topic


@pytest.fixture
def image() -> MetadataImage:
    return image_with_brokers([1, 2, 3])


def test_a_topic_is_made_with_its_settings_and_partitions(image: MetadataImage) -> None:
    answer = create(image, topic("orders", 3, 2, configs={"retention.ms": "1000"}))
    made = image.topics["orders"]
    assert answer.topics[0].error_code == ErrorCode.NONE
    assert answer.topics[0].topic_id == made.topic_id
    assert (answer.topics[0].num_partitions, answer.topics[0].replication_factor) == (3, 2)
    assert image.configs[(2, "orders")] == {"retention.ms": "1000"}
    for partition in made.partitions.values():
        assert len(set(partition.replicas)) == 2
        assert partition.isr == partition.replicas
        assert partition.leader == partition.replicas[0]
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
        assert partition.directories == tuple(directory_of(broker) for broker in partition.replicas)


def test_the_answer_shows_the_settings(image: MetadataImage) -> None:
    answer = create(image, topic("orders", configs={"retention.ms": " 1000 "}))
    configs = {config.name: config for config in answer.topics[0].configs}
    assert configs["retention.ms"].value == " 1000 "
    assert configs["segment.bytes"].value == "1073741824"
    assert "internal.segment.bytes" not in configs


def test_counts_left_open_are_the_defaults(image: MetadataImage) -> None:
    create(image, topic("orders"), defaults=TopicDefaults(num_partitions=5, replication_factor=3))
    partitions = image.topics["orders"].partitions
    assert len(partitions) == 5
    assert {len(partition.replicas) for partition in partitions.values()} == {3}


def test_a_client_may_place_the_replicas_itself(image: MetadataImage) -> None:
    create(image, topic("orders", assignments={0: [3, 1], 1: [2, 3]}))
    partitions = image.topics["orders"].partitions
    assert [partitions[index].replicas for index in (0, 1)] == [(3, 1), (2, 3)]


def test_validate_only_makes_nothing(image: MetadataImage) -> None:
    answer = create(image, topic("orders", 3, 1), validate_only=True)
    assert (answer.topics[0].error_code, answer.topics[0].num_partitions) == (ErrorCode.NONE, 3)
    assert not image.topics


def test_topics_of_a_request_fail_each_by_itself(image: MetadataImage) -> None:
    answer = create(image, topic("good"), topic("not good"), topic("fine"))
    assert [result.error_code for result in answer.topics] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION, 0]
    assert sorted(image.topics) == ["fine", "good"]


def test_a_name_given_twice_is_made_not_even_once(image: MetadataImage) -> None:
    answer = create(image, topic("twice"), topic("once"), topic("twice"))
    by_name = {result.name: result for result in answer.topics}
    assert len(answer.topics) == 2
    assert by_name["twice"].error_code == ErrorCode.INVALID_REQUEST
    assert by_name["once"].error_code == ErrorCode.NONE


def test_names_that_metrics_could_not_tell_apart_collide(image: MetadataImage) -> None:
    create(image, topic("a.b"))
    answer = create(image, topic("a_b"), topic("c_d"), topic("c.d"))
    assert answer.topics[0].error_message == "Topic 'a_b' collides with existing topic: a.b"
    assert [result.error_code for result in answer.topics] == [17, 0, 17]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (topic("exists"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("grüße"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
        (topic("t", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (topic("t", -2, 1), ErrorCode.INVALID_PARTITIONS),
        (topic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("t", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("t", 10_001, 1), ErrorCode.POLICY_VIOLATION),
        (topic("t", 10_000, 1), ErrorCode.POLICY_VIOLATION),
        (topic("t", configs={"nonsense": "1"}), ErrorCode.INVALID_CONFIG),
        (topic("t", configs={"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
        (topic("t", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (topic("t", configs={"cleanup.policy": "burn"}), ErrorCode.INVALID_CONFIG),
        (
            topic("t", configs={"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"}),
            ErrorCode.INVALID_CONFIG,
        ),
        (topic("t", configs={"remote.storage.enable": "true"}), ErrorCode.INVALID_CONFIG),
        (topic("t", 1, assignments={0: [1]}), ErrorCode.INVALID_REQUEST),
        (topic("t", -1, 1, assignments={0: [1]}), ErrorCode.INVALID_REQUEST),
        (topic("t", assignments={0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", assignments={0: [9]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", assignments={0: [1, 1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", assignments={0: [1], 1: [1, 2]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", assignments={1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
    ids=str,
)
def test_invalid_topics_are_refused(image: MetadataImage, asked: CreatableTopic, code: ErrorCode) -> None:
    create(image, topic("exists"))
    result = create(image, asked).topics[0]
    assert result.error_code == code
    assert result.error_message
    assert sorted(image.topics) == ["exists"]


def test_a_request_that_asks_for_too_much_creates_no_topics(image: MetadataImage) -> None:
    answer = create(image, topic("small", 1, 1), topic("large", 10_000, 1))
    assert [result.error_code for result in answer.topics] == [ErrorCode.POLICY_VIOLATION] * 2
    assert not image.topics


def test_without_an_unfenced_broker_no_replica_can_be_placed() -> None:
    answer = create(MetadataImage(), topic("orders", 1, 1))
    assert answer.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR


# -- deletion -----------------------------------------------------------------------------------------


def delete(image: MetadataImage, *names: str) -> list[DeletableTopicResult]:
    request = DeleteTopicsRequest(topic_names=list(names))
    return decided(image, delete_topics(image, request, None)).responses


def delete_by(image: MetadataImage, *wanted: tuple[str | None, uuid.UUID]) -> list[DeletableTopicResult]:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name, topic_id=key) for name, key in wanted])
    return decided(image, delete_topics(image, request, None)).responses


def test_deletion_by_name_answers_with_the_id(image: MetadataImage) -> None:
    create(image, topic("orders"))
    topic_id = image.topics["orders"].topic_id
    (result,) = delete(image, "orders")
    assert (result.name, result.topic_id, result.error_code) == ("orders", topic_id, ErrorCode.NONE)
    assert not image.topics


def test_deletion_by_id_answers_with_the_name(image: MetadataImage) -> None:
    create(image, topic("orders"))
    (result,) = delete_by(image, (None, image.topics["orders"].topic_id))
    assert (result.name, result.error_code) == ("orders", ErrorCode.NONE)
    assert not image.topics


def test_deletions_that_are_refused(image: MetadataImage) -> None:
    create(image, topic("orders"))
    orders = image.topics["orders"].topic_id
    unknown = uuid.UUID(int=5)
    codes = [
        result.error_code
        for result in delete_by(
            image, ("nope", ZERO_UUID), (None, unknown), (None, ZERO_UUID), ("orders", unknown)
        )
    ]
    assert codes == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    assert [result.error_code for result in delete(image, "orders", "orders")] == [ErrorCode.INVALID_REQUEST]
    twice = delete_by(image, ("orders", ZERO_UUID), (None, orders))
    assert [result.error_code for result in twice] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]


def test_no_topic_is_deleted_if_deletion_is_disabled(image: MetadataImage) -> None:
    create(image, topic("orders"))
    request = DeleteTopicsRequest(topic_names=["orders", "nope"])
    answer = decided(image, delete_topics(image, request, TopicDeletionDisabled()))
    assert [result.error_code for result in answer.responses] == [ErrorCode.TOPIC_DELETION_DISABLED] * 2
    assert "orders" in image.topics


def test_a_name_can_be_used_again(image: MetadataImage) -> None:
    create(image, topic("orders", configs={"retention.ms": "5"}))
    first = image.topics["orders"].topic_id
    delete(image, "orders")
    create(image, topic("orders"), seed=1)
    assert image.topics["orders"].topic_id != first
    assert (2, "orders") not in image.configs
