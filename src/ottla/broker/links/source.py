"""A link's source cluster as this broker sees it: where its leaders are, and requests to them.

Metadata are asked of any bootstrap server or broker that answers, and kept until somebody finds them wrong;
all who wait share one request. Versions of Kafka differ: a request goes out in the newest version that both
sides know, and topic ids, which Kafka has since 2.8, tell a topic that was made again from the one before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from ottla.broker.peers.peers import PeerAddress, PeerConnections, PeerUnreachable
from ottla.core.links.definition import LinkDefinition
from ottla.core.links.plan import SourcePartition, SourceTopic
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.list_offsets_response import ListOffsetsResponse
from ottla.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.metadata_response import MetadataResponse
from ottla.protocol.schema import Message

T = TypeVar("T", bound=Message)

TIMEOUT_MS: Final = 10_000
FRESH_SECONDS: Final = 0.05
"""Metadata that are this young are not asked for again."""
CONSUMER: Final = -1
LATEST: Final = -1
EARLIEST: Final = -2

TopicPartition = tuple[str, int]


class SourceUnusable(Exception):
    """The source does not answer, or not as a Kafka cluster does; one line."""


@dataclass(frozen=True, slots=True)
class SourceMetadata:
    """The source's brokers and topics at one time."""

    cluster_id: str
    brokers: Mapping[int, PeerAddress] = field(default_factory=dict)
    topics: Mapping[str, SourceTopic] = field(default_factory=dict)


class Source:
    """One source cluster. Used on the event loop only."""

    def __init__(self, link: LinkDefinition, connections: PeerConnections, purpose: str) -> None:
        self._link = link
        self._connections = connections
        self._purpose = purpose
        self._metadata: SourceMetadata | None = None
        self._asked_at = 0.0
        self._asking: asyncio.Task[SourceMetadata] | None = None

    @property
    def known(self) -> SourceMetadata | None:
        """The metadata as they were found last, or None."""
        return self._metadata

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    async def ask(
        self,
        to: PeerAddress,
        request: Message,
        answer: type[T],
        *,
        purpose: str = "",
        timeout_ms: int = TIMEOUT_MS,
    ) -> T:
        """A broker's answer. Raises SourceUnusable."""
        try:
            found = await self._connections.ask(
                f"link-{self._purpose}-{purpose}", to, request, timeout_ms=timeout_ms
            )
        except PeerUnreachable as problem:
            raise SourceUnusable(str(problem)) from None
        assert isinstance(found, answer)
        return found

    async def ask_any(self, request: Message, answer: type[T]) -> T:
        """The answer of the first broker that gives one. Raises SourceUnusable."""
        known = self._metadata.brokers.values() if self._metadata is not None else ()
        problem = SourceUnusable("the link has no source")
        for to in dict.fromkeys([*known, *(PeerAddress(*each) for each in self._link.source)]):
            try:
                return await self.ask(to, request, answer, timeout_ms=TIMEOUT_MS // 2)
            except SourceUnusable as unreachable:
                problem = unreachable
        raise problem

    async def metadata(self) -> SourceMetadata:
        """The metadata, asked for now unless they are fresh. Raises SourceUnusable."""
        loop = asyncio.get_running_loop()
        if self._metadata is not None and loop.time() - self._asked_at < FRESH_SECONDS:
            return self._metadata
        if self._asking is None or self._asking.done():
            self._asking = loop.create_task(self._ask_metadata())
            self._asking.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._asking)

    async def _ask_metadata(self) -> SourceMetadata:
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        answer = await self.ask_any(request, MetadataResponse)
        topics: dict[str, SourceTopic] = {}
        for topic in answer.topics:
            if topic.name is None or topic.error_code != ErrorCode.NONE:
                continue
            partitions = {
                each.partition_index: SourcePartition(each.leader_id, each.leader_epoch)
                for each in topic.partitions
            }
            topics[topic.name] = SourceTopic(topic.name, topic.topic_id.hex, partitions)
        found = SourceMetadata(
            answer.cluster_id or "",
            {each.node_id: PeerAddress(each.host, each.port) for each in answer.brokers},
            topics,
        )
        if not found.brokers:
            raise SourceUnusable("the source names no broker")
        self._metadata = found
        self._asked_at = asyncio.get_running_loop().time()
        return found

    async def topic_ids(self, name: str) -> set[str]:
        """The ids that the source's brokers know for a topic; empty if all that answer say it is not there.

        Raises SourceUnusable when none answers, or one does not let the link's user look at the topic.
        """
        metadata = await self.metadata()
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        found: set[str] = set()
        answered = False
        for address in metadata.brokers.values():
            try:
                answer = await self.ask(address, request, MetadataResponse)
            except SourceUnusable:
                continue
            for topic in answer.topics:
                if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    answered = True
                elif topic.error_code in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
                    answered = True
                    found.add(topic.topic_id.hex)
                else:
                    raise SourceUnusable(f"topic {name}: {ErrorCode(topic.error_code).name}")
        if not answered:
            raise SourceUnusable("no broker of the source tells of its topics")
        return found

    async def offsets(
        self, partitions: Sequence[TopicPartition], timestamp: int, *, purpose: str = ""
    ) -> dict[TopicPartition, int]:
        """The offset of each partition, LATEST or EARLIEST; those whose leader does not tell are left out.

        Raises SourceUnusable where no metadata are to be had.
        """
        metadata = self._metadata or await self.metadata()
        by_leader: dict[int, dict[str, ListOffsetsTopic]] = {}
        for name, index in partitions:
            topic = metadata.topics.get(name)
            leader = topic.partitions.get(index) if topic is not None else None
            if leader is None or leader.leader_id not in metadata.brokers:
                continue
            topics = by_leader.setdefault(leader.leader_id, {})
            topics.setdefault(name, ListOffsetsTopic(name=name, partitions=[])).partitions.append(
                ListOffsetsPartition(partition_index=index, timestamp=timestamp)
            )
        found: dict[TopicPartition, int] = {}

        async def ask_leader(leader: int, topics: list[ListOffsetsTopic]) -> None:
            request = ListOffsetsRequest(
                replica_id=CONSUMER, isolation_level=0, topics=topics, timeout_ms=TIMEOUT_MS
            )
            try:
                answer = await self.ask(
                    metadata.brokers[leader], request, ListOffsetsResponse, purpose=purpose or "offsets"
                )
            except SourceUnusable:
                return
            for topic in answer.topics:
                for each in topic.partitions:
                    if each.error_code == ErrorCode.NONE:
                        found[topic.name, each.partition_index] = each.offset

        await asyncio.gather(*(ask_leader(leader, list(each.values())) for leader, each in by_leader.items()))
        return found
