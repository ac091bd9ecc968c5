"""The parts shared by all coordinators: events and effects, records, appends, turns, timers. No I/O.

A coordinator's shard is the state machine of one partition of its internal topic (`__consumer_offsets`,
`__transaction_state`, `__share_group_state`). All of them work the same way: decide, append, and once the
append is committed, replay the records and answer.

    api.py           the events and effects that all shards share
    records.py       a record of a coordinator's topic, before it is bytes
    outbox.py        answers, appends, and the requests that are still open
    turns.py         one decision at a time for each group or share partition
    timers.py        named deadlines
    partitioning.py  the partition that a name belongs to
    agreement.py     whether all brokers of the cluster agree on that
    regex.py         expressions that clients send (topics, transactional ids), matched in linear time
"""
