"""Admin handlers, where a single real node can't show it: fenced brokers, other listeners, loggers."""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import Awaitable, Iterator
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from ottla.broker.authorization import OpenAuthorization
from ottla.broker.broker import Broker
from ottla.broker.config import BrokerConfig
from ottla.broker.handlers.cluster.cluster import describe_cluster
from ottla.broker.handlers.cluster.configs import describe_configs, incremental_alter_configs
from ottla.broker.handlers.cluster.metadata import describe_topic_partitions, metadata
from ottla.broker.handlers.cluster.partitions import list_partition_reassignments
from ottla.broker.network.context import RequestContext, Session
from ottla.core.decisions.decision import Decision
from ottla.core.image.image import EndpointImage, MetadataImage
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_cluster_request import DescribeClusterRequest
from ottla.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.metadata_response import MetadataResponse, MetadataResponsePartition
from ottla.protocol.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.protocol.records.config_record import ConfigRecord
from ottla.protocol.records.partition_change_record import PartitionChangeRecord
from support.core.metadata import apply, create, directory_of, image_with_brokers, running_broker, topic

T = TypeVar("T")
BROKER_LOGGER = 8


class FakeController:
    """Takes decisions over at once."""

    active = True
    epoch, high_watermark, log_end_offset = 4, 70, 71

    def __init__(self, image: MetadataImage) -> None:
        self.image = image

    async def submit(self, decide: Any) -> Any:
        decision: Decision[object] = decide(self.image)
        apply(self.image, decision.records)
        return decision.response


@pytest.fixture
def image() -> MetadataImage:
    """Broker 1 runs, broker 2 is fenced, broker 3 has no listener for clients; a topic on all of them."""
    made = image_with_brokers([1, 2])
    hidden = [EndpointImage("INSIDE", "host-3", 9093)]
    apply(made, running_broker(3, 103, uuid.UUID(int=3), hidden, "east", directory_of(3)))
    create(made, topic("orders", assignments={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}))
    topic_id = made.topics["orders"].topic_id
    apply(
        made,
        [
            BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=102, fenced=1),
            PartitionChangeRecord(partition_id=1, topic_id=topic_id, leader=-1, isr=[3, 1]),
        ],
    )
    return made


@pytest.fixture
def broker(image: MetadataImage) -> Broker:
    config = BrokerConfig.from_mapping({"listeners": "PLAINTEXT://127.0.0.1:9092"})
    made = SimpleNamespace(
        image=image,
        config=config,
        node_id=1,
        cluster_id="otter",
        controller=FakeController(image),
        log_directory=SimpleNamespace(directory_id=directory_of(1)),
        now_ms=lambda: 5000,
        authorization=OpenAuthorization(),
    )
    return cast(Broker, made)


def context(version: int) -> RequestContext:
    return RequestContext(0, version, 1, "test", Session("127.0.0.1", "PLAINTEXT"))


def answer(given: T | Awaitable[T]) -> T:
    async def wait() -> T:
        return await cast(Awaitable[T], given)

    return asyncio.run(wait()) if isinstance(given, Awaitable) else given


def orders_metadata(broker: Broker, version: int) -> tuple[MetadataResponse, list[MetadataResponsePartition]]:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
    response = answer(metadata(broker, context(version), request))
    return response, sorted(response.topics[0].partitions, key=lambda each: each.partition_index)


def test_clients_hear_of_brokers_that_they_can_reach(broker: Broker) -> None:
    response, _ = orders_metadata(broker, 12)
    assert [(each.node_id, each.host) for each in response.brokers] == [(1, "host-1")]


def test_partitions_without_a_leader_that_can_be_reached(broker: Broker) -> None:
    _, partitions = orders_metadata(broker, 12)
    assert [each.error_code for each in partitions] == [
        ErrorCode.NONE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.LISTENER_NOT_FOUND,
    ]
    assert [each.leader_id for each in partitions] == [1, -1, -1]
    assert [sorted(each.offline_replicas) for each in partitions] == [[2, 3]] * 3


def test_older_clients_do_not_know_of_missing_listeners(broker: Broker) -> None:
    _, partitions = orders_metadata(broker, 5)
    assert partitions[2].error_code == ErrorCode.LEADER_NOT_AVAILABLE


def test_the_oldest_clients_see_replicas_that_live(broker: Broker) -> None:
    _, partitions = orders_metadata(broker, 0)
    assert [each.error_code for each in partitions] == [
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
    ]
    assert [each.replica_nodes for each in partitions] == [[1]] * 3


def test_operations_are_told_when_asked_for(broker: Broker) -> None:
    request = MetadataRequest(
        topics=None, include_cluster_authorized_operations=True, include_topic_authorized_operations=True
    )
    response = answer(metadata(broker, context(9), request))
    assert response.cluster_authorized_operations == 8096
    assert response.topics[0].topic_authorized_operations == 3576
    silent = answer(metadata(broker, context(9), MetadataRequest(topics=None)))
    assert silent.topics[0].topic_authorized_operations == -(2**31)


def test_described_partitions_name_eligible_leaders(broker: Broker, image: MetadataImage) -> None:
    topic_id = image.topics["orders"].topic_id
    change = PartitionChangeRecord(
        partition_id=1, topic_id=topic_id, isr=[], eligible_leader_replicas=[3], last_known_elr=[1]
    )
    apply(image, [change])
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")])
    described = describe_topic_partitions(broker, context(0), request).topics[0].partitions[1]
    assert (described.error_code, described.leader_id) == (ErrorCode.NONE, -1)
    assert (described.eligible_leader_replicas, described.last_known_elr) == ([3], [1])
    assert sorted(described.offline_replicas) == [2, 3]


def test_fenced_brokers_are_listed_when_asked_for(broker: Broker) -> None:
    request = DescribeClusterRequest(include_fenced_brokers=True)
    listed = describe_cluster(broker, context(2), request).brokers
    assert [(each.broker_id, each.is_fenced) for each in listed] == [(1, False), (2, True)]
    unfenced = describe_cluster(broker, context(2), DescribeClusterRequest()).brokers
    assert [each.broker_id for each in unfenced] == [1]


def test_partitions_on_the_move_are_listed(broker: Broker, image: MetadataImage) -> None:
    everything = ListPartitionReassignmentsRequest(topics=None)
    assert list_partition_reassignments(broker, context(0), everything).topics == []
    topic_id = image.topics["orders"].topic_id
    apply(image, [PartitionChangeRecord(partition_id=2, topic_id=topic_id, adding_replicas=[2])])
    (moving,) = list_partition_reassignments(broker, context(0), everything).topics
    assert [(each.partition_index, each.adding_replicas) for each in moving.partitions] == [(2, [2])]


# -- loggers --------------------------------------------------------------------------------------------


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    made = logging.getLogger("ottla.test.loggers")
    yield made
    made.setLevel(logging.NOTSET)


def set_level(
    broker: Broker, name: str, operation: int, level: str | None, validate_only: bool = False
) -> int:
    config = AlterableConfig(name=name, config_operation=operation, value=level)
    resource = AlterConfigsResource(resource_type=BROKER_LOGGER, resource_name="1", configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    return answer(incremental_alter_configs(broker, context(1), request)).responses[0].error_code


def level_of(broker: Broker, name: str) -> str | None:
    resource = DescribeConfigsResource(
        resource_type=BROKER_LOGGER, resource_name="1", configuration_keys=[name]
    )
    request = DescribeConfigsRequest(resources=[resource])
    return answer(describe_configs(broker, context(4), request)).results[0].configs[0].value


def test_a_loggers_level_is_set_and_taken_back(broker: Broker, logger: logging.Logger) -> None:
    before = level_of(broker, logger.name)
    assert set_level(broker, logger.name, 0, "trace") == ErrorCode.NONE
    assert level_of(broker, logger.name) == "TRACE"
    assert logger.isEnabledFor(logging.DEBUG)
    assert set_level(broker, logger.name, 1, None) == ErrorCode.NONE
    assert level_of(broker, logger.name) == before


def test_levels_that_are_refused_change_nothing(broker: Broker, logger: logging.Logger) -> None:
    assert set_level(broker, logger.name, 0, "LOUD") == ErrorCode.INVALID_CONFIG
    assert set_level(broker, "ottla.no.such.logger", 0, "INFO") == ErrorCode.INVALID_CONFIG
    assert set_level(broker, logger.name, 2, "INFO") == ErrorCode.INVALID_REQUEST
    assert set_level(broker, "root", 1, None) == ErrorCode.INVALID_REQUEST
    assert set_level(broker, logger.name, 0, "ERROR", validate_only=True) == ErrorCode.NONE
    assert logger.level == logging.NOTSET


# -- DescribeConfigs of many resources -----------------------------------------------------------------


def test_resources_described_together_are_described_as_each_alone(
    broker: Broker, image: MetadataImage
) -> None:
    """Those with the same overrides are described once, and shared."""
    drawn = [
        {},
        {"retention.ms": "5"},
        {"retention.ms": "6"},
        {"retention.ms": "5", "cleanup.policy": "compact"},
        {"consumer.session.timeout.ms": "46000"},
    ]
    resources = []
    for number in range(30):
        name = f"topic-{number}"
        create(image, topic(name, assignments={0: [1]}))
        kind = random.choice((2, 2, 2, 16, 32))
        for key, value in random.choice(drawn).items():
            apply(image, [ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)])
        keys = random.choice((None, None, ["retention.ms"], ["cleanup.policy", "interval.ms"]))
        resources.append(
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        )
    resources += [
        DescribeConfigsResource(resource_type=2, resource_name="nope", configuration_keys=None),
        DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None),
        DescribeConfigsResource(resource_type=4, resource_name="", configuration_keys=None),
    ]
    random.shuffle(resources)
    for detailed in (False, True):

        def describe(asked: list[DescribeConfigsResource], detailed: bool = detailed) -> list[Any]:
            request = DescribeConfigsRequest(
                resources=asked, include_synonyms=detailed, include_documentation=detailed
            )
            return answer(describe_configs(broker, context(4), request)).results

        assert describe(resources) == [one for each in resources for one in describe([each])]
