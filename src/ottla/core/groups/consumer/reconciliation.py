"""A member's next step towards its target: the partitions to revoke first, and to assign now (KIP-848).

Theory of operation. A member at an older epoch is told the partitions that it keeps; it has to revoke the
others, and until its heartbeat no longer lists them, it stays at its old epoch (UNREVOKED_PARTITIONS). Then
it moves to the target's epoch and gets the partitions that are free; while other members still own some of
its target, it waits for those (UNRELEASED_PARTITIONS) and asks with each heartbeat. So a partition never has
two owners.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ottla.core.groups.consumer.member import (
    ConsumerMember,
    MemberState,
    PartitionEpochs,
    TopicPartitions,
)


class UnknownState(Exception):
    """A later version has written the member's state, and the member has not joined again since."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The facts about the group that a member's step depends on."""

    target_epoch: int
    target: TopicPartitions
    subscribed: frozenset[uuid.UUID]
    """The ids of the topics that the member subscribes to now."""
    subscription_changed: bool
    owned: TopicPartitions | None
    """The partitions that the member's heartbeat names as its own; None if it names none."""
    is_owned: Callable[[uuid.UUID, int], bool]
    """Whether a partition has an owner, this member included."""


def reconciled(member: ConsumerMember, around: Surroundings) -> ConsumerMember:
    """The member after its next step; the same object if there is no step. Raises UnknownState."""
    match member.state:
        case MemberState.STABLE if member.epoch != around.target_epoch:
            return _step(member, member.epoch, around)
        case MemberState.STABLE:
            return _without_unwanted(member, around) if around.subscription_changed else member
        case MemberState.UNREVOKED_PARTITIONS if _still_has(member.revoking, around):
            return _without_unwanted(member, around) if around.subscription_changed else member
        case MemberState.UNREVOKED_PARTITIONS | MemberState.UNRELEASED_PARTITIONS:
            return _step(member, member.epoch, around)
        case MemberState.UNKNOWN:
            if around.owned is None or around.owned:
                raise UnknownState
            return _step(member, around.target_epoch, around)


def _still_has(partitions: PartitionEpochs, around: Surroundings) -> bool:
    """Whether the member may still have one of these partitions."""
    if around.owned is None:
        return True
    return any(
        not of_topic.isdisjoint(partitions.get(topic_id, ())) for topic_id, of_topic in around.owned.items()
    )


def _without_unwanted(member: ConsumerMember, around: Surroundings) -> ConsumerMember:
    """The member without partitions of topics that it no longer subscribes to; for an unchanged target."""
    kept = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id in around.subscribed}
    if len(kept) == len(member.assigned):
        return member
    revoking: dict[uuid.UUID, Mapping[int, int]] = dict(member.revoking)
    for topic_id, epochs in member.assigned.items():
        if topic_id not in kept:
            revoking[topic_id] = {**revoking.get(topic_id, {}), **epochs}
    if _still_has(revoking, around):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.epoch,
            assigned=kept,
            revoking=revoking,
        )
    return replace(member, previous_epoch=member.epoch, assigned=kept)


def _step(member: ConsumerMember, epoch: int, around: Surroundings) -> ConsumerMember:
    kept: dict[uuid.UUID, dict[int, int]] = {}
    revoking: dict[uuid.UUID, dict[int, int]] = {}
    taken: dict[uuid.UUID, list[int]] = {}
    must_wait = False
    for topic_id in {**around.target, **member.assigned}:
        due = around.target.get(topic_id, frozenset()) if topic_id in around.subscribed else frozenset()
        has = member.assigned.get(topic_id, {})
        for partition, given_at in has.items():
            (kept if partition in due else revoking).setdefault(topic_id, {})[partition] = given_at
        gives_back = member.revoking.get(topic_id, {})
        for partition in sorted(due - has.keys()):
            # A partition that the member is revoking may be assigned to it again.
            if partition not in gives_back and around.is_owned(topic_id, partition):
                must_wait = True
            else:
                taken.setdefault(topic_id, []).append(partition)
    if revoking and _still_has(revoking, around):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            epoch=epoch,
            previous_epoch=member.epoch,
            assigned=kept,
            revoking=revoking,
        )
    for topic_id, partitions in taken.items():
        kept.setdefault(topic_id, {}).update(dict.fromkeys(partitions, around.target_epoch))
    return replace(
        member,
        state=MemberState.UNRELEASED_PARTITIONS if must_wait else MemberState.STABLE,
        epoch=around.target_epoch,
        previous_epoch=member.epoch,
        assigned=kept,
        revoking={},
    )
