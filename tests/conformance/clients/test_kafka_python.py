"""kafka-python, the blocking client: records, idempotence, groups, and its wide admin client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, KafkaAdminClient, OffsetSpec
from kafka.errors import (
    InvalidTopicError,
    MessageSizeTooLargeError,
    NonEmptyGroupError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from support.clients.confluent import create_topic
from support.servers.cluster import Cluster

TIMEOUT_S = 20.0


def reader(cluster: Cluster, *topics: str, **settings: Any) -> KafkaConsumer:
    consumer = KafkaConsumer(
        *topics,
        **{
            "bootstrap_servers": cluster.bootstrap,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "session_timeout_ms": 6000,
            "heartbeat_interval_ms": 200,
            "fetch_max_wait_ms": 100,
            **settings,
        },
    )
    # A member that assigns before it knows its topics' partitions joins again once it does. kafka-python
    # 3.0.12 forgets that join if a poll ends between its SyncGroup and the answer: it stays without
    # partitions and sends no heartbeats. So it is to know them before it joins.
    for topic in topics:
        assert consumer.partitions_for_topic(topic)
    return consumer


def writer(cluster: Cluster, **settings: Any) -> KafkaProducer:
    return KafkaProducer(bootstrap_servers=cluster.bootstrap, **settings)


def take(consumer: KafkaConsumer, count: int) -> list[Any]:
    records: list[Any] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(records) < count and time.monotonic() < deadline:
        for of_partition in consumer.poll(timeout_ms=200).values():
            records += of_partition
    assert len(records) == count
    return records


def poll_until(consumers: list[KafkaConsumer], condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {TIMEOUT_S} s"
        for consumer in consumers:
            consumer.poll(timeout_ms=50)


@pytest.mark.parametrize("codec", [None, "gzip"])
@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
def test_records_come_back(cluster: Cluster, unique_name: str, codec: str | None, idempotent: bool) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    values = [f"value {number} ".encode() * 20 for number in range(300)]
    with closing(writer(cluster, compression_type=codec, enable_idempotence=idempotent)) as producer:
        futures = [producer.send(topic, value, key=b"k") for value in values]
        assert [future.get(TIMEOUT_S).offset for future in futures] == list(range(300))
    with closing(reader(cluster, topic)) as consumer:
        records = take(consumer, 300)
    assert [record.value for record in records] == values
    assert [record.offset for record in records] == list(range(300))


def test_headers_timestamps_nulls_and_keys(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    headers = [("a", b"\x00\xff"), ("b", b""), ("a", b"again")]
    with closing(writer(cluster)) as producer:
        producer.send(topic, b"v", key=b"k", timestamp_ms=1_600_000_000_001, headers=headers)
        producer.send(topic, None, key=b"tombstone")
        producer.send(topic, b"no key").get(TIMEOUT_S)
    with closing(reader(cluster, topic)) as consumer:
        first, second, third = take(consumer, 3)
    assert (first.key, first.value, first.timestamp) == (b"k", b"v", 1_600_000_000_001)
    assert list(first.headers) == headers
    assert (second.key, second.value) == (b"tombstone", None)
    assert (third.key, third.value) == (None, b"no key")


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_each_acks(cluster: Cluster, unique_name: str, acks: int | str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    with closing(writer(cluster, acks=acks, enable_idempotence=False)) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number)
        producer.flush(TIMEOUT_S)
    with closing(reader(cluster, topic)) as consumer:
        assert [record.value for record in take(consumer, 10)] == [b"%d" % n for n in range(10)]


def test_record_over_max_message_bytes_is_refused(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name, config={"max.message.bytes": "1000"})
    # kafka-python's idempotent producer takes this error for the end of it
    with closing(writer(cluster, enable_idempotence=False)) as producer:
        with pytest.raises(MessageSizeTooLargeError):
            producer.send(topic, b"x" * 2000).get(TIMEOUT_S)
        assert producer.send(topic, b"x").get(TIMEOUT_S).offset == 0


def test_offsets_and_seeking(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    partition = TopicPartition(topic, 0)
    with closing(writer(cluster)) as producer:
        for number in range(10):
            producer.send(topic, b"x", timestamp_ms=1_700_000_000_000 + number * 1000).get(TIMEOUT_S)
    with closing(reader(cluster)) as consumer:
        consumer.assign([partition])
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 10}
        found = consumer.offsets_for_times({partition: 1_700_000_003_500})
        assert (found[partition].offset, found[partition].timestamp) == (4, 1_700_000_004_000)
        consumer.seek(partition, 7)
        assert [record.offset for record in take(consumer, 3)] == [7, 8, 9]
        consumer.seek_to_beginning(partition)
        assert [record.offset for record in take(consumer, 10)] == list(range(10))
        consumer.seek_to_end(partition)
        assert consumer.position(partition) == 10


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_isolation_levels_read_plain_records(cluster: Cluster, unique_name: str, isolation: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    with closing(writer(cluster)) as producer:
        producer.send(topic, b"plain").get(TIMEOUT_S)
    with closing(reader(cluster, topic, isolation_level=isolation)) as consumer:
        assert [record.value for record in take(consumer, 1)] == [b"plain"]


def test_members_share_the_partitions_and_take_over(
    cluster: Cluster, unique_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(
        "DEBUG", "kafka.coordinator"
    )  # a failure that was seen on a busy machine is to be explained
    topic = create_topic(cluster.bootstrap, unique_name, partitions=4)
    with ExitStack() as stack:
        members = [
            stack.enter_context(closing(reader(cluster, topic, group_id=unique_name))) for _ in range(2)
        ]
        poll_until(members, lambda: [len(member.assignment()) for member in members] == [2, 2])
        members[0].close()
        poll_until(members[1:], lambda: len(members[1].assignment()) == 4)


def test_group_goes_on_from_its_committed_offsets(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    partition = TopicPartition(topic, 0)
    with closing(writer(cluster)) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number)
        producer.flush(TIMEOUT_S)
    with closing(reader(cluster, topic, group_id=unique_name)) as consumer:
        take(consumer, 10)
        consumer.commit({partition: OffsetAndMetadata(4, "four", -1)})
    with closing(reader(cluster, topic, group_id=unique_name)) as consumer:
        assert [record.offset for record in take(consumer, 6)] == list(range(4, 10))
        committed = consumer.committed(partition, metadata=True)
        assert (committed.offset, committed.metadata) == (4, "four")


def test_topic_is_created_by_its_first_use(cluster: Cluster, unique_name: str) -> None:
    with closing(writer(cluster)) as producer:
        assert producer.send(unique_name, b"first").get(TIMEOUT_S).offset == 0


class TestAdmin:
    @pytest.fixture
    def admin(self, cluster: Cluster) -> Iterator[KafkaAdminClient]:
        with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as client:
            yield client

    def test_topics(self, admin: KafkaAdminClient, unique_name: str) -> None:
        new_topic = {unique_name: {"num_partitions": 2, "replication_factor": 1}}
        admin.create_topics(new_topic, wait_for_metadata=True)
        with pytest.raises(TopicAlreadyExistsError):
            admin.create_topics(new_topic)
        with pytest.raises(InvalidTopicError):
            admin.create_topics({"not/a/name": {"num_partitions": 1, "replication_factor": 1}})
        assert unique_name in admin.list_topics()
        admin.create_partitions({unique_name: 3})
        _eventually(lambda: len(admin.describe_topics([unique_name])[0]["partitions"]) == 3)
        described = admin.describe_topic_partitions([unique_name])
        (topic,) = described["topics"]
        assert [p["partition_index"] for p in topic["partitions"]] == [0, 1, 2]
        admin.delete_topics([unique_name])
        _eventually(lambda: unique_name not in admin.list_topics())
        with pytest.raises(UnknownTopicOrPartitionError):
            admin.delete_topics([unique_name])

    def test_configs(self, admin: KafkaAdminClient, unique_name: str) -> None:
        admin.create_topics({unique_name: {"configs": {"retention.ms": "60000"}}}, wait_for_metadata=True)

        def modified() -> dict[str, str]:
            found = admin.describe_configs([ConfigResource("TOPIC", unique_name)])["topic"][unique_name]
            return {name: entry["value"] for name, entry in found.items()}

        assert modified() == {"retention.ms": "60000"}
        admin.alter_configs([ConfigResource("TOPIC", unique_name, {"segment.bytes": "1048576"})])
        _eventually(lambda: modified() == {"retention.ms": "60000", "segment.bytes": "1048576"})
        admin.reset_configs([ConfigResource("TOPIC", unique_name, ["retention.ms"])])
        _eventually(lambda: modified() == {"segment.bytes": "1048576"})

    def test_cluster(self, cluster: Cluster, admin: KafkaAdminClient) -> None:
        described = admin.describe_cluster()
        (broker,) = described["brokers"]
        assert f"{broker['host']}:{broker['port']}" == cluster.bootstrap
        assert described["controller_id"] == broker.get("node_id", broker.get("broker_id"))
        features = admin.describe_features()
        assert "metadata.version" in str(features)
        # Kafka 4.4's brokers, and ottla's, name APIs that kafka-python's table does not have.
        with pytest.raises(ValueError, match="93 is not a valid ApiKey"):
            admin.api_versions()

    def test_log_dirs(self, cluster: Cluster, admin: KafkaAdminClient, unique_name: str) -> None:
        create_topic(cluster.bootstrap, unique_name)
        with closing(writer(cluster)) as producer:
            producer.send(unique_name, b"x" * 1000).get(TIMEOUT_S)
        text = str(admin.describe_log_dirs())
        assert unique_name in text

    def test_offsets_and_records(self, cluster: Cluster, admin: KafkaAdminClient, unique_name: str) -> None:
        create_topic(cluster.bootstrap, unique_name)
        partition = TopicPartition(unique_name, 0)
        with closing(writer(cluster)) as producer:
            for number in range(10):
                producer.send(unique_name, b"x", timestamp_ms=1_700_000_000_000 + number).get(TIMEOUT_S)

        def offset(spec: Any) -> int:
            return int(admin.list_partition_offsets({partition: spec})[partition].offset)

        assert offset(OffsetSpec.EARLIEST) == 0
        assert offset(OffsetSpec.LATEST) == 10
        assert offset(OffsetSpec.MAX_TIMESTAMP) == 9
        admin.delete_records({partition: 3})
        assert offset(OffsetSpec.EARLIEST) == 3

    def test_groups(self, cluster: Cluster, admin: KafkaAdminClient, unique_name: str) -> None:
        # given: a group in use
        topic = create_topic(cluster.bootstrap, unique_name)
        partition = TopicPartition(topic, 0)
        with closing(reader(cluster, topic, group_id=unique_name)) as consumer:
            poll_until([consumer], lambda: bool(consumer.assignment()))
            described = admin.describe_groups([unique_name])[unique_name]
            assert (described["group_state"], described["protocol_type"]) == ("Stable", "consumer")
            assert admin.delete_groups([unique_name])[unique_name] == NonEmptyGroupError.__name__
        # when: it is empty
        _eventually(lambda: admin.describe_groups([unique_name])[unique_name]["group_state"] == "Empty")
        offsets = {partition: OffsetAndMetadata(7, "seven", None)}
        admin.alter_group_offsets(unique_name, offsets)
        assert admin.list_group_offsets(unique_name)[unique_name][partition].offset == 7
        # then
        assert unique_name in {group["group_id"] for group in admin.list_groups(states_filter=["Empty"])}
        admin.delete_group_offsets(unique_name, [partition])
        assert partition not in admin.list_group_offsets(unique_name)[unique_name]
        assert admin.delete_groups([unique_name]) in (
            {unique_name: "OK"},
            {unique_name: "GroupIdNotFoundError"},
        )


def _eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {TIMEOUT_S} s"
        time.sleep(0.02)
