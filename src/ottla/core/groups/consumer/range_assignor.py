"""The assignor `range`: each topic's partitions in contiguous ranges over its subscribers.

Members are in one order (static ones by instance id first, then the others by member id), and the first ones
get one more partition if a topic does not divide evenly. So partitions with the same number of several topics
go to one member as far as the topics have the same partitions and subscribers, which joins of streams rely
on. Only the order makes assignments sticky.
"""

from __future__ import annotations

import uuid

from ottla.core.groups.consumer.specs import GroupSpec, Target


def assign(group: GroupSpec) -> Target:
    """The target of every member."""
    ordered = sorted(group.members, key=lambda member_id: _place(group, member_id))
    takers: dict[uuid.UUID, list[str]] = {}
    for member_id in ordered:
        for topic_id in group.members[member_id].topics:
            takers.setdefault(topic_id, []).append(member_id)
    target: dict[str, dict[uuid.UUID, frozenset[int]]] = {member_id: {} for member_id in ordered}
    for topic_id, members in takers.items():
        share, more = divmod(group.partition_counts[topic_id], len(members))
        start = 0
        for index, member_id in enumerate(members):
            end = start + share + (index < more)
            if start < end:
                target[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return {**target}


def _place(group: GroupSpec, member_id: str) -> tuple[bool, bytes]:
    instance_id = group.members[member_id].instance_id
    # Java compares strings by their UTF-16 units.
    name = member_id if instance_id is None else instance_id
    return instance_id is None, name.encode("utf-16-be", "surrogatepass")
