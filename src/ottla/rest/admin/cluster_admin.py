"""Reads the state of a cluster: brokers, topics, groups, offsets.

Theory of operation. Every request goes to a broker by `ask`, as a message of our own over `client/`.
librdkafka has no call for some of them (configs of all brokers, access rules, reassignments), waits for a
controller that may be gone in others (brokers, topics), and ends the process in those about groups. Each call
ends within the admin timeout. Many topics or groups are described in pages, so that the objects of a large
answer are not made in one go. See the modules cluster_*.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from ottla.client.access import ClusterAccess
from ottla.client.errors import ClientOptionError
from ottla.config.settings import Settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.schema import Message
from ottla.rest.admin.broker_requests import TRY_SECONDS, BrokerRequests
from ottla.rest.admin.cluster_groups import (
    DEAD,
    all_groups,
    committed_offsets,
    find_group,
)
from ottla.rest.admin.cluster_offsets import partition_offsets
from ottla.rest.admin.model import AclOperation, Cluster, Group, Node, OffsetSpec, Partition, Topic
from ottla.rest.kafka_errors import raise_for, unreachable
from ottla.rest.settings import ADMIN_PREFIX, ADMIN_TIMEOUT_MS
from ottla.web.errors import ApiError, ServiceError

T = TypeVar("T")

TOPICS_OF_A_PAGE: Final = 200
NOT_SAID: Final = -(2**31)
"""Stands for authorized operations that the client did not ask for."""
UNKNOWN_TOPIC: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_BROKERS: Final = MetadataRequest(topics=[], allow_auto_topic_creation=False)
_ALL_TOPICS: Final = MetadataRequest(topics=None, allow_auto_topic_creation=False)


class ClusterAdmin:
    """The proxy's view of its cluster. All methods that ask the cluster raise ApiError."""

    def __init__(self, settings: Settings, access: ClusterAccess) -> None:
        """Raises ServiceError for settings admin.* or client.* that can't be."""
        self._timeout_seconds = settings[ADMIN_TIMEOUT_MS] / 1_000
        own = ClusterAccess(access.bootstrap, settings.with_prefix(ADMIN_PREFIX))
        access = access.with_properties(own.properties)
        try:
            own.require_common_properties()
            access.connection()
            addresses = access.addresses()
        except ClientOptionError as problem:
            raise ServiceError(f"ottla rest: the settings admin.* or client.*: {problem}") from None
        self._requests = BrokerRequests(access.with_request_timeout_ms(settings[ADMIN_TIMEOUT_MS]))
        self._cluster_id: str | None = None
        self._bootstrap = tuple(Node(-1, host, port) for host, port in addresses)
        self._nodes: tuple[Node, ...] = ()
        self._answered = -1

    @property
    def timeout_ms(self) -> int:
        """The admin timeout, of each request."""
        return int(self._timeout_seconds * 1_000)

    async def start(self) -> None:
        """Nothing: the cluster need not be there yet, connections are opened when a broker is asked."""

    async def failed(self) -> str:
        """Never returns: no part of this dies while the process lives."""
        await asyncio.Event().wait()
        raise AssertionError

    def end_requests(self) -> None:
        """Nothing: a request that the cluster does not answer in time is cut off by the service's front."""

    async def stop(self) -> None:
        """Close all connections."""
        await self._requests.close()

    # --- the cluster -------------------------------------------------------------------------------------

    async def cluster(self) -> Cluster:
        """The present brokers and controller, according to the first broker that answers."""
        # not by librdkafka, which asks the controller that it knew, and waits for it even if it is gone
        problem = unreachable("The cluster has no broker at the moment.")
        known = sorted(self._nodes, key=lambda node: node.id != self._answered)
        for node in (*known, *self._bootstrap):
            try:
                found = await self._requests.ask(node, _BROKERS, TRY_SECONDS)
            except ApiError as refusal:
                problem = refusal
                continue
            self._answered = node.id
            self._cluster_id = found.cluster_id or ""
            nodes = (Node(one.node_id, one.host, one.port, one.rack or None) for one in found.brokers)
            self._nodes = tuple(sorted(nodes, key=lambda node: node.id))
            controller = found.controller_id if found.controller_id >= 0 else None
            return Cluster(self._cluster_id, controller, self._nodes)
        raise problem

    async def cluster_id(self) -> str:
        """The cluster's id; the cluster is asked once."""
        return self._cluster_id if self._cluster_id is not None else (await self.cluster()).id

    async def ask(self, request: Message, node_id: int | None = None) -> Any:
        """The response of broker `node_id`, or of any. Raises ApiError, also 404 for an unknown broker."""
        cluster = await self.cluster()
        node = cluster.node(self._answered if node_id is None else node_id)
        if node_id is not None and node is None:
            raise ApiError(404, 404, f"Broker {node_id} cannot be found.")
        if node is None:
            node = await self._requests.reach(cluster.nodes)
        return await self._requests.ask(node, request)

    async def ask_controller(self, request: Message) -> Any:
        """The controller's response, or that of a broker that forwards the request. Raises ApiError."""
        cluster = await self.cluster()
        first = sorted(cluster.nodes, key=lambda node: node.id != cluster.controller)
        return await self._requests.ask(await self._requests.reach(first), request)

    # --- topics ------------------------------------------------------------------------------------------

    async def topic_names(self) -> list[str]:
        """The names of all topics, sorted."""
        return sorted(topic.name for topic in (await self.ask(_ALL_TOPICS)).topics)

    async def topics(self, names: Collection[str] | None = None) -> list[Topic]:
        """All topics, or those of `names`, sorted by name; topics that are gone are left out."""
        topics: list[Topic] = []
        wanted = await self.topic_names() if names is None else sorted(names)
        for page in _pages(wanted, TOPICS_OF_A_PAGE):
            topics += await self._topics_page(page)
        return topics

    async def _topics_page(self, names: Sequence[str]) -> list[Topic]:
        found = await self._metadata(names)
        return [_topic(topic) for topic in found if topic.error_code != UNKNOWN_TOPIC]

    async def topic(self, name: str, authorized_operations: bool = False) -> Topic:
        """One topic. Raises ApiError, also 404 (40403) when there is none."""
        (found,) = await self._metadata([name], authorized_operations)
        return _topic(found)

    async def _metadata(self, names: Sequence[str], authorized_operations: bool = False) -> list[Any]:
        # not by librdkafka, whose describe_topics needs the controller as well
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=authorized_operations,
        )
        topics: list[Any] = (await self.ask(request)).topics
        return topics

    async def offsets(
        self, partitions: Iterable[tuple[str, int]], spec: OffsetSpec
    ) -> dict[tuple[str, int], int]:
        """The offset of each partition; partitions that are gone are left out."""
        return await partition_offsets(self.ask, self.topics, partitions, spec, self._timeout_seconds)

    # --- groups ------------------------------------------------------------------------------------------

    async def groups(self) -> list[Group]:
        """All consumer groups, sorted by id."""
        # each broker knows the groups that it coordinates
        nodes = (await self.cluster()).nodes
        return await all_groups(self.ask, [node.id for node in nodes])

    async def group(self, group_id: str) -> Group:
        """One consumer group. Raises ApiError 404 (40403) when there is none."""
        group = await find_group(self.ask, group_id)
        if group.state == DEAD:
            raise ApiError(404, 40403, f"Consumer group {group_id} cannot be found.")
        return group

    async def committed(self, group_id: str) -> dict[tuple[str, int], int]:
        """The offsets that a group has committed."""
        return await committed_offsets(self.ask, group_id)


def _pages(items: Iterable[T], size: int) -> Iterable[list[T]]:
    iterator = iter(items)
    while page := list(islice(iterator, size)):
        yield page


def _topic(found: Any) -> Topic:
    """A topic of a Metadata response. Raises ApiError where it has an error."""
    raise_for(found.error_code, None)
    partitions = tuple(
        Partition(
            partition.partition_index,
            partition.leader_id if partition.leader_id >= 0 else None,
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
        )
        for partition in sorted(found.partitions, key=lambda partition: partition.partition_index)
    )
    bits = found.topic_authorized_operations
    operations = None
    if bits != NOT_SAID:
        operations = tuple(operation.name for operation in AclOperation if bits >> operation & 1)
    return Topic(found.name, found.is_internal, partitions, operations)
