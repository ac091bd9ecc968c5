"""Which transactional ids this broker coordinates, and the way to each one's shard."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.broker.coordinators.coordinator_routing import CoordinatorRouting
from ottla.core.coordination.api import Client
from ottla.core.settings import broker_settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.framing import Coordinator
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.coordinators.coordinator_shard import ShardFamily
    from ottla.broker.coordinators.node import TransactionsNode
    from ottla.broker.coordinators.remote_transactions import RemoteTransactions
    from ottla.core.image.image import MetadataDelta
    from ottla.core.transactions.settings import TransactionSettings

TRANSACTION_TOPIC = Coordinator.TRANSACTION.value
BETWEEN_BROKERS = Client("", "", 5)
"""The version of AddPartitionsToTxn in which leaders of partitions ask: the newest."""

TopicPartition = tuple[str, int]


class TransactionCoordinator:
    """All transactional ids whose partition this broker leads. Used on the event loop only."""

    def __init__(self, node: TransactionsNode) -> None:
        def import_family() -> Callable[[], ShardFamily]:
            from ottla.broker.coordinators.transaction_shard import transaction_family

            return lambda: transaction_family(node)

        self._node = node
        self._told: TransactionSettings | None = None
        self._remote: RemoteTransactions | None = None
        """Made for the first transaction that another broker coordinates."""
        self.shards = CoordinatorRouting(
            node, Coordinator.TRANSACTION, broker_settings.TRANSACTION_STATE_LOG_NUM_PARTITIONS, import_family
        )

    # -- told by the roles of replicas and the controller --------------------------------------------

    def prepare(self) -> None:
        """This broker has a replica of a partition, so it may be elected."""
        self.shards.prepare()

    def on_elected(self, partition: int, leader_epoch: int) -> None:
        """This broker leads the partition now: load its transactional ids in the background."""
        self.shards.on_elected(partition, leader_epoch)

    def on_resigned(self, partition: int) -> None:
        """This broker leads the partition no more; unknown partitions are no error."""
        self.shards.on_resigned(partition)

    def on_metadata(self, delta: MetadataDelta) -> None:
        """The metadata has changed: shards go by the finalized transaction version."""
        if not self.shards.partitions():
            return
        from ottla.broker.coordinators.transaction_shard import transaction_settings
        from ottla.core.transactions.api import SettingsChanged

        settings = transaction_settings(self._node)
        if settings != self._told:
            self._told = settings
            self.shards.tell_all(lambda at: SettingsChanged(at, settings))

    async def stop(self) -> None:
        """Answer all requests that wait."""
        self.shards.stop()

    # -- requests -----------------------------------------------------------------------------------

    def ask(self, transactional_id: str, request: Message, client: Client) -> Message | Awaitable[Message]:
        """Ask the shard of `transactional_id`; errors come in the response, NOT_COORDINATOR among them."""
        return self.shards.ask(self.shards.partition_for(transactional_id), request, client)

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        verify_only: bool,
    ) -> Mapping[TopicPartition, ErrorCode]:
        """As `TransactionGate` in transaction_verification.py has it, for the append path."""
        from ottla.protocol.messages.add_partitions_to_txn_request import (
            AddPartitionsToTxnRequest,
            AddPartitionsToTxnTopic,
            AddPartitionsToTxnTransaction,
        )
        from ottla.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse

        if not transactional_id:
            return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
        by_topic: dict[str, list[int]] = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            verify_only=verify_only,
            topics=[AddPartitionsToTxnTopic(name=name, partitions=part) for name, part in by_topic.items()],
        )
        leader = self.shards.leader_of(self.shards.partition_for(transactional_id))
        if leader is None:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if leader != self._node.node_id:
            if self._remote is None:
                from ottla.broker.coordinators.remote_transactions import RemoteTransactions

                self._remote = RemoteTransactions(self._node.broker_requests, self._node.supervisor)
            return await self._remote.add_partitions(leader, transaction)
        request = AddPartitionsToTxnRequest(transactions=[transaction])
        answer = self.ask(transactional_id, request, BETWEEN_BROKERS)
        response = await answer if inspect.isawaitable(answer) else answer
        assert isinstance(response, AddPartitionsToTxnResponse)
        return {
            (topic.name, partition.partition_index): ErrorCode(partition.partition_error_code)
            for result in response.results_by_transaction
            for topic in result.topic_results
            for partition in topic.results_by_partition
        }
