"""The assignor `uniform`: as even as possible over all topics together, and sticky.

When all members subscribe to the same topics, each keeps its partitions up to its share (one more for some,
if they do not divide evenly) and the rest goes to those below their share, so the least number of partitions
moves. For different subscriptions, see balancing.py.
"""

from __future__ import annotations

import uuid
from collections import deque

from ottla.core.groups.consumer.balancing import balance
from ottla.core.groups.consumer.specs import GroupSpec, Target


def assign(group: GroupSpec) -> Target:
    """The target of every member."""
    if not group.members:
        return {}
    return _share_out(group) if group.homogeneous else balance(group)


def _share_out(group: GroupSpec) -> Target:
    wanted = next(iter(group.members.values())).topics
    if not wanted:
        return {}
    kept = {member_id: _still_wanted(group, member_id) for member_id in group.members}
    total = sum(group.partition_counts[topic_id] for topic_id in wanted)
    share, more = divmod(total, len(group.members))
    # The shares with one more go to members that have one more already, then to the first ones.
    places = dict.fromkeys(group.members, share)
    for member_id in sorted(kept, key=lambda member_id: len(kept[member_id]) <= share)[:more]:
        places[member_id] += 1
    for member_id, partitions in kept.items():
        del partitions[places[member_id] :]
    taken = {partition for partitions in kept.values() for partition in partitions}
    free = deque(
        (topic_id, partition)
        for topic_id in sorted(wanted)
        for partition in range(group.partition_counts[topic_id])
        if (topic_id, partition) not in taken
    )
    for member_id, partitions in kept.items():
        while free and len(partitions) < places[member_id]:
            partitions.append(free.popleft())
    assert not free, "a place for every partition"
    return {member_id: by_topic(partitions) for member_id, partitions in kept.items()}


def _still_wanted(group: GroupSpec, member_id: str) -> list[tuple[uuid.UUID, int]]:
    """The member's partitions of existing topics that it subscribes to."""
    member = group.members[member_id]
    return [
        (topic_id, partition)
        for topic_id, partitions in member.current.items()
        if topic_id in member.topics
        for partition in sorted(partitions)
        if partition < group.partition_counts[topic_id]
    ]


def by_topic(partitions: list[tuple[uuid.UUID, int]]) -> dict[uuid.UUID, frozenset[int]]:
    """Partitions in the form of an assignment."""
    found: dict[uuid.UUID, set[int]] = {}
    for topic_id, partition in partitions:
        found.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(of_topic) for topic_id, of_topic in found.items()}
