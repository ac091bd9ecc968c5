"""confluent-kafka (librdkafka) produces and consumes."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import (
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from ottla.protocol.compression import Codec
from support.clients.confluent import (
    TIMEOUT_S,
    consumer,
    create_topic,
    poll_messages,
    poll_until,
    produce,
    read_all,
    topic_exists,
)
from support.clients.wire import WireClient
from support.servers.cluster import Cluster


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_each_codec_come_back(cluster: Cluster, unique_name: str, codec: str) -> None:
    # given
    topic = create_topic(cluster.bootstrap, unique_name)
    values = [f"{number} bottles of beer on the wall ".encode() * 5 for number in range(500)]
    # when
    produce(cluster.bootstrap, topic, ({"value": value} for value in values), compression_type=codec)
    # then
    messages = read_all(cluster.bootstrap, topic, len(values), check_crcs=True)
    assert [message.value() for message in messages] == values
    assert [message.offset() for message in messages] == list(range(len(values)))
    # and the client found the broker new enough to compress for
    with WireClient.connect(cluster.bootstrap) as wire:
        assert {header.compression for header, _ in wire.read_batches(topic, 0)} == {Codec[codec.upper()]}


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_of_each_acks_come_back(cluster: Cluster, unique_name: str, acks: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    produce(cluster.bootstrap, topic, ({"value": b"%d" % number} for number in range(100)), acks=acks)
    messages = read_all(cluster.bootstrap, topic, 100)
    assert [int(message.value()) for message in messages] == list(range(100))


def test_keys_values_headers_and_timestamps_are_kept(cluster: Cluster, unique_name: str) -> None:
    # given
    topic = create_topic(cluster.bootstrap, unique_name)
    headers = [("trace", b"\x00\x01"), ("empty", b""), ("null", None), ("trace", b"again")]
    records = [
        {"key": b"key", "value": b"value", "headers": headers, "timestamp": 1_600_000_000_123},
        {"key": None, "value": b"no key", "timestamp": 1_600_000_000_124},
        {"key": b"no value", "value": None, "timestamp": 1_600_000_000_120},
        {"key": b"", "value": b"", "timestamp": 1_600_000_000_125},
        {"key": None, "value": None, "timestamp": 1_600_000_000_126},
    ]
    # when
    produce(cluster.bootstrap, topic, records)
    messages = read_all(cluster.bootstrap, topic, len(records))
    # then
    assert [(m.key(), m.value()) for m in messages] == [(r["key"], r["value"]) for r in records]
    assert [m.timestamp() for m in messages] == [(TIMESTAMP_CREATE_TIME, r["timestamp"]) for r in records]
    assert messages[0].headers() == headers
    assert messages[1].headers() is None


def test_log_append_time_replaces_the_producers_time(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name, config={"message.timestamp.type": "LogAppendTime"})
    before_ms = int(time.time() * 1000)
    produce(cluster.bootstrap, topic, [{"value": b"now", "timestamp": 1_600_000_000_000}])
    kind, timestamp_ms = read_all(cluster.bootstrap, topic, 1)[0].timestamp()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert timestamp_ms >= before_ms


def test_timestamp_too_far_in_the_future_is_refused(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    tomorrow_ms = int((time.time() + 86400) * 1000)
    with pytest.raises(KafkaException) as raised:
        produce(cluster.bootstrap, topic, [{"value": b"early", "timestamp": tomorrow_ms}])
    assert raised.value.args[0].code() == KafkaError.INVALID_TIMESTAMP


def test_idempotent_producer_keeps_order_in_each_partition(cluster: Cluster, unique_name: str) -> None:
    # given
    topic = create_topic(cluster.bootstrap, unique_name, partitions=3)
    records = [{"value": b"%d" % number, "partition": number % 3} for number in range(900)]
    # when: many small requests in flight
    settings = {"enable_idempotence": True, "batch_num_messages": 10, "linger_ms": 0}
    delivered = produce(cluster.bootstrap, topic, records, **settings)
    # then
    messages = read_all(cluster.bootstrap, topic, 900, partitions=[0, 1, 2])
    for partition in range(3):
        of_partition = [m for m in messages if m.partition() == partition]
        assert [int(m.value()) for m in of_partition] == list(range(partition, 900, 3))
        assert [m.offset() for m in of_partition] == list(range(300))
    assert len(delivered) == 900
    with WireClient.connect(cluster.bootstrap) as wire:
        headers = [header for header, _ in wire.read_batches(topic, 0)]
    assert headers[0].producer_id >= 0
    assert headers[0].base_sequence == 0
    assert headers[-1].last_sequence == 299


def test_record_over_max_message_bytes_is_refused(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name, config={"max.message.bytes": "1000"})
    with pytest.raises(KafkaException) as raised:
        produce(cluster.bootstrap, topic, [{"value": b"x" * 2000}])
    assert raised.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    # and smaller records go on
    produce(cluster.bootstrap, topic, [{"value": b"x" * 900}])
    assert read_all(cluster.bootstrap, topic, 1)[0].offset() == 0


def test_large_record_comes_back(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name, config={"max.message.bytes": "12000000"})
    value = bytes(range(256)) * 40_000
    produce(cluster.bootstrap, topic, [{"value": value}], message_max_bytes=12_000_000)
    # librdkafka asks for at most 1 MiB of a partition: the first batch comes whole all the same
    assert read_all(cluster.bootstrap, topic, 1)[0].value() == value


def test_record_without_a_key_is_refused_on_a_compacted_topic(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name, config={"cleanup.policy": "compact"})
    with pytest.raises(KafkaException) as raised:
        produce(cluster.bootstrap, topic, [{"value": b"no key"}])
    assert raised.value.args[0].code() == KafkaError.INVALID_RECORD
    produce(cluster.bootstrap, topic, [{"key": b"k", "value": b"v"}])
    assert read_all(cluster.bootstrap, topic, 1)[0].key() == b"k"


def test_producer_creates_the_topic(cluster: Cluster, unique_name: str) -> None:
    produce(cluster.bootstrap, unique_name, [{"value": b"first"}])
    assert read_all(cluster.bootstrap, unique_name, 1)[0].value() == b"first"


def test_consumer_creates_the_topic_when_it_may(cluster: Cluster, unique_name: str) -> None:
    with consumer(cluster.bootstrap, unique_name, allow_auto_create_topics=True) as client:
        client.assign([TopicPartition(unique_name, 0, 0)])
        poll_until([client], lambda: topic_exists(cluster.bootstrap, unique_name), "the topic exists")
        produce(cluster.bootstrap, unique_name, [{"value": b"first"}])
        assert poll_messages(client, 1)[0].value() == b"first"


def test_unknown_topic_is_an_error_where_the_client_forbids_its_creation(
    cluster: Cluster, unique_name: str
) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    metadata = producer.list_topics(unique_name, timeout=TIMEOUT_S)
    # librdkafka's metadata requests for one topic allow its creation, unless told otherwise by the consumer
    assert unique_name in metadata.topics
    with consumer(cluster.bootstrap, unique_name) as client:
        client.subscribe([f"{unique_name}-not-there"])
        message = client.poll(TIMEOUT_S)
        assert message is not None
        assert message.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_watermarks_follow_the_log(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    with consumer(cluster.bootstrap, unique_name) as client:
        assert client.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S) == (0, 0)
        produce(cluster.bootstrap, topic, ({"value": b"x"} for _ in range(7)))
        assert client.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S) == (0, 7)


def test_offsets_for_times_are_exact(cluster: Cluster, unique_name: str) -> None:
    # given: records of several batches, their times not in order
    topic = create_topic(cluster.bootstrap, unique_name)
    base_ms = 1_700_000_000_000
    for start in range(0, 50, 10):
        times = [base_ms + 1000 * (start + step) for step in (0, 1, 2, 3, 4, 9, 8, 7, 6, 5)]
        produce(cluster.bootstrap, topic, ({"value": b"x", "timestamp": time_ms} for time_ms in times))
    with consumer(cluster.bootstrap, unique_name) as client:

        def first_offset_at(timestamp_ms: int) -> int:
            asked = [TopicPartition(topic, 0, timestamp_ms)]
            return int(client.offsets_for_times(asked, TIMEOUT_S)[0].offset)

        # then: the first record whose time is the given one or later
        assert first_offset_at(base_ms) == 0
        assert first_offset_at(base_ms - 1) == 0
        assert first_offset_at(base_ms + 3_001) == 4
        assert first_offset_at(base_ms + 5_000) == 5
        assert first_offset_at(base_ms + 23_000) == 23
        assert first_offset_at(base_ms + 49_000) == 45
        assert first_offset_at(base_ms + 49_001) == OFFSET_END


def test_seek_moves_back_and_forth(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    produce(cluster.bootstrap, topic, ({"value": b"%d" % number} for number in range(100)))
    with consumer(cluster.bootstrap, unique_name) as client:
        client.assign([TopicPartition(topic, 0, 90)])
        assert [m.offset() for m in poll_messages(client, 3)] == [90, 91, 92]
        client.seek(TopicPartition(topic, 0, 10))
        assert [m.offset() for m in poll_messages(client, 3)] == [10, 11, 12]
        client.seek(TopicPartition(topic, 0, 99))
        assert [m.offset() for m in poll_messages(client, 1)] == [99]


def test_paused_partition_gives_nothing_until_resumed(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name, partitions=2)
    produce(cluster.bootstrap, topic, ({"value": b"x", "partition": n % 2} for n in range(20)))
    with consumer(cluster.bootstrap, unique_name) as client:
        client.assign([TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)])
        client.pause([TopicPartition(topic, 0)])
        assert {m.partition() for m in poll_messages(client, 10)} == {1}
        client.resume([TopicPartition(topic, 0)])
        assert {m.partition() for m in poll_messages(client, 10)} == {0}


@pytest.mark.parametrize("reset", ["earliest", "latest", "error"])
def test_offset_out_of_range_resets_as_told(cluster: Cluster, unique_name: str, reset: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    produce(cluster.bootstrap, topic, [{"value": b"0"}, {"value": b"1"}])
    with consumer(cluster.bootstrap, unique_name, auto_offset_reset=reset) as client:
        client.assign([TopicPartition(topic, 0, 50)])
        if reset == "earliest":
            assert [m.offset() for m in poll_messages(client, 2)] == [0, 1]
        elif reset == "latest":
            _reads_new_records_from(client, cluster, topic, 2)
        else:
            message = client.poll(TIMEOUT_S)
            assert message is not None
            assert message.error().code() == KafkaError._AUTO_OFFSET_RESET


def _reads_new_records_from(client: Consumer, cluster: Cluster, topic: str, offset: int) -> None:
    """New records arrive, from `offset` on, however long the client takes to reset."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        produce(cluster.bootstrap, topic, [{"value": b"new"}])
        message = client.poll(0.5)
        if message is not None:
            assert message.error() is None
            assert message.offset() >= offset
            return
    pytest.fail("the consumer never came to the end of the partition")


def test_read_committed_reads_plain_records(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    produce(cluster.bootstrap, topic, ({"value": b"%d" % n} for n in range(10)), enable_idempotence=True)
    messages = read_all(cluster.bootstrap, topic, 10, isolation_level="read_committed")
    assert [m.offset() for m in messages] == list(range(10))


def test_end_of_partition_is_told(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    produce(cluster.bootstrap, topic, [{"value": b"only"}])
    with consumer(cluster.bootstrap, unique_name, enable_partition_eof=True) as client:
        client.assign([TopicPartition(topic, 0, 0)])
        assert poll_messages(client, 1)[0].value() == b"only"
        message = client.poll(TIMEOUT_S)
        assert message is not None
        assert message.error().code() == KafkaError._PARTITION_EOF
        assert message.offset() == 1


def test_consumer_waits_for_records_that_come_later(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    with consumer(cluster.bootstrap, unique_name, fetch_wait_max_ms=5000) as client:
        client.assign([TopicPartition(topic, 0, 0)])
        assert client.poll(0.3) is None
        # when: the fetch is waiting at the broker
        produce(cluster.bootstrap, topic, [{"value": b"woke you"}])
        # then
        assert poll_messages(client, 1, timeout_s=4)[0].value() == b"woke you"


def test_many_partitions_with_many_records(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name, partitions=20)
    records = ({"key": b"%d" % (n % 100), "value": b"%d" % n} for n in range(20_000))
    produce(cluster.bootstrap, topic, records, enable_idempotence=True)
    messages = read_all(cluster.bootstrap, topic, 20_000, partitions=range(20))
    by_key: dict[bytes, list[int]] = {}
    for message in messages:
        by_key.setdefault(message.key(), []).append(int(message.value()))
    assert len(by_key) == 100
    assert all(values == sorted(values) and len(values) == 200 for values in by_key.values())
