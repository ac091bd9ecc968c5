"""confluent-kafka's AdminClient: topics, partitions, configurations, offsets, records, groups, the cluster.

A broker of Apache Kafka learns of a change a moment after the controller has answered: tests that read a
change back use `eventually`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from support.clients.confluent import (
    TIMEOUT_S,
    admin_client,
    assigned_partitions,
    consumer,
    create_topic,
    eventually,
    poll_messages,
    poll_until,
    produce,
    topic_exists,
)
from support.servers.cluster import Cluster


@pytest.fixture
def admin(cluster: Cluster) -> AdminClient:
    return admin_client(cluster.bootstrap)


def only(futures: dict[Any, Future[Any]]) -> Any:
    """The result of a request with one future."""
    (future,) = futures.values()
    return future.result(TIMEOUT_S)


def error_of(call: Callable[[], dict[Any, Future[Any]]]) -> int:
    """The error code of a request with one future, which must fail."""
    with pytest.raises(KafkaException) as raised:
        only(call())
    return int(raised.value.args[0].code())


def described_topic(cluster: Cluster, topic: str) -> Any:
    eventually(lambda: topic_exists(cluster.bootstrap, topic), f"{topic} is there")
    return only(admin_client(cluster.bootstrap).describe_topics(TopicCollection([topic])))


def topic_config(admin: AdminClient, topic: str) -> dict[str, ConfigEntry]:
    entries: dict[str, ConfigEntry] = only(
        admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])
    )
    return entries


def config_becomes(admin: AdminClient, topic: str, name: str, value: str) -> None:
    eventually(lambda: topic_config(admin, topic)[name].value == value, f"{name} is {value}")


class TestTopics:
    def test_created_topic_is_described(self, cluster: Cluster, admin: AdminClient, unique_name: str) -> None:
        only(admin.create_topics([NewTopic(unique_name, 3, 1, config={"retention.ms": "1000"})]))
        described = described_topic(cluster, unique_name)
        assert described.name == unique_name
        assert not described.is_internal
        assert [p.id for p in described.partitions] == [0, 1, 2]
        for partition in described.partitions:
            assert partition.leader.id == partition.replicas[0].id == partition.isr[0].id
        assert topic_config(admin, unique_name)["retention.ms"].value == "1000"

    def test_default_partition_count(self, cluster: Cluster, admin: AdminClient, unique_name: str) -> None:
        only(admin.create_topics([NewTopic(unique_name, -1, -1)]))
        assert len(described_topic(cluster, unique_name).partitions) == 1

    def test_validate_only_creates_nothing(
        self, cluster: Cluster, admin: AdminClient, unique_name: str
    ) -> None:
        only(admin.create_topics([NewTopic(unique_name, 3, 1)], validate_only=True))
        assert not topic_exists(cluster.bootstrap, unique_name)

    def test_existing_topic_is_an_error(self, admin: AdminClient, unique_name: str) -> None:
        only(admin.create_topics([NewTopic(unique_name, 1, 1)]))
        code = error_of(lambda: admin.create_topics([NewTopic(unique_name, 1, 1)]))
        assert code == KafkaError.TOPIC_ALREADY_EXISTS

    @pytest.mark.parametrize(
        ("arguments", "code"),
        [
            ({"num_partitions": 1, "replication_factor": 5}, KafkaError.INVALID_REPLICATION_FACTOR),
            ({"num_partitions": 1, "config": {"no.such": "x"}}, KafkaError.INVALID_CONFIG),
            ({"num_partitions": 1, "config": {"retention.ms": "soon"}}, KafkaError.INVALID_CONFIG),
            ({"num_partitions": 2, "replica_assignment": [[1], [99]]}, KafkaError.INVALID_REPLICA_ASSIGNMENT),
        ],
    )
    def test_bad_topic_is_refused(
        self, admin: AdminClient, unique_name: str, arguments: dict[str, Any], code: int
    ) -> None:
        assert error_of(lambda: admin.create_topics([NewTopic(unique_name, **arguments)])) == code

    @pytest.mark.parametrize("name", ["bad name", "x" * 250, ".", "..", "ü"])
    def test_bad_name_is_refused(self, admin: AdminClient, name: str) -> None:
        assert error_of(lambda: admin.create_topics([NewTopic(name, 1, 1)])) == KafkaError.TOPIC_EXCEPTION

    def test_names_that_collide_in_metrics_are_refused(self, admin: AdminClient, unique_name: str) -> None:
        only(admin.create_topics([NewTopic(f"{unique_name}.x", 1, 1)]))
        code = error_of(lambda: admin.create_topics([NewTopic(f"{unique_name}_x", 1, 1)]))
        assert code == KafkaError.TOPIC_EXCEPTION

    def test_deleted_topic_is_gone(self, cluster: Cluster, admin: AdminClient, unique_name: str) -> None:
        create_topic(cluster.bootstrap, unique_name)
        produce(cluster.bootstrap, unique_name, [{"value": b"x"}])
        only(admin.delete_topics([unique_name]))
        eventually(lambda: not topic_exists(cluster.bootstrap, unique_name), "the topic is gone")
        assert error_of(lambda: admin.delete_topics([unique_name])) == KafkaError.UNKNOWN_TOPIC_OR_PART
        code = error_of(lambda: admin.describe_topics(TopicCollection([unique_name])))
        assert code == KafkaError.UNKNOWN_TOPIC_OR_PART

    def test_topic_made_again_is_empty(self, cluster: Cluster, admin: AdminClient, unique_name: str) -> None:
        create_topic(cluster.bootstrap, unique_name)
        produce(cluster.bootstrap, unique_name, [{"value": b"old"}])
        first = only(admin.describe_topics(TopicCollection([unique_name]))).topic_id
        only(admin.delete_topics([unique_name]))
        create_topic(cluster.bootstrap, unique_name)
        second = only(admin.describe_topics(TopicCollection([unique_name]))).topic_id
        assert str(first) != str(second)
        offsets = only(admin.list_offsets({TopicPartition(unique_name, 0): OffsetSpec.latest()}))
        assert offsets.offset == 0

    def test_partitions_grow_and_never_shrink(
        self, cluster: Cluster, admin: AdminClient, unique_name: str
    ) -> None:
        create_topic(cluster.bootstrap, unique_name, partitions=2)
        only(admin.create_partitions([NewPartitions(unique_name, 4)]))
        eventually(lambda: len(described_topic(cluster, unique_name).partitions) == 4, "four partitions")
        for total in (4, 1):
            code = error_of(lambda: admin.create_partitions([NewPartitions(unique_name, total)]))  # noqa: B023
            assert code == KafkaError.INVALID_PARTITIONS
        code = error_of(lambda: admin.create_partitions([NewPartitions(f"{unique_name}-not", 4)]))
        assert code == KafkaError.UNKNOWN_TOPIC_OR_PART
        produce(cluster.bootstrap, unique_name, [{"value": b"x", "partition": 3}])


class TestConfigs:
    def test_topic_defaults_and_their_sources(
        self, cluster: Cluster, admin: AdminClient, unique_name: str
    ) -> None:
        create_topic(cluster.bootstrap, unique_name, config={"segment.bytes": "2000000"})
        config = topic_config(admin, unique_name)
        assert config["segment.bytes"].value == "2000000"
        assert ConfigSource(config["segment.bytes"].source) == ConfigSource.DYNAMIC_TOPIC_CONFIG
        assert not config["segment.bytes"].is_default
        assert config["retention.ms"].value == "604800000"
        assert config["retention.ms"].is_default
        assert config["cleanup.policy"].value == "delete"
        assert config["min.insync.replicas"].value == "1"

    def test_incremental_changes(self, cluster: Cluster, admin: AdminClient, unique_name: str) -> None:
        # given
        create_topic(
            cluster.bootstrap, unique_name, config={"retention.ms": "1000", "max.message.bytes": "99"}
        )

        def change(name: str, value: str | None, operation: AlterConfigOpType) -> dict[Any, Future[Any]]:
            entry = ConfigEntry(name, value, incremental_operation=operation)
            resource = ConfigResource(ResourceType.TOPIC, unique_name, incremental_configs=[entry])
            return admin.incremental_alter_configs([resource])

        # when
        only(change("retention.ms", None, AlterConfigOpType.DELETE))
        only(change("segment.bytes", "1048576", AlterConfigOpType.SET))
        only(change("cleanup.policy", "compact", AlterConfigOpType.APPEND))
        # then
        config_becomes(admin, unique_name, "cleanup.policy", "delete,compact")
        config = topic_config(admin, unique_name)
        assert config["retention.ms"].value == "604800000"
        assert config["segment.bytes"].value == "1048576"
        assert config["max.message.bytes"].value == "99"
        # when
        only(change("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT))
        config_becomes(admin, unique_name, "cleanup.policy", "compact")
        # and bad changes are refused and change nothing
        bad = [("segment.bytes", "-1"), ("no.such.key", "1"), ("cleanup.policy", "sometimes")]
        for name, value in bad:
            code = error_of(lambda: change(name, value, AlterConfigOpType.SET))  # noqa: B023
            assert code == KafkaError.INVALID_CONFIG
        code = error_of(lambda: change("retention.ms", "1", AlterConfigOpType.APPEND))
        assert code == KafkaError.INVALID_CONFIG
        assert topic_config(admin, unique_name)["segment.bytes"].value == "1048576"

    @pytest.mark.filterwarnings("ignore:alter_configs has been deprecated")
    def test_alter_configs_replaces_all(self, cluster: Cluster, admin: AdminClient, unique_name: str) -> None:
        create_topic(cluster.bootstrap, unique_name, config={"retention.ms": "1000"})
        resource = ConfigResource(ResourceType.TOPIC, unique_name, set_config={"segment.bytes": "1048576"})
        only(admin.alter_configs([resource]))
        config_becomes(admin, unique_name, "segment.bytes", "1048576")
        assert topic_config(admin, unique_name)["retention.ms"].is_default

    def test_changed_limit_holds_at_once(
        self, cluster: Cluster, admin: AdminClient, unique_name: str
    ) -> None:
        create_topic(cluster.bootstrap, unique_name)
        produce(cluster.bootstrap, unique_name, [{"value": b"x" * 5000}])
        entry = ConfigEntry("max.message.bytes", "1000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, unique_name, incremental_configs=[entry])
        only(admin.incremental_alter_configs([resource]))
        config_becomes(admin, unique_name, "max.message.bytes", "1000")
        with pytest.raises(KafkaException) as raised:
            produce(cluster.bootstrap, unique_name, [{"value": b"x" * 5000}])
        assert raised.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE

    def test_configs_of_an_unknown_topic(self, admin: AdminClient, unique_name: str) -> None:
        resource = ConfigResource(ResourceType.TOPIC, unique_name)
        code = error_of(lambda: admin.describe_configs([resource]))
        assert code == KafkaError.UNKNOWN_TOPIC_OR_PART

    def test_broker_configs(self, admin: AdminClient) -> None:
        broker_id = next(iter(admin.list_topics(timeout=TIMEOUT_S).brokers))
        resource = ConfigResource(ResourceType.BROKER, str(broker_id))
        config = only(admin.describe_configs([resource]))
        assert config["offsets.topic.num.partitions"].value == "4"
        assert (
            ConfigSource(config["offsets.topic.num.partitions"].source) == ConfigSource.STATIC_BROKER_CONFIG
        )
        assert config["offsets.topic.num.partitions"].is_read_only
        assert config["num.partitions"].value == "1"
        assert config["log.retention.hours"].value == "168"
        assert config["node.id"].value == str(broker_id)

    def test_dynamic_broker_config(self, cluster: Cluster, admin: AdminClient, unique_name: str) -> None:
        create_topic(cluster.bootstrap, unique_name)
        broker_id = next(iter(admin.list_topics(timeout=TIMEOUT_S).brokers))

        def change(operation: AlterConfigOpType, name: str, value: str | None) -> dict[Any, Future[Any]]:
            entry = ConfigEntry(name, value, incremental_operation=operation)
            resource = ConfigResource(ResourceType.BROKER, str(broker_id), incremental_configs=[entry])
            return admin.incremental_alter_configs([resource])

        only(change(AlterConfigOpType.SET, "log.retention.ms", "123456789"))
        try:
            config_becomes(admin, unique_name, "retention.ms", "123456789")
            retention = topic_config(admin, unique_name)["retention.ms"]
            assert ConfigSource(retention.source) == ConfigSource.DYNAMIC_BROKER_CONFIG
        finally:
            only(change(AlterConfigOpType.DELETE, "log.retention.ms", None))
        config_becomes(admin, unique_name, "retention.ms", "604800000")
        # a setting that needs a restart is refused
        code = error_of(lambda: change(AlterConfigOpType.SET, "node.id", "5"))
        assert code in (KafkaError.INVALID_REQUEST, KafkaError.INVALID_CONFIG)


class TestOffsets:
    def test_list_offsets(self, cluster: Cluster, admin: AdminClient, unique_name: str) -> None:
        create_topic(cluster.bootstrap, unique_name)
        times = [1_700_000_000_100, 1_700_000_000_300, 1_700_000_000_200]
        produce(cluster.bootstrap, unique_name, ({"value": b"x", "timestamp": time} for time in times))

        def listed(spec: OffsetSpec) -> tuple[int, int]:
            result = only(admin.list_offsets({TopicPartition(unique_name, 0): spec}))
            return result.offset, result.timestamp

        assert listed(OffsetSpec.earliest()) == (0, -1)
        assert listed(OffsetSpec.latest()) == (3, -1)
        assert listed(OffsetSpec.max_timestamp()) == (1, 1_700_000_000_300)
        assert listed(OffsetSpec.for_timestamp(1_700_000_000_101)) == (1, 1_700_000_000_300)
        assert listed(OffsetSpec.for_timestamp(1_700_000_000_301)) == (-1, -1)

    def test_list_offsets_of_an_empty_partition(
        self, cluster: Cluster, admin: AdminClient, unique_name: str
    ) -> None:
        create_topic(cluster.bootstrap, unique_name)
        partition = TopicPartition(unique_name, 0)
        assert only(admin.list_offsets({partition: OffsetSpec.max_timestamp()})).offset == -1
        committed = IsolationLevel.READ_COMMITTED
        latest = only(admin.list_offsets({partition: OffsetSpec.latest()}, isolation_level=committed))
        assert latest.offset == 0

    def test_delete_records_moves_the_start(
        self, cluster: Cluster, admin: AdminClient, unique_name: str
    ) -> None:
        create_topic(cluster.bootstrap, unique_name)
        produce(cluster.bootstrap, unique_name, ({"value": b"%d" % n} for n in range(10)))
        deleted = only(admin.delete_records([TopicPartition(unique_name, 0, 4)]))
        assert deleted.low_watermark == 4
        with consumer(cluster.bootstrap, unique_name) as client:
            client.assign([TopicPartition(unique_name, 0, 0)])
            assert [m.offset() for m in poll_messages(client, 6)] == list(range(4, 10))
            watermarks = client.get_watermark_offsets(TopicPartition(unique_name, 0), TIMEOUT_S)
            assert watermarks == (4, 10)
        code = error_of(lambda: admin.delete_records([TopicPartition(unique_name, 0, 11)]))
        assert code == KafkaError.OFFSET_OUT_OF_RANGE
        everything = only(admin.delete_records([TopicPartition(unique_name, 0, -1)]))
        assert everything.low_watermark == 10


class TestGroups:
    def test_group_is_listed_and_described(
        self, cluster: Cluster, admin: AdminClient, unique_name: str
    ) -> None:
        topic = create_topic(cluster.bootstrap, unique_name, partitions=2)
        with consumer(cluster.bootstrap, unique_name, client_id="described") as client:
            client.subscribe([topic])
            poll_until([client], lambda: assigned_partitions(client) == {0, 1}, "both partitions")
            listed = admin.list_consumer_groups().result(TIMEOUT_S)
            (mine,) = [group for group in listed.valid if group.group_id == unique_name]
            assert mine.state == ConsumerGroupState.STABLE
            assert not mine.is_simple_consumer_group
            described = only(admin.describe_consumer_groups([unique_name]))
            assert described.partition_assignor == "range"
            assert described.coordinator.id >= 0
            (member,) = described.members
            assert member.client_id == "described"
            assert member.host == "/127.0.0.1"
            assert {p.partition for p in member.assignment.topic_partitions} == {0, 1}
            # a group in use is not deleted
            code = error_of(lambda: admin.delete_consumer_groups([unique_name]))
            assert code == KafkaError.NON_EMPTY_GROUP

    def test_listing_by_state(self, cluster: Cluster, admin: AdminClient, unique_name: str) -> None:
        topic = create_topic(cluster.bootstrap, unique_name)
        with consumer(cluster.bootstrap, unique_name) as client:
            client.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)

        def groups_in(state: ConsumerGroupState) -> set[str]:
            listed = admin.list_consumer_groups(states={state}).result(TIMEOUT_S)
            return {group.group_id for group in listed.valid}

        assert unique_name in groups_in(ConsumerGroupState.EMPTY)
        assert unique_name not in groups_in(ConsumerGroupState.STABLE)

    def test_unknown_group(self, admin: AdminClient, unique_name: str) -> None:
        assert error_of(lambda: admin.delete_consumer_groups([unique_name])) == KafkaError.GROUP_ID_NOT_FOUND

    def test_offsets_are_listed_altered_and_the_group_deleted(
        self, cluster: Cluster, admin: AdminClient, unique_name: str
    ) -> None:
        # given
        topic = create_topic(cluster.bootstrap, unique_name, partitions=2)
        with consumer(cluster.bootstrap, unique_name) as client:
            client.commit(offsets=[TopicPartition(topic, 0, 5, metadata="m")], asynchronous=False)

        def offsets() -> dict[int, int]:
            request = [ConsumerGroupTopicPartitions(unique_name)]
            listed = only(admin.list_consumer_group_offsets(request))
            return {p.partition: p.offset for p in listed.topic_partitions if p.topic == topic}

        assert offsets() == {0: 5}
        # when
        changed = [TopicPartition(topic, 0, 7), TopicPartition(topic, 1, 9)]
        only(admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(unique_name, changed)]))
        # then
        assert offsets() == {0: 7, 1: 9}
        # when
        only(admin.delete_consumer_groups([unique_name]))
        # then
        assert unique_name not in {
            group.group_id for group in admin.list_consumer_groups().result(TIMEOUT_S).valid
        }
        assert offsets() == {}

    def test_offsets_of_a_group_in_use_are_not_altered(
        self, cluster: Cluster, admin: AdminClient, unique_name: str
    ) -> None:
        topic = create_topic(cluster.bootstrap, unique_name)
        with consumer(cluster.bootstrap, unique_name) as client:
            client.subscribe([topic])
            poll_until([client], lambda: assigned_partitions(client) == {0}, "the partition")
            change = [ConsumerGroupTopicPartitions(unique_name, [TopicPartition(topic, 0, 7)])]
            (altered,) = only(admin.alter_consumer_group_offsets(change)).topic_partitions
            assert altered.error.code() == KafkaError.UNKNOWN_MEMBER_ID


def test_cluster_is_described(cluster: Cluster, admin: AdminClient) -> None:
    described = admin.describe_cluster().result(TIMEOUT_S)
    assert len(described.cluster_id) == 22
    host, port = cluster.bootstrap.rsplit(":", 1)
    assert [(node.host, node.port) for node in described.nodes] == [(host, int(port))]
    assert described.controller.id == described.nodes[0].id
    metadata = admin.list_topics(timeout=TIMEOUT_S)
    assert metadata.cluster_id == described.cluster_id
    assert metadata.controller_id == described.controller.id
