"""Transactions at a partition's leader: appends, markers, and the records that readers see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.protocol.record_batch import iterate_headers
from support.clients.raw_transactions import TIMESTAMP_MS, transactional_batch
from support.clients.wire import WireClient, wait_for
from support.servers.cluster import Cluster
from support.storage.transactions import committed_records

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
BEFORE_ABORTABLE, V1, V2 = 10, 11, 12
LATEST = -1
RETRIED = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


@pytest.fixture
def wire(cluster: Cluster) -> Iterator[WireClient]:
    with WireClient.connect(cluster.bootstrap) as client:
        yield client


@pytest.fixture
def topic(wire: WireClient, unique_name: str) -> str:
    wire.create_topic(unique_name, partitions=2)
    return unique_name


@dataclass
class TransactionalProducer:
    """One transactional id; its requests, each in the version that the test wants."""

    wire: WireClient
    transactional_id: str
    topic: str
    producer_id: int = -1
    epoch: int = -1

    def initialize(self) -> TransactionalProducer:
        answer: Any = None

        # asking for the coordinator creates the topic of the transactions
        self.wire.call(FindCoordinatorRequest(key_type=1, coordinator_keys=[self.transactional_id]), 4)

        def done() -> bool:
            nonlocal answer
            request = InitProducerIdRequest(
                transactional_id=self.transactional_id, transaction_timeout_ms=60_000
            )
            answer = self.wire.call(request, 5)
            assert answer.error_code in (0, *RETRIED), answer
            return answer.error_code == 0

        wait_for(done)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return self

    def add_partition(self, partition: int = 0) -> None:
        def done() -> bool:
            answer = self.wire.call(
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=self.transactional_id,
                    v3_and_below_producer_id=self.producer_id,
                    v3_and_below_producer_epoch=self.epoch,
                    v3_and_below_topics=[AddPartitionsToTxnTopic(name=self.topic, partitions=[partition])],
                ),
                3,
            )
            code = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            assert code in (0, *RETRIED), ErrorCode(code)
            return bool(code == 0)

        wait_for(done)

    def produce(
        self,
        value: bytes = b"v",
        *,
        sequence: int = 0,
        partition: int = 0,
        version: int = V1,
        epoch: int | None = None,
        transactional: bool = True,
        transactional_id: str | None = "",
    ) -> Any:
        records = transactional_batch(
            value,
            producer_id=self.producer_id,
            epoch=self.epoch if epoch is None else epoch,
            sequence=sequence,
            transactional=transactional,
        )
        name = self.transactional_id if transactional_id == "" else transactional_id
        return produce(self.wire, self.topic, {partition: records}, name, version)[0]

    def end(self, *, committed: bool, version: int = 4) -> None:
        def done() -> bool:
            answer = self.wire.call(
                EndTxnRequest(
                    transactional_id=self.transactional_id,
                    producer_id=self.producer_id,
                    producer_epoch=self.epoch,
                    committed=committed,
                ),
                version,
            )
            assert answer.error_code in (0, *RETRIED), ErrorCode(answer.error_code)
            if answer.error_code == 0 and version >= 5:
                self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            return bool(answer.error_code == 0)

        wait_for(done)

    def write_marker(
        self, *, committed: bool = False, epoch: int, coordinator_epoch: int = 0, transaction_version: int = 0
    ) -> ErrorCode:
        marker = WritableTxnMarker(
            producer_id=self.producer_id,
            producer_epoch=epoch,
            transaction_result=committed,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
            topics=[WritableTxnMarkerTopic(name=self.topic, partition_indexes=[0])],
        )
        answer = self.wire.call(WriteTxnMarkersRequest(markers=[marker]), 2)
        return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)


def produce(
    wire: WireClient, topic: str, batches: dict[int, bytes], transactional_id: str | None, version: int
) -> list[Any]:
    data = [PartitionProduceData(index=index, records=records) for index, records in batches.items()]
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=5000,
        topic_data=[TopicProduceData(name=topic, partition_data=data)],
    )
    answer = wire.call(request, version)
    return sorted(answer.responses[0].partition_responses, key=lambda each: each.index)


def fetch(wire: WireClient, topic: str, offset: int = 0, isolation: int = READ_COMMITTED) -> Any:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        isolation_level=isolation,
        max_wait_ms=0,
        min_bytes=0,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    return wire.call(request, 12).responses[0].partitions[0]


def read(wire: WireClient, topic: str) -> list[bytes | None]:
    answer = fetch(wire, topic)
    records = committed_records(bytes(answer.records), answer.aborted_transactions)
    return [record.value for record in records]


def latest(wire: WireClient, topic: str, isolation: int, timestamp: int = LATEST) -> int:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]
    )
    answer = wire.call(request, 7).topics[0].partitions[0]
    assert answer.error_code == 0
    return int(answer.offset)


def wait_until_ended(wire: WireClient, topic: str) -> None:
    """The markers come after the answer to EndTxn."""
    wait_for(lambda: latest(wire, topic, READ_COMMITTED) == latest(wire, topic, READ_UNCOMMITTED))


@pytest.fixture
def producer(wire: WireClient, topic: str) -> TransactionalProducer:
    return TransactionalProducer(wire, f"tx-{topic}", topic).initialize()


class TestWhatMayBeAppended:
    def test_a_partition_that_was_added(self, producer: TransactionalProducer) -> None:
        producer.add_partition()

        assert producer.produce().error_code == 0
        assert producer.produce(sequence=1).error_code == 0

    @pytest.mark.parametrize(
        ("version", "code"),
        [(BEFORE_ABORTABLE, ErrorCode.INVALID_TXN_STATE), (V1, ErrorCode.TRANSACTION_ABORTABLE)],
    )
    def test_not_a_partition_that_was_not_added(
        self, producer: TransactionalProducer, version: int, code: ErrorCode
    ) -> None:
        producer.add_partition(0)

        assert producer.produce(partition=1, version=version).error_code == code

    def test_not_before_a_transaction(self, producer: TransactionalProducer) -> None:
        assert producer.produce(version=V1).error_code == ErrorCode.TRANSACTION_ABORTABLE

    def test_in_transactions_v2_the_broker_adds_the_partition(self, producer: TransactionalProducer) -> None:
        assert producer.produce(version=V2).error_code == 0
        producer.end(committed=True, version=5)
        wait_until_ended(producer.wire, producer.topic)
        assert read(producer.wire, producer.topic) == [b"v"]

    def test_in_transactions_v2_an_unknown_producer_begins_with_sequence_0(
        self, producer: TransactionalProducer
    ) -> None:
        answer = producer.produce(version=V2, sequence=4)

        assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert producer.produce(version=V2).error_code == 0

    def test_before_transactions_v2_it_begins_anywhere(self, producer: TransactionalProducer) -> None:
        producer.add_partition()

        assert producer.produce(version=V1, sequence=4).error_code == 0

    def test_not_without_a_transactional_id(self, producer: TransactionalProducer) -> None:
        producer.add_partition()

        for version in (V1, V2):
            answer = producer.produce(transactional_id=None, version=version)
            assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    def test_not_by_two_producers_at_once(self, wire: WireClient, producer: TransactionalProducer) -> None:
        batches = {
            0: transactional_batch(b"a", producer_id=producer.producer_id),
            1: transactional_batch(b"a", producer_id=producer.producer_id + 1),
        }

        answers = produce(wire, producer.topic, batches, producer.transactional_id, V1)

        assert [each.error_code for each in answers] == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2

    def test_not_of_an_older_epoch(self, producer: TransactionalProducer) -> None:
        producer.add_partition()
        assert producer.produce().error_code == 0
        producer.end(committed=True)
        wait_until_ended(producer.wire, producer.topic)
        producer.initialize()
        assert producer.epoch == 1
        producer.add_partition()
        assert producer.produce().error_code == 0

        assert producer.produce(epoch=0, sequence=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH

    def test_not_outside_of_the_transaction_that_is_open(self, producer: TransactionalProducer) -> None:
        producer.add_partition()
        assert producer.produce().error_code == 0

        answer = producer.produce(sequence=1, transactional=False)

        assert answer.error_code == ErrorCode.INVALID_TXN_STATE

    def test_a_duplicate_is_answered_with_its_offset_though_its_transaction_has_ended(
        self, producer: TransactionalProducer
    ) -> None:
        producer.add_partition()
        first = producer.produce()
        producer.end(committed=True)
        wait_until_ended(producer.wire, producer.topic)
        producer.add_partition()

        again = producer.produce()

        assert (again.error_code, again.base_offset) == (0, first.base_offset)


class TestReaders:
    def test_see_committed_records_only(self, wire: WireClient, producer: TransactionalProducer) -> None:
        for number in range(4):
            producer.add_partition()
            producer.produce(b"%d" % number, sequence=number)
            producer.end(committed=number % 2 == 0)
            wait_until_ended(wire, producer.topic)

        answer = fetch(wire, producer.topic)

        assert read(wire, producer.topic) == [b"0", b"2"]
        assert [(each.producer_id, each.first_offset) for each in answer.aborted_transactions] == [
            (producer.producer_id, 2),
            (producer.producer_id, 6),
        ]
        assert len(list(iterate_headers(bytes(answer.records)))) == 8
        (later,) = fetch(wire, producer.topic, 5).aborted_transactions
        assert later.first_offset == 6

    def test_wait_for_an_open_transaction(self, wire: WireClient, producer: TransactionalProducer) -> None:
        plain = transactional_batch(b"plain", producer_id=-1, epoch=-1, sequence=-1, transactional=False)
        produce(wire, producer.topic, {0: plain}, None, V1)
        producer.add_partition()
        producer.produce(b"open")
        produce(wire, producer.topic, {0: plain}, None, V1)

        answer = fetch(wire, producer.topic)

        assert (answer.high_watermark, answer.last_stable_offset) == (3, 1)
        assert (answer.aborted_transactions, read(wire, producer.topic)) == ([], [b"plain"])
        everything = fetch(wire, producer.topic, isolation=READ_UNCOMMITTED)
        assert everything.aborted_transactions is None
        assert (everything.high_watermark, everything.last_stable_offset) == (3, 1)
        assert len(list(iterate_headers(bytes(everything.records)))) == 3
        assert bytes(fetch(wire, producer.topic, 1).records) == b""
        assert latest(wire, producer.topic, READ_COMMITTED) == 1
        assert latest(wire, producer.topic, READ_UNCOMMITTED) == 3
        assert latest(wire, producer.topic, READ_COMMITTED, TIMESTAMP_MS) == 0
        assert latest(wire, producer.topic, READ_COMMITTED, TIMESTAMP_MS + 1) == -1


class TestMarkers:
    def test_epochs_of_transactions_v1(self, producer: TransactionalProducer) -> None:
        producer.initialize()
        assert producer.epoch == 1
        producer.add_partition()
        assert producer.produce().error_code == 0

        assert producer.write_marker(epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert producer.write_marker(epoch=1, coordinator_epoch=5) == ErrorCode.NONE
        assert producer.write_marker(epoch=1, coordinator_epoch=4) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert latest(producer.wire, producer.topic, READ_COMMITTED) == 2

    def test_epochs_of_transactions_v2(self, producer: TransactionalProducer) -> None:
        producer.add_partition()
        assert producer.produce().error_code == 0

        def mark(epoch: int) -> ErrorCode:
            return producer.write_marker(epoch=epoch, transaction_version=2)

        assert mark(0) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert mark(1) == ErrorCode.NONE
        assert mark(1) == ErrorCode.NONE
        assert mark(0) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert latest(producer.wire, producer.topic, READ_UNCOMMITTED) == 3

    def test_of_a_producer_that_wrote_nothing(
        self, wire: WireClient, producer: TransactionalProducer
    ) -> None:
        assert producer.write_marker(epoch=3) == ErrorCode.NONE

        assert fetch(wire, producer.topic).aborted_transactions == []
        assert latest(wire, producer.topic, READ_COMMITTED) == 1

    def test_for_a_partition_that_does_not_exist(self, producer: TransactionalProducer) -> None:
        producer.topic = "nothing"

        assert producer.write_marker(epoch=3) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def describe(wire: WireClient, topic: str, *partitions: int) -> list[Any]:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=list(partitions))])
    return list(wire.call(request, 0).topics[0].partitions)


class TestDescribingProducers:
    def test_an_open_transaction_and_its_end(self, wire: WireClient, producer: TransactionalProducer) -> None:
        producer.add_partition()
        producer.produce()
        producer.produce(sequence=1)

        (answer,) = describe(wire, producer.topic, 0)

        (state,) = answer.active_producers
        assert (state.producer_id, state.producer_epoch) == (producer.producer_id, producer.epoch)
        assert (state.last_sequence, state.last_timestamp) == (1, TIMESTAMP_MS)
        assert (state.coordinator_epoch, state.current_txn_start_offset) == (-1, 0)
        producer.end(committed=True)
        wait_until_ended(wire, producer.topic)
        (answer,) = describe(wire, producer.topic, 0)
        (state,) = answer.active_producers
        # librdkafka and old Java clients keep the epoch; clients with transactions v2 get the next one
        assert state.current_txn_start_offset == -1 and state.coordinator_epoch >= 0
        assert (state.producer_epoch, state.last_sequence) in [(producer.epoch, 1), (producer.epoch + 1, -1)]

    @pytest.mark.parametrize(
        ("name", "code"),
        [
            ("not/allowed", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("nothing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ],
    )
    def test_of_a_topic_that_is_not_there(self, wire: WireClient, name: str, code: ErrorCode) -> None:
        (answer,) = describe(wire, name, 0)

        assert answer.error_code == code

    def test_of_a_partition_that_is_not_there(self, wire: WireClient, topic: str) -> None:
        empty, unknown = describe(wire, topic, 1, 7)

        assert (empty.error_code, empty.active_producers) == (0, [])
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
