"""Produce, byte by byte: accepted batches, refused ones and their codes, idempotence."""

from __future__ import annotations

import struct
import time
import uuid
from typing import Any

import crc32c
import pytest

from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from support.clients.wire import BASE_TIMESTAMP_MS, WireClient, batch, produce_request, wait_for
from support.servers.cluster import Cluster

ATTRIBUTES, LAST_OFFSET_DELTA, RECORD_COUNT, MAGIC, CRC = 21, 23, 57, 16, 17


def forged(position: int, layout: str, value: int) -> bytes:
    """A batch of three records with one header field replaced and a CRC that fits."""
    data = bytearray(batch(3))
    struct.pack_into(layout, data, position, value)
    struct.pack_into(">I", data, CRC, crc32c.crc32c(bytes(data[ATTRIBUTES:])))
    return bytes(data)


def corrupted() -> bytes:
    data = bytearray(batch(3))
    data[-1] ^= 1
    return bytes(data)


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_appends(cluster: Cluster, unique_name: str, version: int) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        wire.create_topic(unique_name)
        wire.produce(unique_name, 0, batch(3))
        answer = wire.produce(unique_name, 0, batch(2), version=version)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 3)
        assert answer.log_append_time_ms == -1
        assert answer.log_start_offset == (0 if version >= 5 else -1)


@pytest.mark.parametrize("acks", [1, -1])
def test_acknowledged(cluster: Cluster, unique_name: str, acks: int) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        wire.create_topic(unique_name)
        for expected in (0, 3, 6):
            assert wire.produce(unique_name, 0, batch(3), acks).base_offset == expected


def test_acks_0_has_no_answer(cluster: Cluster, unique_name: str) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        wire.create_topic(unique_name)
        wire.send(produce_request(unique_name, 0, batch(3), acks=0), 12)
        # the next answer is the next request's
        assert wire.produce(unique_name, 0, batch(1)).base_offset == 3


def test_acks_0_that_fails_closes_the_connection(cluster: Cluster, unique_name: str) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        wire.send(produce_request(f"{unique_name}-not-there", 0, batch(1), acks=0), 12)
        assert wire.is_closed_by_the_broker()


@pytest.mark.parametrize("acks", [2, 5, -2])
def test_other_acks_are_refused(cluster: Cluster, unique_name: str, acks: int) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        wire.create_topic(unique_name)
        answer = wire.produce(unique_name, 0, batch(1), acks)
        assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS


@pytest.mark.parametrize(
    ("records", "code"),
    [
        pytest.param(b"", ErrorCode.INVALID_RECORD, id="no-batch"),
        pytest.param(batch(1) + batch(1), ErrorCode.INVALID_RECORD, id="two-batches"),
        pytest.param(batch(3)[:-5], ErrorCode.INVALID_RECORD, id="cut-off"),
        pytest.param(batch(3) + b"\0" * 70, ErrorCode.CORRUPT_MESSAGE, id="zeros-behind"),
        pytest.param(corrupted(), ErrorCode.CORRUPT_MESSAGE, id="crc"),
        pytest.param(forged(MAGIC, ">b", 1), ErrorCode.INVALID_RECORD, id="magic-1"),
        pytest.param(forged(MAGIC, ">b", 7), ErrorCode.CORRUPT_MESSAGE, id="magic-7"),
        pytest.param(forged(RECORD_COUNT, ">i", 2), ErrorCode.INVALID_RECORD, id="count-too-small"),
        pytest.param(forged(LAST_OFFSET_DELTA, ">i", 5), ErrorCode.INVALID_RECORD, id="last-offset-delta"),
        pytest.param(batch(1, control=True), ErrorCode.INVALID_RECORD, id="control"),
        pytest.param(batch(2, base_offset=5), ErrorCode.INVALID_RECORD, id="base-offset"),
        pytest.param(
            batch(1, producer_id=987_656, producer_epoch=0), ErrorCode.INVALID_RECORD, id="no-sequence"
        ),
        pytest.param(
            batch(1, timestamp_ms=int(time.time() * 1000) + 7_200_000),
            ErrorCode.INVALID_TIMESTAMP,
            id="two-hours-ahead",
        ),
    ],
)
def test_bad_batch_is_refused(cluster: Cluster, unique_name: str, records: bytes, code: ErrorCode) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        wire.create_topic(unique_name)
        answer = wire.produce(unique_name, 0, records)
        assert (ErrorCode(answer.error_code), answer.base_offset) == (code, -1)
        # and nothing of it is in the log
        assert wire.produce(unique_name, 0, batch(1)).base_offset == 0


def test_record_without_a_timestamp_is_kept(cluster: Cluster, unique_name: str) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        wire.create_topic(unique_name)
        assert wire.produce(unique_name, 0, batch(1, timestamp_ms=-1)).error_code == ErrorCode.NONE
        ((header, _),) = wire.read_batches(unique_name, 0)
        assert header.base_timestamp == -1


def test_bytes_of_a_batch_are_kept(cluster: Cluster, unique_name: str) -> None:
    """All but the base offset and the leader epoch, which are the leader's to write."""
    with WireClient.connect(cluster.bootstrap) as wire:
        wire.create_topic(unique_name)
        for codec in Codec:
            sent = batch(50, codec=codec)
            wire.produce(unique_name, 0, sent)
            header, kept = wire.read_batches(unique_name, 0)[-1]
            assert header.base_offset == 50 * codec
            assert header.partition_leader_epoch == 0
            assert kept[8:12] + kept[16:] == sent[8:12] + sent[16:]


def test_zstd_needs_version_7(cluster: Cluster, unique_name: str) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        wire.create_topic(unique_name)
        answer = wire.produce(unique_name, 0, batch(1, codec=Codec.ZSTD), version=6)
        assert answer.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert (
            wire.produce(unique_name, 0, batch(1, codec=Codec.ZSTD), version=7).error_code == ErrorCode.NONE
        )


def test_log_append_time_is_in_the_answer_and_in_the_batch(cluster: Cluster, unique_name: str) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        wire.create_topic(unique_name, config={"message.timestamp.type": "LogAppendTime"})
        before_ms = int(time.time() * 1000)
        answer = wire.produce(unique_name, 0, batch(3))
        assert answer.log_append_time_ms >= before_ms
        ((header, _),) = wire.read_batches(unique_name, 0)
        assert header.max_timestamp == answer.log_append_time_ms
        assert header.timestamp_type.name == "LOG_APPEND_TIME"


def test_topic_compression_is_applied(cluster: Cluster, unique_name: str) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        wire.create_topic(unique_name, config={"compression.type": "gzip"})
        wire.produce(unique_name, 0, batch(3))
        wire.produce(unique_name, 0, batch(3, codec=Codec.LZ4))
        headers = [header for header, _ in wire.read_batches(unique_name, 0)]
        assert [header.compression for header in headers] == [Codec.GZIP, Codec.GZIP]
        assert [header.base_offset for header in headers] == [0, 3]


def test_unknown_topics_and_partitions(cluster: Cluster, unique_name: str) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        wire.create_topic(unique_name)
        missing = f"{unique_name}-not-there"
        for topic, partition in [(missing, 0), (unique_name, 1), ("not/a/name", 0)]:
            answer = wire.call(produce_request(topic, partition, batch(1)), 12)
            (partition_answer,) = answer.responses[0].partition_responses
            assert partition_answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert partition_answer.base_offset == -1
        # Produce never creates a topic
        assert wire.produce(missing, 0, batch(1)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("topic_id", [uuid.UUID(int=0), uuid.UUID(int=12345)])
def test_unknown_topic_id(cluster: Cluster, topic_id: uuid.UUID) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        request = produce_request("", 0, batch(1))
        request.topic_data[0].topic_id = topic_id
        (topic,) = wire.call(request, 13).responses
        assert topic.topic_id == topic_id
        assert topic.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_internal_topic_is_refused(cluster: Cluster, unique_name: str) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        # given: the first use of a group creates the topic
        wire.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[unique_name]), 4)
        wait_for(lambda: len(wire.topic_metadata("__consumer_offsets").topics[0].partitions) == 4)
        answer = wire.produce("__consumer_offsets", 0, batch(1))
        assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


class TestIdempotence:
    """A batch is known by its producer's id and epoch and its sequences; the last five are remembered."""

    @staticmethod
    def send(wire: WireClient, topic: str, sequence: int, count: int = 1, **fields: Any) -> tuple[str, int]:
        fields = {"producer_epoch": 0, **fields}
        answer = wire.produce(topic, 0, batch(count, base_sequence=sequence, **fields))
        return ErrorCode(answer.error_code).name, answer.base_offset

    def test_sequences(self, cluster: Cluster, unique_name: str) -> None:
        with WireClient.connect(cluster.bootstrap) as wire:
            wire.create_topic(unique_name)
            producer_id = self.new_producer(wire)

            def send(sequence: int, count: int = 1, epoch: int = 0) -> tuple[str, int]:
                fields = {"producer_id": producer_id, "producer_epoch": epoch}
                return self.send(wire, unique_name, sequence, count, **fields)

            # the first, and the same again: acknowledged with its old offset, appended once
            assert send(0, count=3) == ("NONE", 0)
            assert send(0, count=3) == ("NONE", 0)
            # a gap
            assert send(5) == ("OUT_OF_ORDER_SEQUENCE_NUMBER", -1)
            assert send(3, count=2) == ("NONE", 3)
            # older batches are known too, up to the fifth last
            assert send(0, count=3) == ("NONE", 0)
            for sequence in range(5, 10):
                assert send(sequence) == ("NONE", sequence)
            assert send(5) == ("NONE", 5)
            assert send(0, count=3) == ("OUT_OF_ORDER_SEQUENCE_NUMBER", -1)
            # part of a known batch is not that batch
            assert send(9, count=2) == ("OUT_OF_ORDER_SEQUENCE_NUMBER", -1)
            # a new epoch starts at 0, and fences the old one
            assert send(5, epoch=1) == ("OUT_OF_ORDER_SEQUENCE_NUMBER", -1)
            assert send(0, epoch=1) == ("NONE", 10)
            assert send(10, epoch=0) == ("INVALID_PRODUCER_EPOCH", -1)
            assert send(1, epoch=1) == ("NONE", 11)

    def test_producer_that_the_log_has_forgotten_may_start_anywhere(
        self, cluster: Cluster, unique_name: str
    ) -> None:
        with WireClient.connect(cluster.bootstrap) as wire:
            wire.create_topic(unique_name)
            assert self.send(wire, unique_name, 5, producer_id=987_654) == ("NONE", 0)
            assert self.send(wire, unique_name, 6, producer_id=987_654) == ("NONE", 1)

    def test_sequences_wrap_around(self, cluster: Cluster, unique_name: str) -> None:
        with WireClient.connect(cluster.bootstrap) as wire:
            wire.create_topic(unique_name)
            assert self.send(wire, unique_name, 2**31 - 1, count=2, producer_id=987_658) == ("NONE", 0)
            assert self.send(wire, unique_name, 1, producer_id=987_658) == ("NONE", 2)

    def test_producer_ids(self, cluster: Cluster) -> None:
        with WireClient.connect(cluster.bootstrap) as wire:

            def init(**fields: Any) -> tuple[str, int, int]:
                request = InitProducerIdRequest(
                    **{"transactional_id": None, "transaction_timeout_ms": 1000, **fields}
                )
                answer = wire.call(request, 5)
                return ErrorCode(answer.error_code).name, answer.producer_id, answer.producer_epoch

            # every one is new, whatever timeout a producer without transactions names
            ids = [self.new_producer(wire) for _ in range(3)]
            assert ids == sorted(set(ids))
            assert init(transaction_timeout_ms=-1)[0] == "NONE"
            code, again, epoch = init(producer_id=ids[0], producer_epoch=0)
            assert (code, epoch) == ("NONE", 0)
            assert again not in ids
            assert init(transactional_id="") == ("INVALID_REQUEST", -1, -1)
            assert init(producer_id=5, producer_epoch=-1) == ("INVALID_REQUEST", -1, -1)

    def new_producer(self, wire: WireClient) -> int:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        answers: list[Any] = []

        def answered() -> bool:
            answers.append(wire.call(request, 5))
            return bool(answers[-1].error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

        # the first block of ids has to come from the controller
        wait_for(answered)
        assert (answers[-1].error_code, answers[-1].producer_epoch) == (ErrorCode.NONE, 0)
        return int(answers[-1].producer_id)


def test_batches_of_several_partitions_in_one_request(cluster: Cluster, unique_name: str) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        wire.create_topic(unique_name, partitions=3)
        request = produce_request(unique_name, 0, batch(1))
        for index, records in [(1, corrupted()), (2, batch(2)), (7, batch(1))]:
            request.topic_data[0].partition_data += (
                produce_request(unique_name, index, records).topic_data[0].partition_data
            )
        (topic,) = wire.call(request, 12).responses
        # one bad partition does not hold up the others
        assert {p.index: ErrorCode(p.error_code).name for p in topic.partition_responses} == {
            0: "NONE",
            1: "CORRUPT_MESSAGE",
            2: "NONE",
            7: "UNKNOWN_TOPIC_OR_PARTITION",
        }


def test_timestamps_of_the_past_are_kept(cluster: Cluster, unique_name: str) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        wire.create_topic(unique_name)
        assert wire.produce(unique_name, 0, batch(3, timestamp_ms=0)).error_code == ErrorCode.NONE
        assert wire.produce(unique_name, 0, batch(3)).error_code == ErrorCode.NONE
        first, second = (header for header, _ in wire.read_batches(unique_name, 0))
        assert (first.base_timestamp, first.max_timestamp) == (0, 2)
        assert second.max_timestamp == BASE_TIMESTAMP_MS + 2


def test_timestamps_may_be_bounded_in_the_past(cluster: Cluster, unique_name: str) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        wire.create_topic(unique_name, config={"message.timestamp.before.max.ms": "3600000"})
        assert wire.produce(unique_name, 0, batch(1)).error_code == ErrorCode.INVALID_TIMESTAMP
        now_ms = int(time.time() * 1000)
        assert wire.produce(unique_name, 0, batch(1, timestamp_ms=now_ms)).error_code == ErrorCode.NONE


def test_more_insync_replicas_than_replicas_are_not_asked_for(cluster: Cluster, unique_name: str) -> None:
    with WireClient.connect(cluster.bootstrap) as wire:
        wire.create_topic(unique_name, config={"min.insync.replicas": "2"})
        assert wire.produce(unique_name, 0, batch(1), -1).error_code == ErrorCode.NONE
