"""Share groups (KIP-932): members that share partitions, and which partitions have delivery state.

coordinator.py     the parts below as one
group.py           the state of one group, all of it durable, and its replay
records.py         its records in Kafka's format
assignor.py        who gets which partitions: the `simple` assignor
membership.py      ShareGroupHeartbeat, sessions, the group's epochs and target assignment
state_partitions.py  the partitions whose delivery state begins or ends with the share coordinator
offsets.py         Alter-, Delete- and DescribeShareGroupOffsets, DeleteGroups
api.py             what a group shard asks the share coordinator, and how the answer comes back

What a share group has delivered of a partition is kept by the share coordinator (core/share), not here.
"""
