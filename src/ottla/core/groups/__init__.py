"""Consumer groups: who is a member, who owns what, and how far each group has read. No I/O.

`Shard` (shard.py) is the state machine of one partition of `__consumer_offsets`; events go in and effects
come out (api.py). Inside it, one module a concern:

    classic_group.py        the state of one classic group: members, generation, protocols, states
    classic_membership.py   JoinGroup, SyncGroup, Heartbeat, LeaveGroup
    classic_rebalance.py    the rebalances that follow from them, sessions and other deadlines
    offsets.py              committed offsets: commit, fetch, delete, expire
    coordinator_records.py  the records that make all of it durable, in Kafka's format
    outbox.py, timers.py    what the others use to answer, to append and to be woken
    partitioning.py         which partition a group lives in
"""
