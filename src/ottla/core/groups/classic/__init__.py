"""Groups of the classic protocol, where a member assigns the partitions.

group.py       the state of one group: members, generation, protocols, states
membership.py  JoinGroup, SyncGroup, Heartbeat, LeaveGroup
rebalance.py   the rebalances that these requests cause, sessions and other deadlines
"""
