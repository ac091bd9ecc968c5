"""What a partition's leader asks the transaction coordinator before it appends to a transaction (KIP-890).

A batch that would begin a transaction in its partition is appended only if the coordinator knows that the
partition belongs to the producer's transaction; otherwise a late batch could open one that nobody ends.
Once a transaction is open in the partition its further batches go in without asking.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ottla.protocol.errors import ErrorCode

TopicPartition = tuple[str, int]


class TransactionGate(Protocol):
    """The transaction coordinator, as the append path sees it. The broker has it as `broker.transactions`."""

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Add the partitions to the producer's ongoing transaction, or only say whether they belong to it.

        As AddPartitionsToTxn v4 and newer answers between brokers: an error code for every partition, the
        same one where the request fails as a whole (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
        CONCURRENT_TRANSACTIONS, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_TXN_STATE,
        TRANSACTION_ABORTABLE, …). Finds the coordinator by itself. Raises nothing.
        """
        ...
