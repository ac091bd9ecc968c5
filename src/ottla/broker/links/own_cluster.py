"""What a link's coordinator asks of its own cluster: ends of mirrors, groups' offsets, ACLs, new partitions.

Requests for other brokers go over this node's connections to them; those for this very broker, too, at its
own listener: they are few, and the handlers need a connection's context.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.broker.peers.peers import PeerUnreachable
from ottla.core.links.plan import Acl, GroupOffset
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_acls_response import CreateAclsResponse
from ottla.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_partitions_response import CreatePartitionsResponse
from ottla.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.delete_acls_response import DeleteAclsResponse
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.list_offsets_response import ListOffsetsResponse
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_commit_response import OffsetCommitResponse
from ottla.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.offset_fetch_response import OffsetFetchResponse
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.links.node import LinksNode

T = TypeVar("T", bound=Message)

PURPOSE: Final = "links"
TIMEOUT_MS: Final = 10_000
LATEST: Final = -1
CONSUMER: Final = -1
GROUP: Final = 0

TopicPartition = tuple[str, int]


class OwnCluster:
    """Requests to this cluster. Refusals are left out of answers: the next turn asks again."""

    def __init__(self, node: LinksNode) -> None:
        self._node = node

    async def _ask(self, node_id: int, request: Message, answer: type[T]) -> T:
        """Raises PeerUnreachable."""
        found = await self._node.broker_requests.ask(PURPOSE, node_id, request, timeout_ms=TIMEOUT_MS)
        assert isinstance(found, answer)
        return found

    async def _controller(self, request: Message, answer: type[T]) -> T:
        """Raises KafkaError."""
        found = await self._node.controller_channel.ask(request, timeout_ms=TIMEOUT_MS)
        assert isinstance(found, answer)
        return found

    async def ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The high watermarks of partitions, as their leaders tell them."""
        found: dict[TopicPartition, int] = {}
        by_leader: dict[int, dict[str, ListOffsetsTopic]] = {}
        for name, index in partitions:
            here = self._node.partitions.held(name, index)
            if here is not None and here.is_leader:
                if here.leader.settled:
                    found[name, index] = here.high_watermark
                continue
            topic = self._node.image.topics.get(name)
            image = topic.partitions.get(index) if topic is not None else None
            if image is None or image.leader < 0 or image.leader == self._node.node_id:
                continue
            topics = by_leader.setdefault(image.leader, {})
            topics.setdefault(name, ListOffsetsTopic(name=name, partitions=[])).partitions.append(
                ListOffsetsPartition(partition_index=index, timestamp=LATEST)
            )

        async def ask_leader(leader: int, topics: list[ListOffsetsTopic]) -> None:
            request = ListOffsetsRequest(replica_id=CONSUMER, topics=topics, timeout_ms=TIMEOUT_MS)
            try:
                answer = await self._ask(leader, request, ListOffsetsResponse)
            except PeerUnreachable:
                return
            for topic in answer.topics:
                for each in topic.partitions:
                    if each.error_code == ErrorCode.NONE:
                        found[topic.name, each.partition_index] = each.offset

        await asyncio.gather(*(ask_leader(leader, list(each.values())) for leader, each in by_leader.items()))
        return found

    async def grow(self, counts: Mapping[str, int]) -> None:
        """Give topics more partitions. Raises KafkaError."""
        topics = [
            CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in counts.items()
        ]
        await self._controller(
            CreatePartitionsRequest(topics=topics, timeout_ms=TIMEOUT_MS, validate_only=False),
            CreatePartitionsResponse,
        )

    # -- groups -----------------------------------------------------------------------------------------

    async def coordinators(self, groups: Sequence[str]) -> dict[int, list[str]]:
        """The groups by the nodes that coordinate them. Raises PeerUnreachable."""
        request = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=list(groups))
        answer = await self._ask(self._node.node_id, request, FindCoordinatorResponse)
        found: dict[int, list[str]] = {}
        for each in answer.coordinators:
            if each.error_code == ErrorCode.NONE:
                found.setdefault(each.node_id, []).append(each.key)
        return found

    async def group_offsets(
        self, coordinator: int, groups: Sequence[str]
    ) -> dict[str, dict[TopicPartition, GroupOffset]]:
        """The committed offsets of groups. Raises PeerUnreachable."""
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=each, topics=None) for each in groups],
            require_stable=False,
        )
        answer = await self._ask(coordinator, request, OffsetFetchResponse)
        names = {topic_id: topic.name for topic_id, topic in self._node.image.topics_by_id.items()}
        return offsets_of(answer, {each.hex: name for each, name in names.items()})

    async def commit(
        self, coordinator: int, group: str, offsets: Mapping[TopicPartition, GroupOffset]
    ) -> list[ErrorCode]:
        """Commit offsets of a group that has no members here; the errors. Raises PeerUnreachable."""
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (name, index), wanted in offsets.items():
            topic = topics.get(name)
            if topic is None:
                known = self._node.image.topics[name]
                topic = topics[name] = OffsetCommitRequestTopic(
                    name=name, topic_id=known.topic_id, partitions=[]
                )
            topic.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=wanted.offset,
                    committed_leader_epoch=wanted.leader_epoch,
                    committed_metadata=wanted.metadata,
                )
            )
        request = OffsetCommitRequest(group_id=group, topics=list(topics.values()))
        answer = await self._ask(coordinator, request, OffsetCommitResponse)
        codes = {each.error_code for topic in answer.topics for each in topic.partitions}
        return [ErrorCode(each) for each in sorted(codes) if each != ErrorCode.NONE]

    # -- ACLs -------------------------------------------------------------------------------------------

    def acls(self) -> set[Acl]:
        """All ACLs of this cluster."""
        return {Acl(*fields) for fields in self._node.image.acl_counts}

    async def change_acls(self, add: Sequence[Acl], remove: Sequence[Acl]) -> list[str]:
        """Add and remove ACLs; the refusals. Raises KafkaError."""
        refused: list[str] = []
        if add:
            created = await self._controller(
                CreateAclsRequest(
                    creations=[
                        AclCreation(
                            resource_type=each.resource_type,
                            resource_name=each.resource_name,
                            resource_pattern_type=each.pattern_type,
                            principal=each.principal,
                            host=each.host,
                            operation=each.operation,
                            permission_type=each.permission_type,
                        )
                        for each in add
                    ]
                ),
                CreateAclsResponse,
            )
            refused += [each.error_message or "" for each in created.results if each.error_code]
        if remove:
            deleted = await self._controller(
                DeleteAclsRequest(
                    filters=[
                        DeleteAclsFilter(
                            resource_type_filter=each.resource_type,
                            resource_name_filter=each.resource_name,
                            pattern_type_filter=each.pattern_type,
                            principal_filter=each.principal,
                            host_filter=each.host,
                            operation=each.operation,
                            permission_type=each.permission_type,
                        )
                        for each in remove
                    ]
                ),
                DeleteAclsResponse,
            )
            refused += [each.error_message or "" for each in deleted.filter_results if each.error_code]
        return refused


def offsets_of(
    answer: OffsetFetchResponse, names: Mapping[str, str]
) -> dict[str, dict[TopicPartition, GroupOffset]]:
    """The offsets of an answer by group. names: those of topics by their ids, 32 hexadecimal digits."""
    found: dict[str, dict[TopicPartition, GroupOffset]] = {}
    for group in answer.groups:
        if group.error_code != ErrorCode.NONE:
            continue
        offsets = found.setdefault(group.group_id, {})
        for topic in group.topics:
            name = topic.name or names.get(topic.topic_id.hex, "")
            for each in topic.partitions:
                if each.error_code == ErrorCode.NONE and each.committed_offset >= 0 and name:
                    offsets[name, each.partition_index] = GroupOffset(
                        each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                    )
    return found
