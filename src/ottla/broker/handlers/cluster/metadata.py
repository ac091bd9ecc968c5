"""Metadata (API key 3), versions 0-13, and DescribeTopicPartitions (75), version 0.

Metadata. Null topics ask for all of them, in v0 an empty list does (it could not be null), later it asks for
none. v4 brought `allow_auto_topic_creation`, v5 offline replicas, v7 leader epochs, v8 authorized operations
(KIP-430; those of the cluster went to DescribeCluster in v11), v10 topic ids in the answer and v12 in the
question (KIP-516), v13 an error code for clients that should bootstrap again (KIP-1102). A topic that does
not exist is created if the request and auto.create.topics.enable allow it, and is in the answer when it was:
Kafka's first answer is an error.

DescribeTopicPartitions (KIP-966): topics by name, as many partitions as fit the limit, then a cursor to go
on from.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Iterable
from typing import TYPE_CHECKING

from ottla.broker.authorization import NOT_ASKED, Authorization
from ottla.broker.controller.topic_creation import auto_create_topics
from ottla.broker.network.context import RequestContext
from ottla.core.decisions.topic_names import CLUSTER_METADATA_TOPIC, is_internal, topic_name_problem
from ottla.core.image.image import MetadataImage, PartitionImage, TopicImage
from ottla.core.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from ottla.core.settings import broker_settings
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node
    from ottla.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
    from ottla.protocol.messages.describe_topic_partitions_response import (
        DescribeTopicPartitionsResponse,
        DescribeTopicPartitionsResponsePartition,
        DescribeTopicPartitionsResponseTopic,
    )

NO_LEADER = -1
NO_CONTROLLER = -1
FIRST_VERSION_WITH_TOPIC_IDS_IN_REQUESTS = 12
FIRST_VERSION_THAT_TELLS_LISTENER_PROBLEMS = 6


def metadata(
    node: Node, context: RequestContext, request: MetadataRequest
) -> MetadataResponse | Awaitable[MetadataResponse]:
    """The brokers, and the topics that the client asked for. Waits only to create topics."""
    problem = _problem(request, context.api_version)
    if problem is not None:
        return _refused(request, problem)
    hidden = _hidden_topics(node, context, request)
    missing = [name for name in _missing_names(node.image, request) if name not in hidden]
    if not missing:
        return _answers(node, context, request, hidden, {})
    if request.allow_auto_topic_creation and node.config[broker_settings.AUTO_CREATE_TOPICS_ENABLE]:
        return _created(node, context, request, hidden, missing)
    return _answers(node, context, request, hidden, _unknown(missing))


async def _created(
    node: Node, context: RequestContext, request: MetadataRequest, hidden: Collection[str], missing: list[str]
) -> MetadataResponse:
    """The answer when the topics are created that the client may create."""
    may = node.authorization
    refused: Collection[str] = ()
    if not may.allows_unnamed(context, AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME):
        refused = may.refused(context, AclOperation.CREATE, ResourceType.TOPIC, missing)
    failed = await _create(node, [name for name in missing if name not in refused])
    failed |= dict.fromkeys(refused, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return _answers(node, context, request, hidden, failed)


def _hidden_topics(node: Node, context: RequestContext, request: MetadataRequest) -> Collection[str]:
    """The topics among those that the client asked for that it may not know of."""
    if request.topics is None or not node.authorization.enforced:
        return ()
    known = node.image.topics_by_id
    names = (
        [known[topic.topic_id].name for topic in request.topics if topic.topic_id in known]
        if _by_id(request.topics)
        else [topic.name for topic in request.topics if topic.name is not None]
    )
    return node.authorization.refused(context, AclOperation.DESCRIBE, ResourceType.TOPIC, names)


def _answers(
    node: Node,
    context: RequestContext,
    request: MetadataRequest,
    hidden: Collection[str],
    failed: dict[str, ErrorCode],
) -> MetadataResponse:
    image = node.image
    view = _View(image, context, node.authorization)
    includes = request.include_topic_authorized_operations
    topics = (
        [view.topic(topic, includes) for topic in image.topics.values() if view.shows(topic.name)]
        if _wants_all(request, context.api_version)
        else [_answer(view, asked, hidden, failed, includes) for asked in _distinct(request.topics or [])]
    )
    return MetadataResponse(
        brokers=view.brokers(),
        cluster_id=node.cluster_id,
        controller_id=controller_for_clients(view.reachable, node.node_id),
        topics=topics,
        cluster_authorized_operations=(
            cluster_operations(node, context) if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _problem(request: MetadataRequest, version: int) -> ErrorCode | None:
    """The error of a request that uses ids in v10 or v11, which have the fields for them but no meaning."""
    if version < FIRST_VERSION_WITH_TOPIC_IDS_IN_REQUESTS and any(
        topic.name is None or topic.topic_id != ZERO_UUID for topic in request.topics or ()
    ):
        return ErrorCode.INVALID_REQUEST
    return None


def _refused(request: MetadataRequest, error: ErrorCode) -> MetadataResponse:
    """The answer to a request that is wrong as a whole: every topic has the error, for want of a field."""
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(error_code=error, name=topic.name or "", topic_id=topic.topic_id)
            for topic in request.topics or ()
        ]
    )


def _wants_all(request: MetadataRequest, version: int) -> bool:
    return request.topics is None or (version == 0 and not request.topics)


def _by_id(topics: list[MetadataRequestTopic]) -> bool:
    """Whether a request asks by ids; its names are not looked at then."""
    return any(topic.topic_id != ZERO_UUID for topic in topics)


def _distinct(topics: list[MetadataRequestTopic]) -> Iterable[MetadataRequestTopic]:
    """The topics that the client asked for, each once."""
    if _by_id(topics):
        return {topic.topic_id: topic for topic in topics if topic.topic_id != ZERO_UUID}.values()
    return {topic.name: topic for topic in topics}.values()


def _missing_names(image: MetadataImage, request: MetadataRequest) -> list[str]:
    if request.topics is None or _by_id(request.topics):
        return []
    names = [topic.name for topic in request.topics if topic.topic_id == ZERO_UUID]
    return list(dict.fromkeys(name for name in names if name is not None and name not in image.topics))


async def _create(node: Node, names: list[str]) -> dict[str, ErrorCode]:
    """Create the topics that can be created. Returns the errors of the others."""
    never = {name for name in names if topic_name_problem(name) is not None or name == CLUSTER_METADATA_TOPIC}
    failed = await auto_create_topics(node, [name for name in names if name not in never])
    return failed | _unknown(never)


def _unknown(names: Iterable[str]) -> dict[str, ErrorCode]:
    return {
        name: (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if topic_name_problem(name) is None
            else ErrorCode.INVALID_TOPIC_EXCEPTION
        )
        for name in names
    }


def cluster_operations(node: Node, context: RequestContext) -> int:
    """The operations that the client may do on the cluster, none if it may not even describe it."""
    may = node.authorization
    if not may.allows(context, AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return may.operations(context, ResourceType.CLUSTER, CLUSTER_NAME)


def _answer(
    view: _View,
    asked: MetadataRequestTopic,
    hidden: Collection[str],
    failed: dict[str, ErrorCode],
    includes_operations: bool,
) -> MetadataResponseTopic:
    if asked.topic_id != ZERO_UUID:
        found = view.image.topics_by_id.get(asked.topic_id)
        if found is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id
            )
        if found.name in hidden:
            # The client has the id already; it does not learn the name.
            return MetadataResponseTopic(
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=None, topic_id=asked.topic_id
            )
        return view.topic(found, includes_operations)
    name = asked.name or ""
    if name in hidden:
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    topic = view.image.topics.get(name)
    if topic is None:
        # Did not fail either: created and deleted again while this request waited.
        code = failed.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        is_known = code != ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return MetadataResponseTopic(
            error_code=code,
            name=name,
            is_internal=is_internal(name),
            topic_authorized_operations=view.operations(name)
            if includes_operations and is_known
            else NOT_ASKED,
        )
    return view.topic(topic, includes_operations)


def controller_for_clients(reachable: Collection[int], node_id: int) -> int:
    """The node to which clients send admin requests: any broker passes them on, this one is nearest."""
    if node_id in reachable:
        return node_id
    return min(reachable, default=NO_CONTROLLER)


class _View:
    """The metadata as the client of a request sees it."""

    def __init__(self, image: MetadataImage, context: RequestContext, authorization: Authorization) -> None:
        self.image = image
        self._context = context
        self._authorization = authorization
        self._listener_name = listener_name = context.session.listener_name
        self._version = context.api_version
        self._alive = {broker.broker_id for broker in image.brokers.values() if not broker.fenced}
        self.reachable = {
            broker_id
            for broker_id in self._alive
            if image.brokers[broker_id].endpoint(listener_name) is not None
        }

    def brokers(self) -> list[MetadataResponseBroker]:
        found = []
        for broker_id in sorted(self.reachable):
            broker = self.image.brokers[broker_id]
            endpoint = broker.endpoint(self._listener_name)
            assert endpoint is not None
            found.append(
                MetadataResponseBroker(
                    node_id=broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
                )
            )
        return found

    def shows(self, name: str) -> bool:
        """Whether the client may know of a topic that it did not name."""
        return not self._authorization.enforced or self._authorization.allows_unnamed(
            self._context, AclOperation.DESCRIBE, ResourceType.TOPIC, name
        )

    def operations(self, name: str) -> int:
        """The operations that the client may do on a topic."""
        return self._authorization.operations(self._context, ResourceType.TOPIC, name)

    def topic(self, topic: TopicImage, includes_operations: bool) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            error_code=ErrorCode.NONE,
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=is_internal(topic.name),
            partitions=[self._partition(partition) for partition in topic.partitions.values()],
            topic_authorized_operations=self.operations(topic.name) if includes_operations else NOT_ASKED,
        )

    def _partition(self, partition: PartitionImage) -> MetadataResponsePartition:
        replicas, isr = list(partition.replicas), list(partition.isr)
        return MetadataResponsePartition(
            error_code=self._partition_error(partition),
            partition_index=partition.partition_id,
            leader_id=partition.leader if partition.leader in self.reachable else NO_LEADER,
            leader_epoch=partition.leader_epoch,
            # v0 has no field for replicas that are not alive: they are left out.
            replica_nodes=replicas
            if self._version
            else [each for each in replicas if each in self.reachable],
            isr_nodes=isr if self._version else [each for each in isr if each in self.reachable],
            offline_replicas=self.offline_replicas(partition),
        )

    def offline_replicas(self, partition: PartitionImage) -> list[int]:
        """Replicas whose broker is not there for clients of this listener, or has lost their directory."""
        reachable, brokers = self.reachable, self.image.brokers
        if not partition.directories:
            return [replica for replica in partition.replicas if replica not in reachable]
        return [
            replica
            for replica, directory in zip(partition.replicas, partition.directories, strict=True)
            if replica not in reachable or not brokers[replica].is_online(directory)
        ]

    def _partition_error(self, partition: PartitionImage) -> ErrorCode:
        if partition.leader not in self._alive:
            return ErrorCode.LEADER_NOT_AVAILABLE
        if partition.leader not in self.reachable:
            if self._version >= FIRST_VERSION_THAT_TELLS_LISTENER_PROBLEMS:
                return ErrorCode.LISTENER_NOT_FOUND
            return ErrorCode.LEADER_NOT_AVAILABLE
        if self._version == 0 and not self.reachable.issuperset(partition.replicas):
            return ErrorCode.REPLICA_NOT_AVAILABLE
        return ErrorCode.NONE


# -- DescribeTopicPartitions --------------------------------------------------------------------------


def describe_topic_partitions(
    node: Node, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Partitions topic by topic, in the order of their names, up to the limit."""
    from ottla.protocol.messages.describe_topic_partitions_response import (
        Cursor,
        DescribeTopicPartitionsResponse,
    )

    image = node.image
    cursor = request.cursor
    asked = {topic.name for topic in request.topics}
    if cursor is not None and (cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)):
        return DescribeTopicPartitionsResponse(
            topics=[_undescribed(name, ErrorCode.INVALID_REQUEST, NOT_ASKED) for name in sorted(asked)]
        )
    view = _View(image, context, node.authorization)
    hidden: Collection[str] = ()
    if asked:
        hidden = node.authorization.refused(context, AclOperation.DESCRIBE, ResourceType.TOPIC, asked)
        names = sorted(name for name in asked if name not in hidden)
    else:
        names = sorted(name for name in image.topics if view.shows(name))
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    limit = node.config[broker_settings.MAX_REQUEST_PARTITION_SIZE_LIMIT]
    remaining = max(1, min(limit, request.response_partition_limit))
    response = DescribeTopicPartitionsResponse(next_cursor=None)
    for name in names:
        if remaining == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        topic = image.topics.get(name)
        if topic is None:
            response.topics.append(_undescribed(name, _unknown([name])[name], view.operations(name)))
            continue
        indexes = [index for index in sorted(topic.partitions) if index >= first]
        described = [_describe(topic.partitions[index], view) for index in indexes[:remaining]]
        response.topics.append(_described(topic, described, view.operations(name)))
        if len(indexes) > remaining:
            response.next_cursor = Cursor(topic_name=name, partition_index=indexes[remaining])
            break
        remaining -= len(described)
    response.topics += [
        _undescribed(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, NOT_ASKED)
        for name in sorted(hidden)
        if cursor is None or name >= cursor.topic_name
    ]
    return response


def _undescribed(name: str, error: ErrorCode, operations: int) -> DescribeTopicPartitionsResponseTopic:
    from ottla.protocol.messages.describe_topic_partitions_response import (
        DescribeTopicPartitionsResponseTopic,
    )

    return DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=name,
        is_internal=is_internal(name),
        topic_authorized_operations=operations,
    )


def _described(
    topic: TopicImage, partitions: list[DescribeTopicPartitionsResponsePartition], operations: int
) -> DescribeTopicPartitionsResponseTopic:
    from ottla.protocol.messages.describe_topic_partitions_response import (
        DescribeTopicPartitionsResponseTopic,
    )

    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=partitions,
        topic_authorized_operations=operations,
    )


def _describe(partition: PartitionImage, view: _View) -> DescribeTopicPartitionsResponsePartition:
    from ottla.protocol.messages.describe_topic_partitions_response import (
        DescribeTopicPartitionsResponsePartition,
    )

    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE,  # as in Kafka: only the id tells that there is no leader
        partition_index=partition.partition_id,
        leader_id=partition.leader if partition.leader in view.reachable else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=view.offline_replicas(partition),
    )


HANDLERS = {
    ApiKey.METADATA: metadata,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions,
}
