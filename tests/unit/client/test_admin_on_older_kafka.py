"""Administration in the versions that Apache Kafka 3.9 has: requests can be written, answers be read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.client.admin.configs import (
    Change,
    ConfigEntry,
    Operation,
    Resource,
    ResourceType,
    alter_configs,
    config_resources,
    describe_configs,
)
from ottla.client.admin.descriptions import describe_topics, moving_replicas
from ottla.client.admin.log_sizes import log_sizes
from ottla.client.admin.partition_offsets import (
    ALL_RECORDS,
    LATEST,
    FoundOffset,
    delete_records,
    list_offsets,
)
from ottla.client.admin.topics import CreatedTopic, NewTopic, create_topics, delete_topics, grow_topics
from ottla.client.cluster_requests import Broker, ClusterRequests, CoordinatorType, TopicPartition
from ottla.client.errors import ClusterError
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from ottla.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from ottla.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from ottla.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ottla.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ottla.protocol.messages.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from ottla.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from ottla.protocol.messages.list_config_resources_response import ConfigResource, ListConfigResourcesResponse
from ottla.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ottla.protocol.messages.metadata_response import MetadataResponsePartition, MetadataResponseTopic
from support.clients.scripted_cluster import ScriptedCluster, scripted_cluster

#: Of the APIs that changed after Apache Kafka 3.9.
VERSIONS_OF_3_9 = {
    ApiKey.METADATA: (0, 12),
    ApiKey.LIST_OFFSETS: (0, 9),
    ApiKey.FIND_COORDINATOR: (0, 5),
    ApiKey.DESCRIBE_LOG_DIRS: (0, 4),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 0),
}
ORDERS = TopicPartition("orders", 0)
TOPIC, METRICS = Resource(ResourceType.TOPIC, "orders"), Resource(ResourceType.CLIENT_METRICS, "m")


def answers(cluster: ScriptedCluster) -> dict[ApiKey, Any]:
    coordinator = {"node_id": 1, "host": "127.0.0.1", "port": cluster.ports[1]}
    synonym = DescribeConfigsSynonym(name="log.retention.ms", value="8", source=5)
    entry = DescribeConfigsResourceResult(
        name="retention.ms", value="7", config_source=1, synonyms=[synonym], config_type=5, documentation="d"
    )
    secret = DescribeConfigsResourceResult(name="secret", value="told", is_sensitive=True, config_source=1)
    reassigned = OngoingPartitionReassignment(replicas=[1, 2], adding_replicas=[2], removing_replicas=[])
    sizes = [DescribeLogDirsPartition(partition_size=77), DescribeLogDirsPartition(is_future_key=True)]
    partition = MetadataResponsePartition(leader_id=1, replica_nodes=[1], isr_nodes=[1])
    return {
        ApiKey.METADATA: cluster.metadata(
            topics=[MetadataResponseTopic(name="orders", partitions=[partition])]
        ),
        ApiKey.FIND_COORDINATOR: FindCoordinatorResponse(
            coordinators=[Coordinator(key="key", **coordinator)]
        ),
        ApiKey.CREATE_TOPICS: CreateTopicsResponse(topics=[CreatableTopicResult(name="orders")]),
        ApiKey.CREATE_PARTITIONS: CreatePartitionsResponse(
            results=[CreatePartitionsTopicResult(name="orders")]
        ),
        ApiKey.DELETE_TOPICS: DeleteTopicsResponse(responses=[DeletableTopicResult(name="orders")]),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: DescribeTopicPartitionsResponse(
            topics=[DescribeTopicPartitionsResponseTopic(name="orders")]
        ),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: ListPartitionReassignmentsResponse(
            topics=[OngoingTopicReassignment(name="orders", partitions=[reassigned])]
        ),
        ApiKey.DESCRIBE_LOG_DIRS: DescribeLogDirsResponse(
            results=[
                DescribeLogDirsResult(
                    log_dir="/d", topics=[DescribeLogDirsTopic(name="orders", partitions=sizes)]
                ),
                DescribeLogDirsResult(log_dir="/bad", error_code=ErrorCode.KAFKA_STORAGE_ERROR),
            ]
        ),
        ApiKey.LIST_OFFSETS: ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name="orders", partitions=[ListOffsetsPartitionResponse(offset=9, timestamp=5)]
                )
            ]
        ),
        ApiKey.DELETE_RECORDS: DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    name="orders", partitions=[DeleteRecordsPartitionResult(low_watermark=9)]
                )
            ]
        ),
        ApiKey.DESCRIBE_CONFIGS: DescribeConfigsResponse(
            results=[
                DescribeConfigsResult(resource_type=2, resource_name="orders", configs=[secret, entry]),
            ]
        ),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: IncrementalAlterConfigsResponse(
            responses=[AlterConfigsResourceResponse(resource_type=2, resource_name="orders")]
        ),
        ApiKey.LIST_CONFIG_RESOURCES: ListConfigResourcesResponse(
            config_resources=[ConfigResource(resource_name="m")]
        ),
    }


@pytest.mark.parametrize("versions", [VERSIONS_OF_3_9, {}], ids=["3.9", "newest"])
def test_every_request_of_administration_is_understood(versions: dict[ApiKey, tuple[int, int]]) -> None:
    async def story() -> None:
        async with scripted_cluster(1, versions) as cluster:
            for key, answer in answers(cluster).items():
                cluster.handlers[key] = lambda node, body, answer=answer: answer
            requests = ClusterRequests(cluster.access)
            try:
                await check(requests)
            finally:
                await requests.close()

    async def check(requests: ClusterRequests) -> None:
        new = NewTopic("orders", 3, 1, configs={"retention.ms": "7"})
        assigned = NewTopic("orders", assignments={0: [1]})
        for one in (new, assigned):
            assert isinstance((await create_topics(requests, [one]))["orders"], CreatedTopic)
        assert await grow_topics(requests, {"orders": 5}, [[1], [1]]) == {"orders": None}
        assert await delete_topics(requests, ["orders"]) == {"orders": None}
        assert list(await describe_topics(requests, ["orders"])) == ["orders"]
        assert await moving_replicas(requests) == {("orders", 0): [2]}
        sizes = await log_sizes(requests, [ORDERS])
        assert (sizes.of(ORDERS, 1), len(sizes.problems)) == (77, 1)
        found = await list_offsets(requests, {ORDERS: LATEST}, committed=True)
        assert isinstance(found[ORDERS], FoundOffset)
        assert await delete_records(requests, {ORDERS: ALL_RECORDS}) == {ORDERS: 9}
        entries = (await describe_configs(requests, [TOPIC], explain=True))[TOPIC]
        assert not isinstance(entries, ClusterError)
        retention, secret = entries
        assert (retention.name, retention.value, retention.default) == ("retention.ms", "7", "8")
        assert isinstance(secret, ConfigEntry)
        assert secret.value is None, "a broker told the value of a password"
        change = Change("retention.ms", Operation.SET, "7")
        assert await alter_configs(requests, {TOPIC: [change]}) == {TOPIC: None}
        assert await config_resources(requests, ResourceType.CLIENT_METRICS) == ["m"]
        for kind in (CoordinatorType.GROUP, CoordinatorType.TRANSACTION):
            assert isinstance((await requests.coordinators(kind, ["key"]))["key"], Broker)

    asyncio.run(story())


def test_groups_with_settings_are_not_known_to_kafka_3_9() -> None:
    async def story() -> None:
        async with scripted_cluster(1, VERSIONS_OF_3_9) as cluster:
            requests = ClusterRequests(cluster.access)
            with pytest.raises(ClusterError, match="resource_types") as told:
                await config_resources(requests, ResourceType.GROUP)
            assert told.value.code == ErrorCode.UNSUPPORTED_VERSION
            await requests.close()

    asyncio.run(story())
