"""What every coordinator is made of: events in, effects out, a clock, appends that are waited for. No I/O.

A coordinator's shard is the state machine of one partition of its internal topic (`__consumer_offsets`,
`__transaction_state`, `__share_group_state`). All of them work the same way: decide, append, and once the
append is committed, replay the records and answer.

    api.py           the events and effects that all shards share
    records.py       a record of a coordinator's topic, before it is bytes
    outbox.py        answers, appends and who still waits
    turns.py         one decision at a time for each group (or whatever else is decided about)
    timers.py        named deadlines
    partitioning.py  which partition a name lives in
    agreement.py     whether all brokers of the cluster look there
    regex.py         expressions that clients send (topics, transactional ids), matched in linear time
"""
