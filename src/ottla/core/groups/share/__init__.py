"""Share groups (KIP-932): members that share partitions, and which partitions have delivery state.

    coordinator.py       the parts below as one part of the shard
    group.py             the state of one group and its replay
    records.py           its records in Kafka's format
    assignor.py          who gets which partitions: the `simple` assignor
    membership.py        heartbeats, sessions, the group's epochs and target assignment
    state_partitions.py  the partitions whose delivery state begins or ends with the share coordinator
    offsets.py           what administrators ask: offsets altered, deleted and described, groups deleted
    offset_rules.py      that share groups have no committed offsets
    responses.py         answers that are nothing but an error
    api.py               what a group shard asks the share coordinator, and how the answer comes back

What a share group has delivered of a partition is kept by the share coordinator (core/share), not here.
"""
