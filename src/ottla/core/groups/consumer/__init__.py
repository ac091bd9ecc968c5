"""Consumer groups of KIP-848, where the coordinator assigns the partitions.

member.py           one member as the log has it
group.py            one group, changed by replay alone
records.py          the records of `__consumer_offsets` that say so
specs.py            what an assignor is told and what it answers
range_assignor.py   the assignor `range`
uniform_assignor.py the assignor `uniform`, for members who all want the same
balancing.py        and for those who do not
target.py           the next target assignment of a group
reconciliation.py   a member's next step towards its target: give back first, then take
epochs.py           when a group has a new epoch
subscriptions.py    which topics the expressions of a group name, kept up to date
membership.py       ConsumerGroupHeartbeat, sessions and other deadlines
classic_members.py  members of the classic protocol in a consumer group
migration.py        a classic group becomes a consumer group, and back
describe.py         ConsumerGroupDescribe, and what ListGroups shows
offset_rules.py     who may commit, read and delete offsets
coordinator.py      the way from the shard to all of these
"""
