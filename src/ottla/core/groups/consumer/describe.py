"""ConsumerGroupDescribe, and the consumer groups in ListGroups.

ConsumerGroupDescribe 0-1   1: each member's type, classic or consumer (KIP-1099)
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping

from ottla.core.coordination.api import RequestReceived
from ottla.core.groups.classic.group import CONSUMER_PROTOCOL_TYPE
from ottla.core.groups.consumer.group import ConsumerGroup
from ottla.core.groups.consumer.member import NO_PARTITIONS, ConsumerMember
from ottla.core.groups.consumer.target import preferred_assignor
from ottla.core.groups.context import GroupKind, ShardContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_describe_response import (
    Assignment,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from ottla.protocol.messages.list_groups_response import ListedGroup

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


class Descriptions:
    """Describes the consumer groups of a shard."""

    def __init__(self, context: ShardContext) -> None:
        self._context = context
        self._groups = context.consumer

    def describe(self, event: RequestReceived, request: ConsumerGroupDescribeRequest) -> None:
        described = [self._described(group_id) for group_id in request.group_ids]
        self._context.outbox.reply(event.request_id, ConsumerGroupDescribeResponse(groups=described))

    def listed(self) -> list[ListedGroup]:
        """All groups, for ListGroups to filter."""
        return [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=CONSUMER_PROTOCOL_TYPE,
                group_state=group.state.value,
                group_type=GroupKind.CONSUMER.value,
            )
            for group in self._groups.values()
        ]

    def _described(self, group_id: str) -> DescribedGroup:
        group = self._groups.get(group_id)
        if group is None:
            known = self._context.kind_of(group_id) is not None
            problem = "is not a consumer group" if known else "not found"
            return DescribedGroup(
                group_id=group_id,
                error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                error_message=f"Group {group_id} {problem}.",
            )
        offered = self._context.broker_settings.consumer_assignors
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            group_epoch=group.epoch,
            assignment_epoch=group.target_epoch,
            assignor_name=preferred_assignor(group.members.values(), offered),
            members=[self._member(group, member) for member in group.members.values()],
        )

    def _member(self, group: ConsumerGroup, member: ConsumerMember) -> Member:
        has: dict[uuid.UUID, list[int]] = {}
        for part in (member.assigned, member.revoking):
            for topic_id, epochs in part.items():
                has.setdefault(topic_id, []).extend(epochs)
        return Member(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed),
            subscribed_topic_regex=member.regex,
            assignment=self._assignment(has),
            target_assignment=self._assignment(group.targets.get(member.member_id, NO_PARTITIONS)),
            member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
        )

    def _assignment(self, partitions: Mapping[uuid.UUID, Collection[int]]) -> Assignment:
        """An assignment with topic names; deleted topics are left out."""
        found = ((self._context.topics.with_id(topic_id), of) for topic_id, of in partitions.items())
        return Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic.topic_id, topic_name=topic.name, partitions=sorted(of_topic))
                for topic, of_topic in found
                if topic is not None
            ]
        )
