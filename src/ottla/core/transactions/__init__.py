"""Transactions: producer ids, and the coordinator of the transactional ids in one partition of
`__transaction_state` (KIP-98, 360, 447, 588, 664, 890). No I/O.

    producer_ids.py    hands producer ids out of durable blocks
    states.py          the states of a transaction and the table of its transitions
    transaction.py     a transactional id's state, and every transition as a pure function
    log_records.py     its record in `__transaction_state`, in Kafka's versions
    api.py             the events and effects that only this coordinator has
    settings.py        the settings of the broker
    initialising.py    the decision on an InitProducerId
    ending.py          the decision on an EndTxn
    listing.py         DescribeTransactions and ListTransactions
    responses.py       each API's answer with only an error
    shard.py           the coordinator of one partition: routes events, replays records
"""
