"""Reads the one partition of a topic by the topic's id: no other topic of the same name, and makes none.

Theory of operation. A client that asks for a topic by its name is answered with whatever has that name now,
and makes the topic where the cluster allows that. So names are only asked for with the word that nothing be
made, and every fetch names the id of the topic that was found first; the partition's leader refuses it when
the topic of this id is gone. Clusters without fetches by id (Kafka before 3.1) are asked by name, and the
node that answered is asked for the id that the name has: an id that is still there was there before.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiokafka.conn import collect_hosts
from aiokafka.consumer.fetcher import READ_COMMITTED, READ_UNCOMMITTED, PartitionRecords
from aiokafka.errors import KafkaError
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition

from ottla.client.access import ClusterAccess
from ottla.client.kafka_requests import (
    NodeConnections,
    NodeRefusesUser,
    NodeUnreachable,
    UnsupportedRequest,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.schema import Message
from ottla.registry.loss import Loss, TopicLost

REQUEST_TIMEOUT_MS: Final = 5_000
FETCH_BYTES: Final = 1 << 20
"""Replayed from one answer; a larger batch comes alone."""
CONSUMER: Final = -1
"""In place of a replica's id."""
LATEST: Final = -1
EARLIEST: Final = -2
UNKNOWN_ID: Final = uuid.UUID(int=0)
_DENIED: Final = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})

Address = tuple[str, int]


class Unreadable(Exception):
    """The partition can't be read at the moment; says why. `denied`: nor will it be, with these rights."""

    def __init__(self, reason: str, denied: bool = False) -> None:
        super().__init__(reason)
        self.denied = denied


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """The topic that has the name now. `leader` is that of partition 0, None while it has none."""

    topic_id: uuid.UUID
    partitions: int
    leader: Address | None


@dataclass(frozen=True, slots=True)
class Fetched:
    """Records in order (`offset`, `timestamp`, `key`, `value`), and where the next fetch begins."""

    records: Sequence[Any]
    next_offset: int


class PartitionLog:
    """Partition 0 of `topic`. Connections are opened when they are needed; a fetch has one of its own."""

    def __init__(self, access: ClusterAccess, topic: str) -> None:
        self._topic = topic
        access = access.with_request_timeout_ms(REQUEST_TIMEOUT_MS)
        self._fetches = NodeConnections(access)
        self._questions = NodeConnections(access)
        self._bootstrap: list[Address] = [(host, port) for host, port, _ in collect_hosts(access.bootstrap)]
        self._nodes: list[Address] = []
        self._leader: Address | None = None
        self._topic_id = UNKNOWN_ID

    @property
    def topic_id(self) -> uuid.UUID:
        """Of the topic that is read; UNKNOWN_ID before `adopt`, and where the cluster has no ids."""
        return self._topic_id

    def adopt(self, found: FoundTopic) -> None:
        """From now on this topic is read and no other."""
        self._topic_id, self._leader = found.topic_id, found.leader

    async def close(self) -> None:
        """Hang up."""
        await self._fetches.close()
        await self._questions.close()

    async def find(self) -> FoundTopic | None:
        """What has the name now, by the next node that answers; None if nothing has. Raises Unreadable."""
        reason = "no broker of the cluster is known"
        for node in [*self._nodes, *self._bootstrap]:
            try:
                found = await self._find_at(node)
            except Unreadable as problem:
                if problem.denied:
                    raise
                reason = str(problem)
                continue
            # what one node may be late to know is asked of another one next time
            self._nodes = [*(one for one in self._nodes if one != node), node]
            return found
        raise Unreadable(reason)

    async def first_offset(self) -> int:
        """Of the partition of this name. Raises Unreadable, TopicLost."""
        return await self._offset(EARLIEST)

    async def end_offset(self) -> int:
        """Of the partition of this name. Raises Unreadable, TopicLost."""
        return await self._offset(LATEST)

    async def fetch(self, offset: int, wait_ms: int, committed: bool = True) -> Fetched:
        """Records from `offset` on; waits for the first. Raises Unreadable, TopicLost.

        Where `committed` is false those of open and aborted transactions are among them.
        """
        leader = self._leader or await self._find_leader()
        connections = self._fetches if committed else self._questions
        response = await self._ask_leader(
            connections, leader, self._fetch_request(offset, wait_ms, committed)
        )
        try:
            topic = response.responses[0]
            partition = topic.partitions[0]
        except IndexError:
            raise self._not_now(response.error_code) from None
        if topic.topic_id == UNKNOWN_ID and (partition.error_code or partition.records):
            self._require_same(await self._find_at(leader))
        if partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise TopicLost(Loss.CUT)
        if partition.error_code:
            raise self._not_now(partition.error_code)
        return _unpacked(self._topic, partition, offset, committed)

    # -- requests -------------------------------------------------------------------------------------

    def _fetch_request(self, offset: int, wait_ms: int, committed: bool) -> FetchRequest:
        part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=READ_COMMITTED if committed else READ_UNCOMMITTED,
            topics=[FetchTopic(topic=self._topic, topic_id=self._topic_id, partitions=[part])],
        )

    async def _find_at(self, node: Address) -> FoundTopic | None:
        wanted = MetadataRequestTopic(name=self._topic)
        request = MetadataRequest(topics=[wanted], allow_auto_topic_creation=False)
        response = await _asked(self._questions, node, request)
        brokers = {one.node_id: (one.host, one.port) for one in response.brokers}
        known = [one for one in self._nodes if one in brokers.values()]
        self._nodes = [*known, *(one for one in brokers.values() if one not in known)]
        (topic,) = response.topics
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        if topic.error_code:
            raise self._not_now(topic.error_code)
        leaders = {one.partition_index: brokers.get(one.leader_id) for one in topic.partitions}
        return FoundTopic(topic.topic_id, len(topic.partitions), leaders.get(0))

    async def _find_leader(self) -> Address:
        found = self._require_same(await self.find())
        if found.leader is None:
            raise Unreadable(f"partition 0 of topic {self._topic} has no leader at the moment")
        self._leader = found.leader
        return found.leader

    def _require_same(self, found: FoundTopic | None) -> FoundTopic:
        if found is not None and found.topic_id == self._topic_id:
            return found
        self._leader = None
        raise TopicLost(Loss.DELETED if found is None else Loss.REPLACED)

    async def _offset(self, timestamp: int) -> int:
        leader = self._leader or await self._find_leader()
        part = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        topic = ListOffsetsTopic(name=self._topic, partitions=[part])
        response = await self._ask_leader(
            self._questions, leader, ListOffsetsRequest(replica_id=CONSUMER, topics=[topic])
        )
        answer = response.topics[0].partitions[0]
        if answer.error_code:
            raise self._not_now(answer.error_code)
        return int(answer.offset)

    async def _ask_leader(self, connections: NodeConnections, leader: Address, request: Message) -> Any:
        try:
            return await _asked(connections, leader, request)
        except Unreadable:
            self._leader = None
            raise

    def _not_now(self, error_code: int) -> Unreadable:
        """Whatever a node refuses, the leader is looked for anew: that tells a topic that is gone."""
        self._leader = None
        error = ErrorCode(error_code)
        return Unreadable(f"topic {self._topic}: {error.name}", denied=error in _DENIED)


async def _asked(connections: NodeConnections, node: Address, request: Message) -> Any:
    try:
        return await connections.ask(*node, request)
    except NodeUnreachable as problem:
        raise Unreadable(str(problem)) from None
    except (NodeRefusesUser, UnsupportedRequest) as problem:
        raise Unreadable(f"the broker at {node[0]}:{node[1]}: {problem}", denied=True) from None


def _unpacked(topic: str, partition: Any, offset: int, committed: bool) -> Fetched:
    aborted = [(one.producer_id, one.first_offset) for one in partition.aborted_transactions or ()]
    found = PartitionRecords(
        TopicPartition(topic, 0),
        MemoryRecords(bytes(partition.records or b"")),
        aborted,
        offset,
        None,
        None,
        True,
        READ_COMMITTED if committed else READ_UNCOMMITTED,
    )
    try:
        records = list(found)
    except KafkaError as problem:
        raise Unreadable(f"topic {topic} from offset {offset} on: {problem}") from None
    return Fetched(records, found.next_fetch_offset)
