"""Transactions: producer ids, and the coordinator of the transactional ids in one partition of
`__transaction_state` (KIP-98, 360, 447, 588, 664, 890). No I/O.

    producer_ids.py    hands producer ids out of durable blocks
    states.py          the states of a transaction and the table of its transitions
    transaction.py     what is known of a transactional id, and every transition as a pure function
    log_records.py     its record in `__transaction_state`, in Kafka's versions
    api.py             the events and effects that only this coordinator has
    settings.py        what the broker sets
    initialising.py    what InitProducerId decides
    ending.py          what EndTxn decides
    listing.py         DescribeTransactions and ListTransactions
    responses.py       the answer of each API that says nothing but an error
    shard.py           the coordinator of one partition: routes events, replays records
"""
