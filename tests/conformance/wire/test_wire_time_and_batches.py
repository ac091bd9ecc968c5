"""Timestamps, codecs and sizes of batches, as the topic's settings want them; byte by byte."""

from __future__ import annotations

import struct
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import crc32c
import pytest

from ottla.protocol.compression import Codec, compress
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.record_batch import (
    BatchHeader,
    NewRecord,
    TimestampType,
    decode_records,
    encode_batch,
    write_record,
)
from support.clients.transaction_wire import TransactionalProducer, coordinator_ready, settled
from support.clients.wire import ConnectionClosed, WireClient, batch, produce_request, wait_for
from support.servers.cluster import Cluster

ATTRIBUTES, CRC, RECORDS = 21, 17, 61
HOUR_MS = 3_600_000
TOPIC_RESOURCE = 2
CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


@pytest.fixture
def wire(cluster: Cluster) -> Iterator[WireClient]:
    with WireClient.connect(cluster.bootstrap) as client:
        yield client


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def records(count: int = 3, at_ms: int | None = None) -> list[NewRecord]:
    start = now_ms() if at_ms is None else at_ms
    return [
        NewRecord(b"k%d" % n, b"value %d" % n, start - n, (("h", b"%d" % n), ("empty", None)))
        for n in range(count)
    ]


def set_config(wire: WireClient, topic: str, **values: str) -> None:
    """Change a topic's settings (underscores for dots)."""
    configs = [
        AlterableConfig(name=name.replace("_", "."), config_operation=0, value=value)
        for name, value in values.items()
    ]
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=configs)
    (answer,) = wire.call(IncrementalAlterConfigsRequest(resources=[resource])).responses
    assert answer.error_code == ErrorCode.NONE


def only_batch(wire: WireClient, topic: str) -> tuple[BatchHeader, bytes]:
    ((header, data),) = wire.read_batches(topic, 0)
    assert header.crc == crc32c.crc32c(data[ATTRIBUTES:])
    return header, data


# --- records that the broker writes itself ----------------------------------------------------------------


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("timestamp_type", ["LogAppendTime", "CreateTime"])
def test_markers_have_the_topics_timestamp_type(
    wire: WireClient, unique_name: str, timestamp_type: str, committed: bool
) -> None:
    wire.create_topic(unique_name, config={"message.timestamp.type": timestamp_type})
    coordinator_ready(wire, unique_name)
    producer = TransactionalProducer(wire, unique_name)
    assert producer.initialise() is ErrorCode.NONE
    producer.begin(unique_name)
    assert producer.produce(unique_name, b"value") is ErrorCode.NONE
    before_ms = now_ms()
    # when
    assert settled(lambda: producer.end(committed=committed)).error_code == ErrorCode.NONE
    wait_for(lambda: len(wire.read_batches(unique_name, 0)) == 2)
    # then
    header, data = wire.read_batches(unique_name, 0)[1]
    assert header.is_control and header.crc == crc32c.crc32c(data[ATTRIBUTES:])
    (record,) = decode_records(data)
    assert record.timestamp == header.max_timestamp
    assert before_ms - 1 <= header.base_timestamp <= header.max_timestamp <= now_ms() + 1
    # each byte of it: attributes, and a record with key (version, type) and value (version, epoch)
    attributes = 0x38 if timestamp_type == "LogAppendTime" else 0x30
    assert data[ATTRIBUTES : ATTRIBUTES + 6] == struct.pack(">hi", attributes, 0)
    assert data[43:] == struct.pack(">qhii", producer.producer_id, producer.epoch, -1, 1) + bytes.fromhex(
        f"20000000 080000 {int(committed):04x} 0c 0000 00000000 00".replace(" ", "")
    )


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_coordinators_records_have_their_topics_timestamp_type(
    start_own: Callable[..., AbstractContextManager[Any]], topic: str
) -> None:
    with start_own() as node, WireClient.connect(node.bootstrap) as wire:
        coordinator_ready(wire, "a")
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=["a"])
        wait_for(lambda: wire.call(find).coordinators[0].error_code == ErrorCode.NONE)
        wire.create_topic("t")
        wait_for(lambda: _commit_an_offset(wire) == ErrorCode.NONE)
        set_config(wire, topic, message_timestamp_type="LogAppendTime")

        def newest() -> BatchHeader | None:
            assert _commit_an_offset(wire) == ErrorCode.NONE
            assert TransactionalProducer(wire, "a").initialise() is ErrorCode.NONE
            count = len(wire.topic_metadata(topic).topics[0].partitions)
            found = [wire.read_batches(topic, index) for index in range(count)]
            (batches,) = (each for each in found if each)
            return batches[-1][0]

        wait_for(lambda: newest().timestamp_type is TimestampType.LOG_APPEND_TIME)


def _commit_an_offset(wire: WireClient) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
    request = OffsetCommitRequest(
        group_id="a", topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])]
    )
    code: int = wire.call(request, 8).topics[0].partitions[0].error_code
    return code


# --- LogAppendTime ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_log_append_time_replaces_the_newest_timestamp_only(
    wire: WireClient, unique_name: str, codec: Codec
) -> None:
    wire.create_topic(unique_name, config={"message.timestamp.type": "LogAppendTime"})
    sent = encode_batch(records(at_ms=1_000), codec=codec)
    before_ms = now_ms()
    # when
    answer = wire.produce(unique_name, 0, sent)
    # then
    assert before_ms - 1 <= answer.log_append_time_ms <= now_ms() + 1
    header, data = only_batch(wire, unique_name)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.max_timestamp == answer.log_append_time_ms
    assert header.base_timestamp == 1_000
    assert data[RECORDS:] == sent[RECORDS:]


@pytest.mark.parametrize("version", [3, 7, 12, 13])
def test_create_time_names_no_append_time(wire: WireClient, unique_name: str, version: int) -> None:
    wire.create_topic(unique_name)
    assert wire.produce(unique_name, 0, encode_batch(records()), version=version).log_append_time_ms == -1


def test_the_timestamp_type_may_change_while_the_topic_is_used(wire: WireClient, unique_name: str) -> None:
    wire.create_topic(unique_name)
    wire.produce(unique_name, 0, encode_batch(records()))
    # when
    set_config(wire, unique_name, message_timestamp_type="LogAppendTime")
    wait_for(lambda: wire.produce(unique_name, 0, encode_batch(records())).log_append_time_ms > 0)
    set_config(wire, unique_name, message_timestamp_type="CreateTime")
    wait_for(lambda: wire.produce(unique_name, 0, encode_batch(records())).log_append_time_ms == -1)
    # then
    kinds = [header.timestamp_type.name for header, _ in wire.read_batches(unique_name, 0)]
    assert sorted(set(kinds)) == ["CREATE_TIME", "LOG_APPEND_TIME"]
    assert (kinds[0], kinds[-1]) == ("CREATE_TIME", "CREATE_TIME")


def test_the_timestamp_type_is_the_topics_whatever_the_producer_claims(
    wire: WireClient, unique_name: str
) -> None:
    wire.create_topic(unique_name)
    claimed = encode_batch(records(2), timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert wire.produce(unique_name, 0, claimed).error_code == ErrorCode.NONE
    header, _ = only_batch(wire, unique_name)
    assert header.timestamp_type is TimestampType.CREATE_TIME
    # then: where the broker stamps, claiming to have done so is an error
    by_broker = f"{unique_name}-stamped"
    wire.create_topic(by_broker, config={"message.timestamp.type": "LogAppendTime"})
    assert wire.produce(by_broker, 0, claimed).error_code == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_a_repeated_batch_is_answered_with_its_first_offset(
    wire: WireClient, unique_name: str, timestamp_type: str
) -> None:
    wire.create_topic(unique_name, config={"message.timestamp.type": timestamp_type})
    sent = encode_batch(records(), producer_id=987_001, producer_epoch=0, base_sequence=0)
    first = wire.produce(unique_name, 0, sent)
    # when
    again = wire.produce(unique_name, 0, sent)
    # then: Kafka names the timestamp of the batch that it has, whatever the timestamp type
    header, _ = only_batch(wire, unique_name)
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, first.base_offset)
    assert again.log_append_time_ms == header.max_timestamp


# --- bounds of timestamps ---------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4], ids=lambda codec: codec.name)
@pytest.mark.parametrize(
    ("bound", "offsets_ms", "at_fault"),
    [
        ("before", [0, -2 * HOUR_MS, -HOUR_MS // 2, -2 * HOUR_MS], [1, 3]),
        ("after", [0, 2 * HOUR_MS, HOUR_MS // 2, 3 * HOUR_MS], [1, 3]),
    ],
)
def test_records_outside_the_bounds_are_named(
    wire: WireClient, unique_name: str, codec: Codec, bound: str, offsets_ms: list[int], at_fault: list[int]
) -> None:
    wire.create_topic(unique_name, config={f"message.timestamp.{bound}.max.ms": str(HOUR_MS)})
    at_ms = now_ms()
    sent = encode_batch([NewRecord(b"k", b"v", at_ms + each) for each in offsets_ms], codec=codec)
    # when
    answer = wire.produce(unique_name, 0, sent)
    # then
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in answer.record_errors] == at_fault
    assert all(each.batch_index_error_message for each in answer.record_errors)
    assert answer.error_message
    assert (answer.base_offset, answer.log_append_time_ms) == (-1, -1)


def test_bounds_do_not_hold_for_the_time_of_the_append(wire: WireClient, unique_name: str) -> None:
    config = {"message.timestamp.type": "LogAppendTime", "message.timestamp.before.max.ms": "1000"}
    wire.create_topic(unique_name, config=config)
    assert wire.produce(unique_name, 0, encode_batch(records(at_ms=5))).error_code == ErrorCode.NONE


def test_a_record_without_a_timestamp_is_within_every_bound(wire: WireClient, unique_name: str) -> None:
    wire.create_topic(unique_name, config={"message.timestamp.before.max.ms": str(HOUR_MS)})
    nothing = encode_batch([NewRecord(b"k", b"v", -1)])
    assert wire.produce(unique_name, 0, nothing).error_code == ErrorCode.NONE


def test_keyless_records_of_a_compacted_topic_are_named(wire: WireClient, unique_name: str) -> None:
    wire.create_topic(unique_name, config={"cleanup.policy": "compact"})
    keys = [b"k", None, b"", None]
    sent = encode_batch([NewRecord(key, b"v", now_ms()) for key in keys])
    answer = wire.produce(unique_name, 0, sent)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in answer.record_errors] == [1, 3]


def test_a_wrong_timestamp_outweighs_a_missing_key(wire: WireClient, unique_name: str) -> None:
    config = {"cleanup.policy": "compact", "message.timestamp.before.max.ms": str(HOUR_MS)}
    wire.create_topic(unique_name, config=config)
    at_ms = now_ms()
    sent = encode_batch([NewRecord(None, b"v", at_ms), NewRecord(b"k", b"v", 5), NewRecord(None, b"v", 6)])
    answer = wire.produce(unique_name, 0, sent)
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in answer.record_errors] == [0, 1, 2]


# --- codecs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", CODECS, ids=lambda codec: codec.name)
@pytest.mark.parametrize("source", CODECS, ids=lambda codec: codec.name)
def test_a_topics_codec_is_the_one_on_disk(
    wire: WireClient, unique_name: str, source: Codec, target: Codec
) -> None:
    name = "uncompressed" if target is Codec.NONE else target.config_name
    wire.create_topic(unique_name, config={"compression.type": name})
    some = records(20)
    producer: dict[str, Any] = {"producer_id": 987_002, "producer_epoch": 3, "base_sequence": 0}
    sent = encode_batch(some, codec=source, **producer)
    # when
    assert wire.produce(unique_name, 0, sent).base_offset == 0
    assert wire.produce(unique_name, 0, sent).base_offset == 0  # a repetition is seen all the same
    # then
    header, data = only_batch(wire, unique_name)
    assert header.compression is target
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (987_002, 3, 0)
    assert (header.base_timestamp, header.max_timestamp) == (some[0].timestamp, some[0].timestamp)
    assert (header.record_count, header.last_offset_delta) == (20, 19)
    kept = [
        (each.offset, each.timestamp, each.key, each.value, each.headers) for each in decode_records(data)
    ]
    assert kept == [(n, each.timestamp, each.key, each.value, each.headers) for n, each in enumerate(some)]


@pytest.mark.parametrize("level", ["1", "9"])
def test_a_topics_compression_level_holds_for_batches_that_are_compressed_anew(
    wire: WireClient, unique_name: str, level: str
) -> None:
    config = {"compression.type": "gzip", "compression.gzip.level": level}
    wire.create_topic(unique_name, config=config)
    some = [NewRecord(b"%d" % n, b"%d " % (n * n % 977) * 20, 1_000) for n in range(400)]
    wire.produce(unique_name, 0, encode_batch(some))
    header, _ = only_batch(wire, unique_name)
    by_level = {each: len(compress(Codec.GZIP, payload_of(some), each)) for each in (1, 9)}
    nearest = min(by_level, key=lambda each: abs(by_level[each] - (header.size_bytes - RECORDS)))
    assert nearest == int(level)


def payload_of(some: list[NewRecord]) -> bytes:
    return encode_batch(some)[RECORDS:]


def test_log_append_time_and_another_codec_at_once(wire: WireClient, unique_name: str) -> None:
    config = {"compression.type": "zstd", "message.timestamp.type": "LogAppendTime"}
    wire.create_topic(unique_name, config=config)
    answer = wire.produce(unique_name, 0, encode_batch(records(at_ms=1_000)))
    header, data = only_batch(wire, unique_name)
    assert header.compression is Codec.ZSTD
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.max_timestamp == answer.log_append_time_ms
    assert [each.timestamp for each in decode_records(data)] == [answer.log_append_time_ms] * 3


def test_each_partition_of_a_request_gets_its_topics_codec(wire: WireClient, unique_name: str) -> None:
    first, second = f"{unique_name}-a", f"{unique_name}-b"
    wire.create_topic(first, partitions=2, config={"compression.type": "gzip"})
    wire.create_topic(second)
    request = produce_request(first, 0, batch(3))
    for topic, index, data in [(first, 1, batch(2)), (second, 0, batch(1, codec=Codec.LZ4))]:
        request.topic_data += produce_request(topic, index, data).topic_data
    answers = wire.call(request, 12).responses
    assert [p.error_code for topic in answers for p in topic.partition_responses] == [0, 0, 0]
    codecs = [
        wire.read_batches(topic, index)[0][0].compression.name
        for topic, index in [(first, 0), (first, 1), (second, 0)]
    ]
    assert codecs == ["GZIP", "GZIP", "LZ4"]


# --- sizes ------------------------------------------------------------------------------------------------


def test_the_size_counts_as_sent_and_as_stored(wire: WireClient, unique_name: str) -> None:
    config = {"max.message.bytes": "2000", "compression.type": "uncompressed"}
    wire.create_topic(unique_name, config=config)
    big = [NewRecord(b"k", b"v" * 3_000, now_ms())]
    # then: too large as it comes, and too large when unfolded
    for codec in (Codec.NONE, Codec.GZIP):
        answer = wire.produce(unique_name, 0, encode_batch(big, codec=codec))
        assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    # when
    set_config(wire, unique_name, max_message_bytes="4000")
    # then
    wait_for(lambda: wire.produce(unique_name, 0, encode_batch(big)).error_code == ErrorCode.NONE)
    exactly = 4_000 - len(encode_batch([NewRecord(b"k", b"", now_ms())])) - 1
    for size, expected in [(exactly, ErrorCode.NONE), (exactly + 1, ErrorCode.MESSAGE_TOO_LARGE)]:
        sent = encode_batch([NewRecord(b"k", b"v" * size, now_ms())])
        assert len(sent) in (4_000, 4_001, 4_002)
        if len(sent) == 4_000 or expected is not ErrorCode.NONE:
            assert wire.produce(unique_name, 0, sent).error_code == expected


def test_a_large_batch_that_unfolds_is_checked_and_others_are_served_meanwhile(
    cluster: Cluster, wire: WireClient, unique_name: str
) -> None:
    wire.create_topic(unique_name, config={"cleanup.policy": "compact", "max.message.bytes": "2000000"})
    some = [NewRecord(b"k", b"", 1_000)] * 300_000
    sent = encode_batch(some, codec=Codec.GZIP)
    with WireClient.connect(cluster.bootstrap) as other:
        # when
        asked = wire.send(produce_request(unique_name, 0, sent), 12)
        assert other.topic_metadata(unique_name).topics[0].error_code == ErrorCode.NONE
        after = other.produce(unique_name, 0, batch(1))
    # then
    answer = wire.receive(produce_request(unique_name, 0, sent), asked, 12)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert after.error_code == ErrorCode.NONE
    assert sum(header.record_count for header, _ in wire.read_batches(unique_name, 0)) == 300_001


def test_batches_of_one_connection_keep_their_order(wire: WireClient, unique_name: str) -> None:
    wire.create_topic(unique_name, config={"cleanup.policy": "compact", "max.message.bytes": "2000000"})
    large = encode_batch([NewRecord(b"k", b"%d" % n, 1_000) for n in range(60_000)], codec=Codec.ZSTD)
    requests = [
        produce_request(unique_name, 0, data) for data in (batch(1), large, batch(2), large, batch(1))
    ]
    # when: all of them are sent before the first is answered
    sent = [wire.send(request, 12) for request in requests]
    # then
    offsets = [
        wire.receive(request, correlation_id, 12).responses[0].partition_responses[0].base_offset
        for request, correlation_id in zip(requests, sent, strict=True)
    ]
    assert offsets == [0, 1, 60_001, 60_003, 120_003]


# --- records that differ from the header --------------------------------------------------------------------


def of_deltas(*deltas: int) -> bytes:
    """The records of a batch with these offset deltas."""
    payload = bytearray()
    for delta in deltas:
        write_record(payload, NewRecord(b"k", b"v", 1_000), delta, 1_000)
    return bytes(payload)


@pytest.mark.parametrize("codec", CODECS[1:], ids=lambda codec: codec.name)
@pytest.mark.parametrize("config", [{"cleanup.policy": "compact"}, {"compression.type": "uncompressed"}])
@pytest.mark.parametrize(
    "payload",
    [of_deltas(0), of_deltas(0, 1, 2), of_deltas(0, 1)[:-2], of_deltas(0, 1) + b"abc", b"\xff" * 40],
    ids=["fewer", "more", "cut-off", "bytes-behind", "nonsense"],
)
def test_records_that_are_looked_at_are_as_many_as_the_header_says(
    wire: WireClient, unique_name: str, codec: Codec, config: dict[str, str], payload: bytes
) -> None:
    wire.create_topic(unique_name, config=config)
    forged = bytearray(encode_batch(records(2), codec=codec)[:RECORDS]) + compress(codec, payload)
    struct.pack_into(">i", forged, 8, len(forged) - 12)
    struct.pack_into(">I", forged, CRC, crc32c.crc32c(bytes(forged[ATTRIBUTES:])))
    answer = wire.produce(unique_name, 0, bytes(forged))
    assert answer.error_code == ErrorCode.INVALID_RECORD


# --- topic ids and leaders ----------------------------------------------------------------------------------


def test_the_id_of_a_topic_that_was_made_again_is_the_new_ones(wire: WireClient, unique_name: str) -> None:
    old_id = wire.create_topic(unique_name)
    wire.produce(unique_name, 0, batch(3))
    answer = wire.call(
        DeleteTopicsRequest(topics=[DeleteTopicState(name=unique_name)], timeout_ms=10_000)
    ).responses[0]
    assert answer.error_code == ErrorCode.NONE
    new_id = wire.create_topic(unique_name)

    def produce(topic_id: uuid.UUID) -> ErrorCode:
        request = produce_request("", 0, batch(1))
        request.topic_data[0].topic_id = topic_id
        return ErrorCode(wire.call(request, 13).responses[0].partition_responses[0].error_code)

    def fetch(topic_id: uuid.UUID) -> ErrorCode:
        asked = FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition=0, fetch_offset=0)])
        answer = wire.call(FetchRequest(max_bytes=1_000, topics=[asked]), 16)
        return ErrorCode(answer.responses[0].partitions[0].error_code)

    assert (produce(new_id), fetch(new_id)) == (ErrorCode.NONE, ErrorCode.NONE)
    for topic_id in (old_id, uuid.UUID(int=0), uuid.UUID(int=5)):
        assert (produce(topic_id), fetch(topic_id)) == (ErrorCode.UNKNOWN_TOPIC_ID,) * 2


def test_an_old_leader_epoch_is_answered_with_the_leader(
    start_own: Callable[..., AbstractContextManager[Any]], unique_name: str
) -> None:
    with start_own() as own:
        with WireClient.connect(own.bootstrap) as wire:
            topic_id = wire.create_topic(unique_name)
            wire.produce(unique_name, 0, batch(3))
        # given: a restart begins a new epoch of the leader
        own.restart()
        with WireClient.connect(own.bootstrap) as wire:
            node = wire.topic_metadata(unique_name).brokers[0]

            def fetch(version: int) -> Any:
                asked = FetchPartition(partition=0, fetch_offset=0, current_leader_epoch=0)
                topic = FetchTopic(topic_id=topic_id, topic=unique_name, partitions=[asked])
                return wire.call(FetchRequest(max_bytes=1_000, topics=[topic]), version)

            def fenced() -> bool:
                try:
                    code = fetch(16).responses[0].partitions[0].error_code
                except ConnectionClosed:
                    return False
                return bool(code == ErrorCode.FENCED_LEADER_EPOCH)

            wait_for(fenced)
            # when
            for version in (15, 16, 17):
                answer = fetch(version)
                (partition,) = answer.responses[0].partitions
                # then
                assert partition.error_code == ErrorCode.FENCED_LEADER_EPOCH
                endpoints = [(each.node_id, each.host, each.port) for each in answer.node_endpoints]
                if version < 16:
                    assert (partition.current_leader.leader_id, endpoints) == (-1, [])
                else:
                    assert partition.current_leader.leader_id == node.node_id
                    assert partition.current_leader.leader_epoch > 0
                    assert endpoints == [(node.node_id, node.host, node.port)]
