"""A member's next step towards its target: what it must give back first, what it may take now (KIP-848).

Theory of operation. A member at an older epoch is told what it keeps; what it has beyond that it must give
back, and until its heartbeat lists partitions without those, it stays at its old epoch
(UNREVOKED_PARTITIONS). Then it moves to the target's epoch and takes whatever nobody else has; while others
still have some of it, it waits for those (UNRELEASED_PARTITIONS) and asks with each heartbeat. So a
partition never has two owners.
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
    """The member's state was written by a later version, and it has not joined anew."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a member's step depends on besides itself."""

    target_epoch: int
    target: TopicPartitions
    subscribed: frozenset[uuid.UUID]
    """The ids of the topics that the member wants now."""
    subscription_changed: bool
    owned: TopicPartitions | None
    """What the member says that it has; None when it does not say."""
    is_owned: Callable[[uuid.UUID, int], bool]
    """Whether somebody, the member included, has a partition."""


def reconciled(member: ConsumerMember, around: Surroundings) -> ConsumerMember:
    """The member after its next step; the same member when there is none to take. Raises UnknownState."""
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
    """Whether the member has not given all of these back, as far as is known."""
    if around.owned is None:
        return True
    return any(
        not of_topic.isdisjoint(partitions.get(topic_id, ())) for topic_id, of_topic in around.owned.items()
    )


def _without_unwanted(member: ConsumerMember, around: Surroundings) -> ConsumerMember:
    """The target is as before, but the member wants fewer topics: what it has of the others goes at once."""
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
            # What it is giving back itself it may have again.
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
