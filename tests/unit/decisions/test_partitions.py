"""More partitions for topics that exist."""

from __future__ import annotations

import pytest

from ottla.core.decisions.partitions import create_partitions
from ottla.core.image.image import MetadataImage
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_partitions_response import CreatePartitionsTopicResult
from ottla.protocol.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from support.core.metadata import SeededRandomness, apply, create, decided, image_with_brokers, topic


@pytest.fixture
def image() -> MetadataImage:
    """Three brokers; `orders` has two partitions of two replicas."""
    made = image_with_brokers([1, 2, 3])
    create(made, topic("orders", 2, 2))
    return made


def grow(
    image: MetadataImage,
    name: str,
    count: int,
    assignments: list[list[int]] | None = None,
    validate_only: bool = False,
) -> CreatePartitionsTopicResult:
    asked = CreatePartitionsTopic(
        name=name,
        count=count,
        assignments=None
        if assignments is None
        else [CreatePartitionsAssignment(broker_ids=broker_ids) for broker_ids in assignments],
    )
    request = CreatePartitionsRequest(topics=[asked], validate_only=validate_only)
    return decided(image, create_partitions(image, request, SeededRandomness())).results[0]


def test_new_partitions_are_like_the_old_ones(image: MetadataImage) -> None:
    assert grow(image, "orders", 5).error_code == ErrorCode.NONE
    partitions = image.topics["orders"].partitions
    assert sorted(partitions) == [0, 1, 2, 3, 4]
    assert {len(partition.replicas) for partition in partitions.values()} == {2}


def test_a_client_may_place_them(image: MetadataImage) -> None:
    assert grow(image, "orders", 4, [[3, 1], [2, 1]]).error_code == ErrorCode.NONE
    assert [image.topics["orders"].partitions[index].replicas for index in (2, 3)] == [(3, 1), (2, 1)]


def test_a_fenced_broker_is_not_in_sync(image: MetadataImage) -> None:
    apply(image, [BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=103, fenced=1)])
    grow(image, "orders", 3, [[3, 1]])
    added = image.topics["orders"].partitions[2]
    assert (added.replicas, added.isr, added.leader) == ((3, 1), (1,), 1)


def test_validate_only_makes_none(image: MetadataImage) -> None:
    assert grow(image, "orders", 5, validate_only=True).error_code == ErrorCode.NONE
    assert len(image.topics["orders"].partitions) == 2


@pytest.mark.parametrize(
    ("name", "count", "assignments", "code", "message"),
    [
        ("nope", 3, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        ("orders", 2, None, ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        (
            "orders",
            1,
            None,
            ErrorCode.INVALID_PARTITIONS,
            "The topic orders currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            "orders",
            4,
            [[1, 2]],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            "orders",
            3,
            [[1]],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes a partition with 1 replica(s), but this is not "
            "consistent with previous partitions, which have 2 replica(s).",
        ),
        (
            "orders",
            10_003,
            None,
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request.",
        ),
    ],
)
def test_invalid_partition_counts_and_assignments_are_refused(
    image: MetadataImage,
    name: str,
    count: int,
    assignments: list[list[int]] | None,
    code: ErrorCode,
    message: str | None,
) -> None:
    result = grow(image, name, count, assignments)
    assert (result.error_code, result.error_message) == (code, message)
    assert len(image.topics["orders"].partitions) == 2


def test_a_topic_named_twice_is_refused(image: MetadataImage) -> None:
    asked = [CreatePartitionsTopic(name="orders", count=count) for count in (3, 4)]
    request = CreatePartitionsRequest(topics=asked)
    results = decided(image, create_partitions(image, request, SeededRandomness())).results
    assert [result.error_code for result in results] == [ErrorCode.INVALID_REQUEST]
