"""Deliveries of share groups (KIP-932): the share coordinator, a share partition's leader, share sessions.

keys.py             the key of a share partition, and its name at the coordinator state_batches.py    delivery
states of ranges of offsets, and how later ones go over earlier ones state_records.py    a share partition's
durable state and the records of `__share_group_state` coordinator.py      the share coordinator: state
machine of one partition of `__share_group_state` responses.py        requests to it with one partition each,
and their answers pruning.py          up to where the coordinator's log holds nothing that is needed
in_flight.py        the records between a share partition's start and end, by batch or by offset
acquisition.py      which of them a fetch gets share_partition.py  the leader's state machine: fetch,
acknowledge, release, time out, persist offset_reset.py     where a group begins on a partition that it has
not read yet sessions.py         which partitions a member fetches (as KIP-227's sessions do)
"""
