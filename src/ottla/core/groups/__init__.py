"""Consumer groups: who is a member, who owns what, and how far each group has read. No I/O.

`Shard` (shard.py) is the state machine of one partition of `__consumer_offsets`; events go in and effects
come out (core/coordination/api.py, api.py). Inside it, one module or package a concern:

    classic/                the classic protocol: groups, membership, rebalances
    consumer/               consumer groups (KIP-848): the coordinator assigns; migration from and to classic
    share/                  share groups (KIP-932): membership, and which partitions have delivery state
    offsets.py              committed offsets: commit, fetch, delete, expire
    coordinator_records.py  the records that make all of it durable, in Kafka's format
    context.py              what the parts share
    topic_hash.py           the fingerprint of topics that the newer kinds keep in their records
    topics.py, settings.py  the cluster's topics and the settings, as they come in with events
"""
