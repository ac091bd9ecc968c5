"""Reads what a cluster is made of: brokers, topics, groups, offsets.

Theory of operation. Names and offsets are asked for by confluent-kafka's AdminClient, which finds leaders. It
answers in threads of its own; each call here waits for one future without holding the event loop, and ends
within the admin timeout. Many topics or groups are described in pages, so that one request's objects are
never made at once. Other requests go to a broker by `ask`: those that librdkafka has no call for (configs of
all brokers, access rules, reassignments, what a new topic came to), those for which it waits for a controller
that may be gone (brokers, topics), and those in which it crashes (groups). See the modules cluster_*.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any, Final, TypeVar

from confluent_kafka import (
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from ottla.client.access import ClusterAccess
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
from ottla.rest.admin.model import AclOperation, Cluster, Group, Node, Partition, Topic
from ottla.rest.kafka_errors import of_kafka_error, raise_for, unreachable
from ottla.rest.settings import ADMIN_PREFIX, ADMIN_TIMEOUT_MS
from ottla.web.errors import ApiError, ServiceError

T = TypeVar("T")

TOPICS_OF_A_PAGE: Final = 200
OFFSETS_OF_A_PAGE: Final = 1_000
# confluent-kafka types neither
EARLIEST: Final[OffsetSpec] = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]
BLOCKING_CALLS: Final = 4
"""Threads for the one call of librdkafka that gives no future."""
NOT_SAID: Final = -(2**31)
"""In place of authorized operations."""
UNKNOWN_TOPIC: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
KAFKA_PORT: Final = 9092
_BROKERS: Final = MetadataRequest(topics=[], allow_auto_topic_creation=False)
GRACE_SECONDS: Final = 2.0
"""After its own timeout, for a call to end."""


class ClusterAdmin:
    """The proxy's view of its cluster. All methods that ask it raise ApiError."""

    def __init__(self, settings: Settings, access: ClusterAccess) -> None:
        self._timeout_seconds = settings[ADMIN_TIMEOUT_MS] / 1_000
        access = access.with_properties(settings.with_prefix(ADMIN_PREFIX))
        self._properties = access.librdkafka()
        self._requests = BrokerRequests(access.with_request_timeout_ms(settings[ADMIN_TIMEOUT_MS]))
        self._threads = ThreadPoolExecutor(BLOCKING_CALLS, thread_name_prefix="rest-admin")
        self._client: AdminClient | None = None
        self._cluster_id: str | None = None
        self._bootstrap = tuple(_bootstrap_node(address) for address in access.bootstrap.split(","))
        self._nodes: tuple[Node, ...] = ()
        self._answered = -1

    @property
    def timeout_ms(self) -> int:
        """What a request may take."""
        return int(self._timeout_seconds * 1_000)

    async def start(self) -> None:
        """Make the client; the cluster need not be there yet. Raises ServiceError for its settings."""
        try:
            self._client = AdminClient({"log_level": 2, **self._properties})
        except (KafkaException, ValueError, TypeError) as problem:
            raise ServiceError(f"ottla rest: the settings admin.* or client.*: {problem}") from None

    async def failed(self) -> str:
        """Nothing here dies while the process lives: this never returns."""
        await asyncio.Event().wait()
        raise AssertionError

    async def stop(self) -> None:
        """Close all connections."""
        await self._requests.close()
        # the last reference goes in a thread: librdkafka waits there for its own
        clients = [self._client]
        self._client = None
        await asyncio.get_running_loop().run_in_executor(self._threads, clients.clear)
        self._threads.shutdown(wait=False, cancel_futures=True)

    # --- the cluster -------------------------------------------------------------------------------------

    async def cluster(self) -> Cluster:
        """Brokers and controller as they are now, by the first broker that answers."""
        # not by librdkafka, which asks the controller that it knew and waits for it when that is gone
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
        """The cluster's id, asked for once."""
        return self._cluster_id if self._cluster_id is not None else (await self.cluster()).id

    async def ask(self, request: Message, node_id: int | None = None) -> Any:
        """A broker's response, or that of `node_id`. Raises ApiError, also 404 for an unknown broker."""
        cluster = await self.cluster()
        node = cluster.node(self._answered if node_id is None else node_id)
        if node_id is not None and node is None:
            raise ApiError(404, 404, f"Broker {node_id} cannot be found.")
        if node is None:
            node = await self._requests.reach(cluster.nodes)
        return await self._requests.ask(node, request)

    async def ask_controller(self, request: Message) -> Any:
        """The controller's response, or that of a broker, which may forward to it. Raises ApiError."""
        cluster = await self.cluster()
        first = sorted(cluster.nodes, key=lambda node: node.id != cluster.controller)
        return await self._requests.ask(await self._requests.reach(first), request)

    # --- topics ------------------------------------------------------------------------------------------

    async def topic_names(self) -> list[str]:
        """The names of all topics, sorted."""
        client = self._running()
        found = await self._within(
            asyncio.get_running_loop().run_in_executor(
                self._threads, lambda: client.list_topics(timeout=self._timeout_seconds)
            )
        )
        return sorted(found.topics)

    async def topics(self, names: Collection[str] | None = None) -> list[Topic]:
        """All topics, or these, sorted by name; without those that went meanwhile."""
        topics: list[Topic] = []
        wanted = await self.topic_names() if names is None else sorted(names)
        for page in _pages(wanted, TOPICS_OF_A_PAGE):
            topics += await self._topics_page(page)
        return topics

    async def _topics_page(self, names: Sequence[str]) -> list[Topic]:
        found = await self._metadata(names)
        return [_topic(topic) for topic in found if topic.error_code != UNKNOWN_TOPIC]

    async def topic(self, name: str, authorized_operations: bool = False) -> Topic:
        """One topic. Raises ApiError, 404 (40403) when there is none."""
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
        """The EARLIEST or LATEST offset of each partition; those that are gone are left out."""
        offsets: dict[tuple[str, int], int] = {}
        for page in _pages(partitions, OFFSETS_OF_A_PAGE):
            offsets |= await self._offsets_page(page, spec)
        return offsets

    async def _offsets_page(
        self, partitions: list[tuple[str, int]], spec: OffsetSpec
    ) -> dict[tuple[str, int], int]:
        wanted = {TopicPartition(topic, partition): spec for topic, partition in partitions}
        futures = self._submit(lambda client, timeout: client.list_offsets(wanted, request_timeout=timeout))
        found = {
            (partition.topic, partition.partition): await self._unless_gone(future)
            for partition, future in futures.items()
        }
        return {partition: info.offset for partition, info in found.items() if info is not None}

    # --- groups ------------------------------------------------------------------------------------------

    async def groups(self) -> list[Group]:
        """All consumer groups, sorted by id."""
        # each broker knows those that it coordinates
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

    # --- calls -------------------------------------------------------------------------------------------

    def _running(self) -> AdminClient:
        if self._client is None:
            raise unreachable("The proxy is stopping.")
        return self._client

    def _submit(self, make: Callable[[AdminClient, float], T]) -> T:
        try:
            return make(self._running(), self._timeout_seconds)
        except KafkaException as problem:
            raise of_kafka_error(problem.args[0]) from None
        except (TypeError, ValueError) as problem:
            raise ApiError(400, 40002, f"The Kafka client refuses that: {problem}") from None

    async def _within(self, future: Future[Any] | Awaitable[Any]) -> Any:
        """The result, within the admin timeout. Raises ApiError."""
        try:
            return await self._result(future)
        except KafkaException as problem:
            raise of_kafka_error(problem.args[0]) from None

    async def _result(self, future: Future[Any] | Awaitable[Any]) -> Any:
        """The result, within the admin timeout. Raises ApiError when it does not come, and KafkaException."""
        waiting = asyncio.wrap_future(future) if isinstance(future, Future) else future
        try:
            return await asyncio.wait_for(waiting, self._timeout_seconds + GRACE_SECONDS)
        except TimeoutError:
            raise unreachable("The cluster did not answer in time.") from None

    async def _unless_gone(self, future: Future[Any]) -> Any:
        """The result, or None where a topic or partition is not there (any more)."""
        try:
            return await self._within(future)
        except ApiError as problem:
            if problem.status != 404:
                raise
            return None


def _pages(items: Iterable[T], size: int) -> Iterable[list[T]]:
    iterator = iter(items)
    while page := list(islice(iterator, size)):
        yield page


def _bootstrap_node(address: str) -> Node:
    """An address of the settings, before its id is known."""
    host, separator, port = address.strip().rpartition(":")
    if not separator or not port.isdecimal():
        host, port = address.strip(), str(KAFKA_PORT)
    return Node(-1, host.strip("[]"), int(port))


def _topic(found: Any) -> Topic:
    """Raises ApiError where the broker has an error in its place."""
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
