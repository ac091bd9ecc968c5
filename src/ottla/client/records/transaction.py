"""The producer's side of a transaction: its id, the partitions that take part, commit and abort (KIP-98).

The requests of transactions before version 2 (KIP-890) are used, which every broker serves:
AddPartitionsToTxn up to version 3, as later ones are for brokers, and EndTxn up to version 4.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ottla.client.access import ClusterAccess
from ottla.client.cluster_requests import (
    ClusterRequests,
    CoordinatorType,
    TopicPartition,
    by_topic,
    refusal,
)
from ottla.client.errors import ClusterError
from ottla.client.records.batches import ProducerIdentity
from ottla.client.records.coordinator import FIRST_PAUSE_SECONDS, CoordinatorConnection
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ottla.protocol.schema import Message

_NEWEST: Final = {ApiKey.INIT_PRODUCER_ID: 4, ApiKey.ADD_PARTITIONS_TO_TXN: 3, ApiKey.END_TXN: 4}
_WAITS: Final = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
LOST: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""What a producer is told whose transaction was ended by another one, or by the coordinator."""
DEFAULT_TIMEOUT_MS: Final = 60_000


async def idempotent_identity(cluster: ClusterRequests) -> ProducerIdentity:
    """The id of a producer without transactions. Raises ClusterError."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=DEFAULT_TIMEOUT_MS)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + cluster.timeout_seconds
    while True:
        answer = await cluster.ask(request, InitProducerIdResponse)
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            return ProducerIdentity(answer.producer_id, answer.producer_epoch)
        if not code.retriable or loop.time() > deadline:
            raise refusal(code, None, "a producer id")
        await asyncio.sleep(FIRST_PAUSE_SECONDS)


class Transaction:
    """One transaction of a transactional id. Calls end within the cluster's timeout; they raise
    ClusterError.
    """

    def __init__(
        self,
        cluster: ClusterRequests,
        access: ClusterAccess,
        transactional_id: str,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> None:
        self.transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._coordinator = CoordinatorConnection(
            cluster, access, CoordinatorType.TRANSACTION, transactional_id, _NEWEST
        )
        self._partitions: set[TopicPartition] = set()
        self._adding = asyncio.Lock()
        self._identity: ProducerIdentity | None = None

    async def begin(self, again: ProducerIdentity | None = None) -> ProducerIdentity:
        """Fence earlier producers of the id, abort their transaction, and become its producer.

        again: who the caller was before (KIP-360): it is refused where another producer has fenced it since.
        """
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms
        )
        if again is not None:
            request.producer_id, request.producer_epoch = again.producer_id, again.epoch
        answer = await self._asked(request, lambda response: [response.error_code])
        self._identity = ProducerIdentity(answer.producer_id, answer.producer_epoch, is_transactional=True)
        return self._identity

    async def include(self, *partitions: TopicPartition) -> None:
        """Make partitions part of the transaction, before their first batches are sent."""
        async with self._adding:
            missing = [one for one in dict.fromkeys(partitions) if one not in self._partitions]
            if missing:
                await self._include(missing)
                self._partitions.update(missing)

    async def end(self, *, commit: bool) -> None:
        """Commit, or abort. Nothing is sent if no partition took part."""
        if not self._partitions or self._identity is None:
            return
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            committed=commit,
        )
        await self._asked(request, lambda response: [response.error_code])
        self._partitions.clear()

    def close(self) -> None:
        """Close the connection to the coordinator."""
        self._coordinator.close()

    def lost(self, code: ErrorCode) -> ClusterError:
        """The error for one of the codes LOST."""
        return ClusterError(
            f"the transaction of {self.transactional_id} is lost ({code.name}): another producer took the id "
            f"over, or it was open for more than {self._timeout_ms} ms",
            code,
        )

    async def _include(self, partitions: Sequence[TopicPartition]) -> None:
        assert self._identity is not None
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._identity.producer_id,
            v3_and_below_producer_epoch=self._identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=indexes)
                for topic, indexes in by_topic(partitions).items()
            ],
        )
        await self._asked(request, _partition_codes)

    async def _asked(self, request: Message, codes: Callable[[Any], Iterable[int]]) -> Any:
        """The coordinator's answer without an error."""
        answer = await self._coordinator.ask(request, codes, waits=_WAITS)
        for code in map(ErrorCode, codes(answer)):
            if code in LOST:
                raise self.lost(code)
            if code is not ErrorCode.NONE:
                raise refusal(code, None, f"transaction of {self.transactional_id}")
        return answer


def _partition_codes(response: Any) -> list[int]:
    return [
        each.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    ]
