"""Reads the partitions of a topic by the topic's id: no other topic of the same name, and makes none.

Theory of operation. A client that asks for a topic by its name gets an answer about the topic that has the
name now, and makes one where the cluster allows that. So names are only asked for with the word that nothing
be made, and every fetch names the id of the topic that was found first; a partition's leader refuses it when
the topic of this id is gone. Clusters without fetches by id (Kafka before 3.1) are asked by name, and the
node that answered is asked for the id that the name has: an id that is still there was there before.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

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
from ottla.replicated.loss import Loss, TopicLost
from ottla.replicated.records import ReplayedRecord

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
    """A partition can't be read at the moment; says why. `denied`: nor will it be, with these rights."""

    def __init__(self, reason: str, denied: bool = False) -> None:
        super().__init__(reason)
        self.denied = denied


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic as a node knows it. `leaders`: of each partition, None while it has none."""

    topic_id: uuid.UUID
    leaders: tuple[Address | None, ...]


@dataclass(frozen=True, slots=True)
class Fetched:
    """Records of a partition from `offset` on, and where its next fetch begins.

    problem: why there are no records. end: that of the partition's committed records, if it is known.
    """

    partition: int
    offset: int
    records: Sequence[ReplayedRecord]
    next_offset: int
    problem: Unreadable | TopicLost | None = None
    end: int | None = None


class TopicLog:
    """A topic's partitions. Connections are opened when they are needed; fetches have their own."""

    def __init__(self, access: ClusterAccess, topic: str) -> None:
        self._topic = topic
        access = access.with_request_timeout_ms(REQUEST_TIMEOUT_MS)
        self._fetches = NodeConnections(access)
        self._questions = NodeConnections(access)
        self._bootstrap = access.addresses()
        self._nodes: list[Address] = []
        self._leaders: dict[int, Address] = {}
        self._found = FoundTopic(UNKNOWN_ID, ())

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._topic

    @property
    def found(self) -> FoundTopic:
        """The topic that is read; before `adopt` one without partitions.

        Partitions that are added to it later are not read.
        """
        return self._found

    def adopt(self, found: FoundTopic) -> None:
        """From now on this topic is read and no other."""
        self._found = found
        self._keep_leaders(found)

    async def close(self) -> None:
        """Hang up."""
        await self._fetches.close()
        await self._questions.close()

    async def find(self) -> FoundTopic | None:
        """The topic that has the name now, by the next node that answers. Raises Unreadable."""
        reason = "no broker of the cluster is known"
        for node in [*self._nodes, *self._bootstrap]:
            try:
                found = await self._find_at(node)
            except Unreadable as problem:
                if problem.denied:
                    raise
                reason = str(problem)
                continue
            # A node may be late to know of a topic: the next look begins with another one.
            self._nodes = [*(one for one in self._nodes if one != node), node]
            return found
        raise Unreadable(reason)

    async def leaders(self) -> Mapping[int, Address]:
        """Partition -> its leader, without partitions that have none. Raises Unreadable, TopicLost."""
        if len(self._leaders) < len(self._found.leaders):
            self._keep_leaders(self._require_same(await self.find()))
        return self._leaders

    async def first_offsets(self, leader: Address, partitions: Collection[int]) -> dict[int, int]:
        """The first offset of partitions of one leader, asked by the topic's name. Raises Unreadable."""
        return await self._offsets(leader, partitions, EARLIEST, READ_UNCOMMITTED)

    async def end_offsets(self, committed: bool = True) -> dict[int, int]:
        """The end of the records of every partition, asked by the topic's name. Raises Unreadable, TopicLost.

        Where `committed` is false those of open transactions count.
        """
        leaders = await self.leaders()
        if len(leaders) < len(self._found.leaders):
            raise Unreadable(f"a partition of topic {self._topic} has no leader at the moment")
        isolation_level = READ_COMMITTED if committed else READ_UNCOMMITTED
        found: dict[int, int] = {}
        for leader, partitions in by_leader(leaders).items():
            found |= await self._offsets(leader, partitions, LATEST, isolation_level)
        return found

    async def fetch(self, leader: Address, offsets: Mapping[int, int], wait_ms: int) -> list[Fetched]:
        """Committed records of partitions of one leader from these offsets on; waits for the first.

        Raises Unreadable, TopicLost, where that holds for all of them.
        """
        return await self._fetch(self._fetches, leader, offsets, wait_ms, READ_COMMITTED)

    async def fetch_uncommitted(self, partition: int, offset: int, wait_ms: int) -> Fetched:
        """Records of one partition, those of open and aborted transactions among them.

        Raises Unreadable, TopicLost.
        """
        leader = (await self.leaders()).get(partition)
        if leader is None:
            raise Unreadable(f"partition {partition} of topic {self._topic} has no leader at the moment")
        (found,) = await self._fetch(self._questions, leader, {partition: offset}, wait_ms, READ_UNCOMMITTED)
        if found.problem is not None:
            raise found.problem
        return found

    # -- requests -------------------------------------------------------------------------------------

    async def _offsets(
        self, leader: Address, partitions: Collection[int], timestamp: int, isolation_level: int
    ) -> dict[int, int]:
        parts = [ListOffsetsPartition(partition_index=one, timestamp=timestamp) for one in partitions]
        request = ListOffsetsRequest(
            replica_id=CONSUMER,
            isolation_level=isolation_level,
            topics=[ListOffsetsTopic(name=self._topic, partitions=parts)],
        )
        response = await self._ask_leader(self._questions, leader, request)
        found = {}
        for answer in response.topics[0].partitions:
            if answer.error_code:
                raise self._not_now(answer.error_code, [answer.partition_index])
            found[answer.partition_index] = answer.offset
        return found

    async def _fetch(
        self,
        connections: NodeConnections,
        leader: Address,
        offsets: Mapping[int, int],
        wait_ms: int,
        isolation_level: int,
    ) -> list[Fetched]:
        parts = [
            FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
            for partition, offset in offsets.items()
        ]
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=isolation_level,
            topics=[FetchTopic(topic=self._topic, topic_id=self._found.topic_id, partitions=parts)],
        )
        response = await self._ask_leader(connections, leader, request)
        if not response.responses:
            raise self._not_now(response.error_code, offsets)
        topic = response.responses[0]
        if topic.topic_id == UNKNOWN_ID and any(one.error_code or one.records for one in topic.partitions):
            self._require_same(await self._find_at(leader))
        return [self._fetched(one, offsets[one.partition_index], isolation_level) for one in topic.partitions]

    def _fetched(self, answer: Any, offset: int, isolation_level: int) -> Fetched:
        partition = answer.partition_index
        try:
            if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                raise TopicLost(Loss.CUT)
            if answer.error_code:
                raise self._not_now(answer.error_code, [partition])
            return _unpacked(self._topic, answer, offset, isolation_level)
        except (Unreadable, TopicLost) as problem:
            return Fetched(partition, offset, (), offset, problem)

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
            raise self._not_now(topic.error_code, ())
        leaders = {one.partition_index: brokers.get(one.leader_id) for one in topic.partitions}
        return FoundTopic(topic.topic_id, tuple(leaders.get(number) for number in range(len(leaders))))

    def _require_same(self, found: FoundTopic | None) -> FoundTopic:
        if found is not None and found.topic_id == self._found.topic_id:
            return found
        self._leaders = {}
        raise TopicLost(Loss.DELETED if found is None else Loss.REPLACED)

    def _keep_leaders(self, found: FoundTopic) -> None:
        known = enumerate(found.leaders[: len(self._found.leaders)])
        self._leaders = {partition: leader for partition, leader in known if leader is not None}

    async def _ask_leader(self, connections: NodeConnections, leader: Address, request: Message) -> Any:
        try:
            return await _asked(connections, leader, request)
        except Unreadable:
            self._forget_leader([partition for partition, one in self._leaders.items() if one == leader])
            raise

    def _not_now(self, error_code: int, partitions: Collection[int]) -> Unreadable:
        """The reason for a refusal. Leaders are looked for anew, which tells a topic that is gone."""
        self._forget_leader(partitions)
        error = ErrorCode(error_code)
        return Unreadable(f"topic {self._topic}: {error.name}", denied=error in _DENIED)

    def _forget_leader(self, partitions: Collection[int]) -> None:
        self._leaders = {one: leader for one, leader in self._leaders.items() if one not in partitions}


def by_leader(leaders: Mapping[int, Address]) -> dict[Address, list[int]]:
    """Leader -> its partitions."""
    found: dict[Address, list[int]] = {}
    for partition, leader in leaders.items():
        found.setdefault(leader, []).append(partition)
    return found


async def _asked(connections: NodeConnections, node: Address, request: Message) -> Any:
    try:
        return await connections.ask(*node, request)
    except NodeUnreachable as problem:
        raise Unreadable(str(problem)) from None
    except (NodeRefusesUser, UnsupportedRequest) as problem:
        raise Unreadable(f"the broker at {node[0]}:{node[1]}: {problem}", denied=True) from None


def _unpacked(topic: str, answer: Any, offset: int, isolation_level: int) -> Fetched:
    partition = answer.partition_index
    aborted = [(one.producer_id, one.first_offset) for one in answer.aborted_transactions or ()]
    found = PartitionRecords(
        TopicPartition(topic, partition),
        MemoryRecords(bytes(answer.records or b"")),
        aborted,
        offset,
        None,
        None,
        True,
        isolation_level,
    )
    try:
        records = [
            ReplayedRecord(partition, one.offset, one.timestamp, one.key or b"", one.value, one.headers or ())
            for one in found
        ]
    except KafkaError as problem:
        place = f"partition {partition} of topic {topic} from offset {offset} on"
        raise Unreadable(f"{place}: {problem}") from None
    end = answer.last_stable_offset
    return Fetched(partition, offset, records, found.next_fetch_offset, end=end if end >= 0 else None)
