"""The assignor of share groups that Kafka calls `simple` (KIP-932).

Members share partitions. With M members and P partitions every partition goes to S = ceil(M / P) members, and
the S * P places are spread over the members as evenly as possible; within that, a member keeps the places
that it has. When all members subscribe to the same topics this holds over all partitions, otherwise for each
topic and its subscribers. Racks have no effect.

Apache Kafka's class has the same aim, but fills the places in one pass over the partitions and can leave some
empty; here places are swapped until none is. There are always enough places: no member is due more partitions
than there are, and no partition more members than there are.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ottla.core.groups.share.group import TopicPartitions


class SharePartition(NamedTuple):
    """A partition with places for members."""

    topic_id: uuid.UUID
    partition: int


def assign(
    wanted: Mapping[str, frozenset[uuid.UUID]],
    assignable: TopicPartitions,
    current: Mapping[str, TopicPartitions],
) -> dict[str, TopicPartitions]:
    """Each member's partitions. `wanted`: member id ->
    subscribed topics; `current`: the present assignment.
    """
    places: dict[str, set[SharePartition]] = {member_id: set() for member_id in wanted}
    topics = list(dict.fromkeys(topic_id for topic_ids in wanted.values() for topic_id in topic_ids))
    held = {
        member_id: {
            SharePartition(topic_id, partition)
            for topic_id, partitions in current.get(member_id, {}).items()
            for partition in partitions
        }
        for member_id in wanted
    }
    if len(set(wanted.values())) == 1:
        pools = [(topics, list(wanted))]
    else:
        pools = [
            ([topic_id], [member_id for member_id, topic_ids in wanted.items() if topic_id in topic_ids])
            for topic_id in topics
        ]
    for topic_ids, members in pools:
        partitions = [
            SharePartition(topic_id, partition)
            for topic_id in topic_ids
            for partition in sorted(assignable.get(topic_id, ()))
        ]
        if partitions:
            for member_id, given in share_out(partitions, members, held).items():
                places[member_id] |= given
    return {member_id: _by_topic(given) for member_id, given in places.items()}


def share_out(
    partitions: Sequence[SharePartition],
    members: Sequence[str],
    held: Mapping[str, Collection[SharePartition]],
) -> dict[str, set[SharePartition]]:
    """Spread the places in `partitions` over `members` (at
    least one of each), some of which hold places already.
    """
    sharing = -(-len(members) // len(partitions))
    known = set(partitions)
    given = {member_id: known.intersection(held[member_id]) for member_id in members}
    due = _due(given, sharing * len(partitions))
    holders: dict[SharePartition, set[str]] = {partition: set() for partition in partitions}
    for member_id, mine in given.items():
        for partition in mine:
            holders[partition].add(member_id)
    _take_back(given, holders, due, sharing)
    _fill(given, holders, due, sharing)
    _swap(given, holders, due, sharing)
    return given


def _due(given: Mapping[str, set[SharePartition]], places: int) -> dict[str, int]:
    """The number of places that each member is due: as even
    as possible, the odd ones to those that have most now.
    """
    least, odd = divmod(places, len(given))
    ranked = sorted(given, key=lambda member_id: -len(given[member_id]))
    return {member_id: least + (rank < odd) for rank, member_id in enumerate(ranked)}


def _take_back(
    given: Mapping[str, set[SharePartition]],
    holders: Mapping[SharePartition, set[str]],
    due: Mapping[str, int],
    sharing: int,
) -> None:
    """Take places from members with too many (in their fullest partitions), then from too full partitions."""
    for member_id, mine in given.items():
        surplus = len(mine) - due[member_id]
        if surplus > 0:
            fullest = sorted(mine, key=lambda partition: (-len(holders[partition]), partition))
            for partition in fullest[:surplus]:
                mine.remove(partition)
                holders[partition].remove(member_id)
    for partition, shared_by in holders.items():
        if len(shared_by) > sharing:
            fullest_first = sorted(shared_by, key=lambda member_id: (-len(given[member_id]), member_id))
            for member_id in fullest_first[sharing:]:
                given[member_id].remove(partition)
                shared_by.remove(member_id)


def _fill(
    given: Mapping[str, set[SharePartition]],
    holders: Mapping[SharePartition, set[str]],
    due: Mapping[str, int],
    sharing: int,
) -> None:
    """Give free places to members that are due some, in turns."""
    short = deque(member_id for member_id in given if len(given[member_id]) < due[member_id])
    for partition, shared_by in holders.items():
        tries = len(short)
        while len(shared_by) < sharing and tries:
            tries -= 1
            member_id = short.popleft()
            if member_id not in shared_by:
                shared_by.add(member_id)
                given[member_id].add(partition)
            if len(given[member_id]) < due[member_id]:
                short.append(member_id)


def _swap(
    given: Mapping[str, set[SharePartition]],
    holders: Mapping[SharePartition, set[str]],
    due: Mapping[str, int],
    sharing: int,
) -> None:
    """Fill the last free places, in partitions that all members that are due a place hold already.

    A member that holds another partition moves over from it, and makes room there.
    """
    short = [member_id for member_id in given if len(given[member_id]) < due[member_id]]
    for partition, shared_by in holders.items():
        while len(shared_by) < sharing:
            member_id = short[-1]
            mover, other = next(
                (mover, other)
                for other, others in holders.items()
                if member_id not in others
                for mover in sorted(others - shared_by)
            )
            given[mover].remove(other)
            holders[other].remove(mover)
            given[mover].add(partition)
            shared_by.add(mover)
            given[member_id].add(other)
            holders[other].add(member_id)
            if len(given[member_id]) == due[member_id]:
                short.pop()


def _by_topic(places: set[SharePartition]) -> TopicPartitions:
    topics: dict[uuid.UUID, set[int]] = {}
    for topic_id, partition in sorted(places):
        topics.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(partitions) for topic_id, partitions in topics.items()}
