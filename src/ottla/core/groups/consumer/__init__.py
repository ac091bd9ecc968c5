"""Consumer groups of KIP-848, where the coordinator assigns the partitions.

member.py           one member, as in the log
group.py            one group, changed by replay alone
records.py          its records in `__consumer_offsets`
specs.py            the input and the result of an assignor
range_assignor.py   the assignor `range`
uniform_assignor.py the assignor `uniform`, for members with equal subscriptions
balancing.py        the same for different subscriptions
target.py           the next target assignment of a group
reconciliation.py   a member's next step towards its target: revoke first, then assign
epochs.py           when a group has a new epoch
subscriptions.py    the topics that match the expressions of a group
membership.py       ConsumerGroupHeartbeat, sessions and other deadlines
classic_members.py  members of the classic protocol in a consumer group
migration.py        a classic group becomes a consumer group, and back
describe.py         ConsumerGroupDescribe, and the groups in ListGroups
offset_rules.py     the rules for committed offsets
deadlines.py        the deadlines of members
removal.py          removal of members
embedded.py         the consumer protocol's bytes in classic requests
refusal.py          a request that is answered with an error
coordinator.py      routes the shard's events to all of these
"""
