"""The next target assignment of a consumer group: each member's partitions at the new epoch."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping

from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.groups.consumer import range_assignor, records, uniform_assignor
from ottla.core.groups.consumer.group import ConsumerGroup, ResolvedRegex
from ottla.core.groups.consumer.member import NO_PARTITIONS, ConsumerMember, TopicPartitions
from ottla.core.groups.consumer.specs import Assignor, GroupSpec, MemberSpec, Target
from ottla.core.groups.topics import TopicsView

ASSIGNORS: dict[str, Assignor] = {"uniform": uniform_assignor.assign, "range": range_assignor.assign}


def preferred_assignor(members: Iterable[ConsumerMember], offered: tuple[str, ...]) -> str:
    """The assignor that most members ask for; the first one offered if none asks."""
    votes = Counter(member.server_assignor for member in members if member.server_assignor in offered)
    name = votes.most_common(1)[0][0] if votes else offered[0]
    assert name is not None
    return name


def subscribed_ids(
    member: ConsumerMember, resolved: Mapping[str, ResolvedRegex], topics: TopicsView
) -> frozenset[uuid.UUID]:
    """The existing topics that a member subscribes to."""
    names: frozenset[str] = member.subscribed
    if member.regex in resolved:
        names = names | resolved[member.regex].topics
    found = (topics.named(name) for name in names)
    return frozenset(topic.topic_id for topic in found if topic is not None)


def is_homogeneous(members: Mapping[str, ConsumerMember]) -> bool:
    """Whether all members have the same subscription, of the same type: by name or by expression."""
    wanted = {(member.subscribed, member.regex) for member in members.values()}
    return len(wanted) <= 1 and not any(names and regex for names, regex in wanted)


class Targets:
    """Computes the next target of one group, from the cluster's topics."""

    def __init__(self, group: ConsumerGroup, topics: TopicsView) -> None:
        self._group = group
        self._topics = topics

    def next(
        self,
        members: Mapping[str, ConsumerMember],
        current: Mapping[str, TopicPartitions],
        resolved: Mapping[str, ResolvedRegex],
        assignor: str,
    ) -> Target:
        """The target of every member. `current` are the last targets, by the members' present ids."""
        specs = {
            member_id: MemberSpec(
                subscribed_ids(member, resolved, self._topics),
                current.get(member_id, NO_PARTITIONS),
                member.instance_id,
            )
            for member_id, member in members.items()
        }
        counts = {}
        for topic_id in {topic_id for spec in specs.values() for topic_id in spec.topics}:
            topic = self._topics.with_id(topic_id)
            assert topic is not None, "subscribed_ids knows only topics that exist"
            counts[topic_id] = topic.partition_count
        target = ASSIGNORS[assignor](GroupSpec(specs, counts, is_homogeneous(members)))
        return {member_id: target.get(member_id, NO_PARTITIONS) for member_id in members}

    def changes(
        self, target: Target, current: Mapping[str, TopicPartitions], epoch: int, now_ms: int
    ) -> list[CoordinatorRecord]:
        """The records of a new target: of the members whose part differs, and of the epoch."""
        group_id = self._group.group_id
        return [
            *(
                records.target_assignment(group_id, member_id, partitions)
                for member_id, partitions in target.items()
                if current.get(member_id) != partitions
            ),
            records.target_metadata(group_id, epoch, now_ms),
        ]
