"""Consumer, share and streams groups: their members, assignments and committed offsets. No I/O.

`Shard` (shard.py) is the state machine of one partition of `__consumer_offsets`; events go in and effects
come out (core/coordination/api.py, api.py). Inside it, there is one module or package for each concern:

    classic/                the classic protocol: groups, membership, rebalances
    consumer/               consumer groups (KIP-848): the coordinator assigns; migration from and to classic
    share/                  share groups (KIP-932): membership, and the partitions with delivery state
    streams/                streams groups (KIP-1071): topologies, tasks, internal topics
    offsets.py              committed offsets: commit, fetch, delete, expire
    coordinator_records.py  the records of offsets and classic groups, in Kafka's format
    deletion.py             deletion of groups, expiry of offsets
    offset_rules.py         the rules of a kind of group for its offsets
    context.py              the state that the parts share
    topic_hash.py           the hash of topics that the newer kinds keep in their records
    topics.py, settings.py  the cluster's topics and the settings, which come in with events
"""
