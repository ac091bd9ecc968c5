"""A cluster for the proxy without a network: two brokers, a topic, a group; it keeps what it was asked."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx

from ottla.protocol.apis import APIS, ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import encode_request
from ottla.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from ottla.protocol.messages.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from ottla.protocol.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from ottla.protocol.messages.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from ottla.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from ottla.protocol.messages.describe_acls_response import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ottla.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ottla.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from ottla.protocol.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ottla.protocol.schema import Message
from ottla.rest.admin.cluster_admin import EARLIEST
from ottla.rest.admin.model import Cluster, Group, Member, Node, Partition, Topic
from ottla.rest.app import all_routes, rest_application
from ottla.rest.kafka_errors import of_code
from ottla.rest.operations import Api
from ottla.rest.urls import Urls
from ottla.web.errors import ApiError

CLUSTER_ID = "ntcqkZ0dR2SmRmMV7Ayjgw"
MOST_PARTITIONS = 1_000
HOST = "web.poc.local:8082"


@dataclass(slots=True)
class FakeClusterAdmin:
    """ClusterAdmin's interface for the routes. `asked`: the requests that went to brokers, all encodable."""

    asked: list[tuple[Message, int | None]] = field(default_factory=list)
    refusal: ErrorCode = ErrorCode.NONE
    timeout_ms: int = 30_000
    topic_list: list[Topic] = field(
        default_factory=lambda: [
            Topic("tasks", False, (Partition(0, 2, (2, 1), (2,)), Partition(1, None, (1, 2), ())))
        ]
    )
    group_list: list[Group] = field(
        default_factory=lambda: [
            Group(
                "readers",
                False,
                "range",
                "STABLE",
                "CLASSIC",
                1,
                (Member("member-1", "static-1", "client-1", (("tasks", 0),)),),
            )
        ]
    )

    async def cluster(self) -> Cluster:
        return Cluster(CLUSTER_ID, 2, (Node(1, "one", 9092, "rack-1"), Node(2, "two", 9092)))

    async def cluster_id(self) -> str:
        return CLUSTER_ID

    async def topic_names(self) -> list[str]:
        return [topic.name for topic in self.topic_list]

    async def topics(self, names: Collection[str] | None = None) -> list[Topic]:
        return [topic for topic in self.topic_list if names is None or topic.name in names]

    async def topic(self, name: str, authorized_operations: bool = False) -> Topic:
        for topic in self.topic_list:
            if topic.name == name:
                return topic
        raise of_code(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    async def offsets(self, partitions: Iterable[tuple[str, int]], spec: Any) -> dict[tuple[str, int], int]:
        return {
            (topic, partition): 7 if spec is EARLIEST else 100 + partition for topic, partition in partitions
        }

    async def groups(self) -> list[Group]:
        return self.group_list

    async def group(self, group_id: str) -> Group:
        for group in self.group_list:
            if group.id == group_id:
                return group
        raise ApiError(404, 40403, f"Consumer group {group_id} cannot be found.")

    async def committed(self, group_id: str) -> dict[tuple[str, int], int]:
        return {("tasks", 0): 40, ("tasks", 1): 100}

    async def ask(self, request: Message, node_id: int | None = None) -> Any:
        assert request.API_KEY is not None
        key = ApiKey(request.API_KEY)
        encode_request(key, APIS[key].latest_stable_version, 1, "test", request)
        self.asked.append((request, node_id))
        if node_id not in (None, 1, 2):
            raise ApiError(404, 404, f"Broker {node_id} cannot be found.")
        return self._answer(key, request)

    async def ask_controller(self, request: Message) -> Any:
        return await self.ask(request)

    def _change(self, name: str, partitions: int, done: bool) -> ErrorCode:
        """A topic has so many partitions now, if they are not too many."""
        if not 0 < partitions <= MOST_PARTITIONS:
            return ErrorCode.INVALID_PARTITIONS
        if done:
            replicas = tuple(Partition(number, 1, (1,), (1,)) for number in range(partitions))
            others = [topic for topic in self.topic_list if topic.name != name]
            self.topic_list = [*others, Topic(name, False, replicas)]
        return ErrorCode.NONE

    def _answer(self, key: ApiKey, request: Any) -> Message:
        code = self.refusal
        match key:
            case ApiKey.CREATE_TOPICS:
                (topic,) = request.topics
                partitions = max(topic.num_partitions, len(topic.assignments), 1)
                made = CreatableTopicResult(
                    name=topic.name,
                    error_code=code or self._change(topic.name, partitions, not request.validate_only),
                    num_partitions=partitions,
                    replication_factor=max(topic.replication_factor, 1),
                    configs=[CreatableTopicConfigs(name="retention.ms", value="604800000", config_source=5)],
                )
                return CreateTopicsResponse(topics=[made])
            case ApiKey.CREATE_PARTITIONS:
                (growing,) = request.topics
                code = code or self._change(growing.name, growing.count, True)
                return CreatePartitionsResponse(
                    results=[CreatePartitionsTopicResult(name=growing.name, error_code=code)]
                )
            case ApiKey.DELETE_TOPICS:
                (name,) = request.topic_names
                self.topic_list = [topic for topic in self.topic_list if topic.name != name]
                return DeleteTopicsResponse(responses=[DeletableTopicResult(name=name, error_code=code)])
            case ApiKey.DESCRIBE_CONFIGS:
                return DescribeConfigsResponse(
                    results=[_config(resource, code) for resource in request.resources]
                )
            case ApiKey.INCREMENTAL_ALTER_CONFIGS:
                return IncrementalAlterConfigsResponse(
                    responses=[
                        AlterConfigsResourceResponse(
                            error_code=code, resource_type=one.resource_type, resource_name=one.resource_name
                        )
                        for one in request.resources
                    ]
                )
            case ApiKey.LIST_PARTITION_REASSIGNMENTS:
                moved = OngoingPartitionReassignment(
                    partition_index=0, replicas=[3, 2, 1], adding_replicas=[3], removing_replicas=[1]
                )
                return ListPartitionReassignmentsResponse(
                    error_code=code, topics=[OngoingTopicReassignment(name="tasks", partitions=[moved])]
                )
            case ApiKey.DESCRIBE_ACLS:
                acl = AclDescription(principal="User:alice", host="*", operation=3, permission_type=3)
                resource = DescribeAclsResource(
                    resource_type=2, resource_name="topic-", pattern_type=4, acls=[acl]
                )
                return DescribeAclsResponse(error_code=code, resources=[resource])
            case ApiKey.CREATE_ACLS:
                return CreateAclsResponse(
                    results=[AclCreationResult(error_code=code) for _ in request.creations]
                )
            case ApiKey.DELETE_ACLS:
                deleted = DeleteAclsMatchingAcl(
                    resource_type=2,
                    resource_name="topic-",
                    pattern_type=4,
                    principal="User:alice",
                    host="*",
                    operation=3,
                    permission_type=3,
                )
                return DeleteAclsResponse(
                    filter_results=[DeleteAclsFilterResult(error_code=code, matching_acls=[deleted])]
                )
        raise AssertionError(f"no answer to {key.name}")


def _config(resource: Any, code: ErrorCode) -> DescribeConfigsResult:
    configs = [
        DescribeConfigsResourceResult(
            name="retention.ms",
            value="1000",
            config_source=1,
            synonyms=[
                DescribeConfigsSynonym(name="retention.ms", value="1000", source=1),
                DescribeConfigsSynonym(name="log.retention.ms", value="604800000", source=5),
            ],
        ),
        DescribeConfigsResourceResult(
            name="ssl.key.password", value="secret", is_sensitive=True, config_source=4
        ),
    ]
    wanted = resource.configuration_keys
    return DescribeConfigsResult(
        error_code=code,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[config for config in configs if wanted is None or config.name in wanted],
    )


def api_client(admin: FakeClusterAdmin, host_name: str | None = None) -> httpx.AsyncClient:
    """A client of the proxy's application over this cluster; failures of ours are answers, 500."""
    api = Api(admin, Urls(host_name), 1 << 20)  # type: ignore[arg-type]
    transport = httpx.ASGITransport(rest_application(all_routes(api, [])), raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}")
