"""A transactional producer that speaks the protocol one request at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.record_batch import NewRecord, encode_batch
from support.clients.wire import BASE_TIMESTAMP_MS, Client, wait_for

TRANSIENT = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def coordinator_ready(client: Client, transactional_id: str) -> None:
    """Wait until the transactional id's coordinator answers for it."""

    def ready() -> bool:
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id])
        if client.call(request, 4).coordinators[0].error_code:
            return False
        described = client.call(DescribeTransactionsRequest(transactional_ids=[transactional_id]))
        return described.transaction_states[0].error_code not in TRANSIENT

    wait_for(ready)


@dataclass
class TransactionalProducer:
    """One transactional id as one producer sees it. `v2` chooses the API versions of transactions v2."""

    client: Client
    name: str
    v2: bool = False
    producer_id: int = -1
    epoch: int = -1
    sequence: int = 0

    def initialise(self, **fields: Any) -> ErrorCode:
        """InitProducerId until its error is not transient; takes over the id and epoch of the answer."""
        answer = settled(lambda: self.ask_initialise(**fields))
        if not answer.error_code:
            self.producer_id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0
        return ErrorCode(answer.error_code)

    def ask_initialise(
        self, version: int = 5, producer_id: int = -1, epoch: int = -1, timeout_ms: int = 60_000
    ) -> Any:
        request = InitProducerIdRequest(
            transactional_id=self.name,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        return self.client.call(request, version)

    def add_partitions(
        self, topic: str, indices: Sequence[int] = (0,), version: int = 3, *, verify_only: bool = False
    ) -> list[ErrorCode]:
        """One AddPartitionsToTxn; the error of each partition."""
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=list(indices))]
        if version < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.name,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=topics,
            )
            results = self.client.call(request, version).results_by_topic_v3_and_below
        else:
            transaction = AddPartitionsToTxnTransaction(
                transactional_id=self.name,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                verify_only=verify_only,
                topics=topics,
            )
            request = AddPartitionsToTxnRequest(transactions=[transaction])
            (result,) = self.client.call(request, version).results_by_transaction
            assert result.transactional_id == self.name
            results = result.topic_results
        found = {each.partition_index: each.partition_error_code for each in results[0].results_by_partition}
        return [ErrorCode(found[index]) for index in indices]

    def begin(self, topic: str, indices: Sequence[int] = (0,)) -> None:
        """Add partitions, waiting for the end of the last transaction."""
        version = 5 if self.v2 else 3
        wait_for(lambda: self.add_partitions(topic, indices, version) == [ErrorCode.NONE] * len(indices))

    def add_offsets(self, group: str, version: int = 4) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group,
        )
        return ErrorCode(self.client.call(request, version).error_code)

    def produce(self, topic: str, value: bytes, partition: int = 0) -> ErrorCode:
        """One record of the transaction; by Produce v12 the broker adds the partition itself."""
        records = encode_batch(
            [NewRecord(None, value, BASE_TIMESTAMP_MS)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=True,
        )
        request = ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[
                TopicProduceData(
                    name=topic, partition_data=[PartitionProduceData(index=partition, records=records)]
                )
            ],
        )
        answer = self.client.call(request, 12 if self.v2 else 9)
        error = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        if not error:
            self.sequence += 1
        return error

    def end(self, *, committed: bool, version: int | None = None, epoch: int | None = None) -> Any:
        """One EndTxn."""
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            committed=committed,
        )
        return self.client.call(request, (5 if self.v2 else 4) if version is None else version)

    def commit(self) -> None:
        """End the transaction, and go on with the coordinator's id and epoch."""
        answer = settled(lambda: self.end(committed=True))
        assert answer.error_code == ErrorCode.NONE, answer
        if self.v2:
            self.producer_id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0

    def described(self) -> Any:
        request = DescribeTransactionsRequest(transactional_ids=[self.name])
        return self.client.call(request).transaction_states[0]

    def wait_for_state(self, state: str) -> None:
        wait_for(lambda: self.described().transaction_state == state)


def settled(ask: Callable[[], Any]) -> Any:
    """The first answer whose error does not pass by itself."""
    answers: list[Any] = []

    def asked() -> bool:
        answers[:] = [ask()]
        return answers[0].error_code not in TRANSIENT

    wait_for(asked)
    return answers[0]
