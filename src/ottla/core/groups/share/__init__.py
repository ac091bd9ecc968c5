"""Share groups (KIP-932): members that share partitions, and the partitions that have delivery state.

    coordinator.py       the parts below as one part of the shard
    group.py             the state of one group and its replay
    records.py           its records in Kafka's format
    assignor.py          the `simple` assignor
    membership.py        heartbeats, sessions, the group's epochs and target assignment
    state_partitions.py  the partitions whose delivery state begins or ends with the share coordinator
    offsets.py           administrators' requests: describe, alter and delete offsets, delete groups
    offset_rules.py      the rules for committed offsets, which share groups don't have
    responses.py         answers that hold only an error
    api.py               the effect that asks the share coordinator, and the event with its answer

The delivery state of a share group's partitions is kept by the share coordinator (core/share), not here.
"""
