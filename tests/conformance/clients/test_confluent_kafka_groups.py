"""confluent-kafka (librdkafka) consumes in classic groups: eager and cooperative, static members, offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupState,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import NewPartitions

from support.clients.confluent import (
    TIMEOUT_S,
    admin_client,
    assigned_partitions,
    consumer,
    create_topic,
    poll_messages,
    poll_until,
    produce,
)
from support.servers.cluster import Cluster


def shared_evenly(clients: Sequence[Consumer], partitions: int) -> bool:
    """Every partition has exactly one owner, and no owner has two more than another."""
    owned = [assigned_partitions(client) for client in clients]
    together = Counter(partition for partitions_of_one in owned for partition in partitions_of_one)
    sizes = [len(partitions_of_one) for partitions_of_one in owned]
    return together == Counter(range(partitions)) and max(sizes) - min(sizes) <= 1


def describe(cluster: Cluster, group: str):  # type: ignore[no-untyped-def]
    return admin_client(cluster.bootstrap).describe_consumer_groups([group])[group].result(TIMEOUT_S)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_members_share_the_partitions_and_take_over(
    cluster: Cluster, unique_name: str, strategy: str
) -> None:
    # given: one member owns all
    topic = create_topic(cluster.bootstrap, unique_name, partitions=6)
    settings = {"partition_assignment_strategy": strategy}
    with ExitStack() as stack:
        clients = [stack.enter_context(consumer(cluster.bootstrap, unique_name, **settings))]
        clients[0].subscribe([topic])
        poll_until(clients, lambda: shared_evenly(clients, 6), "one member owns six partitions")
        # when: two more join
        for _ in range(2):
            clients.append(stack.enter_context(consumer(cluster.bootstrap, unique_name, **settings)))
            clients[-1].subscribe([topic])
        poll_until(clients, lambda: shared_evenly(clients, 6), "three members own two partitions each")
        # then: the group says so too
        group = describe(cluster, unique_name)
        assert group.state == ConsumerGroupState.STABLE
        assert group.partition_assignor == strategy
        assert sorted(len(m.assignment.topic_partitions) for m in group.members) == [2, 2, 2]
        # when: one leaves
        clients.pop(0).close()
        # then
        poll_until(clients, lambda: shared_evenly(clients, 6), "two members own three partitions each")


def test_cooperative_rebalance_revokes_only_partitions_that_move(cluster: Cluster, unique_name: str) -> None:
    # given
    topic = create_topic(cluster.bootstrap, unique_name, partitions=4)
    revoked: list[int] = []
    lost: list[int] = []
    settings = {"partition_assignment_strategy": "cooperative-sticky"}
    with (
        consumer(cluster.bootstrap, unique_name, **settings) as first,
        consumer(cluster.bootstrap, unique_name, **settings) as second,
    ):
        first.subscribe(
            [topic],
            on_revoke=lambda _, partitions: revoked.extend(p.partition for p in partitions),
            on_lost=lambda _, partitions: lost.extend(p.partition for p in partitions),
        )
        poll_until([first], lambda: shared_evenly([first], 4), "one member owns all")
        # when
        second.subscribe([topic])
        poll_until([first, second], lambda: shared_evenly([first, second], 4), "two own two each")
        # then: the first gave up two and kept two all the time
        assert len(revoked) == 2
        assert set(revoked) == assigned_partitions(second)
        assert lost == []


def test_each_record_goes_to_one_member(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name, partitions=4)
    with (
        consumer(cluster.bootstrap, unique_name) as first,
        consumer(cluster.bootstrap, unique_name) as second,
    ):
        clients = [first, second]
        for client in clients:
            client.subscribe([topic])
        poll_until(clients, lambda: shared_evenly(clients, 4), "two own two each")
        # when
        produce(cluster.bootstrap, topic, ({"value": b"%d" % n, "partition": n % 4} for n in range(200)))
        seen = poll_messages(first, 100) + poll_messages(second, 100)
        # then
        assert sorted(int(message.value()) for message in seen) == list(range(200))
        assert first.poll(0.2) is None
        assert second.poll(0.2) is None


def test_group_goes_on_from_its_committed_offsets(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    produce(cluster.bootstrap, topic, ({"value": b"%d" % number} for number in range(20)))
    with consumer(cluster.bootstrap, unique_name) as client:
        client.subscribe([topic])
        message = poll_messages(client, 8)[-1]
        committed = client.commit(message, asynchronous=False)
        assert [(p.offset, p.error) for p in committed] == [(8, None)]
    # when: another member starts, and reads on
    with consumer(cluster.bootstrap, unique_name) as client:
        client.subscribe([topic])
        assert [m.offset() for m in poll_messages(client, 12)] == list(range(8, 20))


def test_automatic_commits_on_close(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    produce(cluster.bootstrap, topic, ({"value": b"%d" % number} for number in range(5)))
    with consumer(cluster.bootstrap, unique_name, enable_auto_commit=True) as client:
        client.subscribe([topic])
        poll_messages(client, 5)
    with consumer(cluster.bootstrap, unique_name) as client:
        assert client.committed([TopicPartition(topic, 0)], TIMEOUT_S)[0].offset == 5


def test_commit_keeps_its_metadata_and_leader_epoch(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name, partitions=2)
    with consumer(cluster.bootstrap, unique_name) as client:
        # a consumer that has not joined may commit while the group is empty
        position = TopicPartition(topic, 0, 42, metadata="note: ü", leader_epoch=0)
        client.commit(offsets=[position], asynchronous=False)
        committed, never = client.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], TIMEOUT_S)
    assert (committed.offset, committed.metadata, committed.leader_epoch) == (42, "note: ü", 0)
    assert never.offset == OFFSET_INVALID


def test_commit_metadata_over_the_limit_is_refused(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    with consumer(cluster.bootstrap, unique_name) as client, pytest.raises(KafkaException) as raised:
        too_long = TopicPartition(topic, 0, 1, metadata="x" * 5000)
        client.commit(offsets=[too_long], asynchronous=False)
    assert raised.value.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE


def test_static_member_comes_back_to_its_partitions_without_a_rebalance(
    cluster: Cluster, unique_name: str
) -> None:
    # given: two static members
    topic = create_topic(cluster.bootstrap, unique_name, partitions=4)
    rebalances: list[str] = []

    def member(name: str, stack: ExitStack) -> Consumer:
        client = stack.enter_context(consumer(cluster.bootstrap, unique_name, group_instance_id=name))
        client.subscribe([topic], on_assign=lambda *_: rebalances.append(name))
        return client

    with ExitStack() as first_stack, ExitStack() as second_stack:
        first, second = member("first", first_stack), member("second", second_stack)
        poll_until([first, second], lambda: shared_evenly([first, second], 4), "two own two each")
        partitions_of_second = assigned_partitions(second)
        # when: one closes (a static member sends no LeaveGroup) and comes back
        second_stack.close()
        rebalances.clear()
        second = member("second", second_stack)
        poll_until([first, second], lambda: bool(assigned_partitions(second)), "second has partitions")
        # then
        assert assigned_partitions(second) == partitions_of_second
        assert rebalances == ["second"]
        group = describe(cluster, unique_name)
        assert {m.group_instance_id for m in group.members} == {"first", "second"}


def test_second_owner_of_an_instance_id_fences_the_first(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    settings = {"group_instance_id": "the-one"}
    with (
        consumer(cluster.bootstrap, unique_name, **settings) as first,
        consumer(cluster.bootstrap, unique_name, **settings) as second,
    ):
        first.subscribe([topic])
        poll_until([first], lambda: bool(assigned_partitions(first)), "first has the partition")
        # when
        second.subscribe([topic])
        poll_until([second], lambda: bool(assigned_partitions(second)), "second has the partition")
        # then
        message = first.poll(TIMEOUT_S)
        assert message is not None
        assert message.error().code() == KafkaError._FATAL
        assert first.consumer_group_metadata() is not None


def test_silent_member_is_replaced_after_its_session_timeout(cluster: Cluster, unique_name: str) -> None:
    # given: a member that stops polling leaves after max.poll.interval.ms
    topic = create_topic(cluster.bootstrap, unique_name)
    settings = {"session_timeout_ms": 1000, "max_poll_interval_ms": 1000}
    with (
        consumer(cluster.bootstrap, unique_name, **settings) as silent,
        consumer(cluster.bootstrap, unique_name) as other,
    ):
        silent.subscribe([topic])
        poll_until([silent], lambda: bool(assigned_partitions(silent)), "silent has the partition")
        other.subscribe([topic])
        # then
        poll_until([other], lambda: bool(assigned_partitions(other)), "other has the partition")


def test_pattern_subscription_finds_topics_made_later(cluster: Cluster, unique_name: str) -> None:
    create_topic(cluster.bootstrap, f"{unique_name}-a")
    with consumer(
        cluster.bootstrap, unique_name, topic_metadata_refresh_interval_ms=200, metadata_max_age_ms=1000
    ) as client:
        client.subscribe([f"^{unique_name}-.*"])
        poll_until([client], lambda: len(client.assignment()) == 1, "the first topic")
        create_topic(cluster.bootstrap, f"{unique_name}-b", partitions=2)
        poll_until([client], lambda: len(client.assignment()) == 3, "both topics")


def test_new_partitions_are_assigned(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    with consumer(
        cluster.bootstrap, unique_name, topic_metadata_refresh_interval_ms=200, metadata_max_age_ms=1000
    ) as client:
        client.subscribe([topic])
        poll_until([client], lambda: assigned_partitions(client) == {0}, "one partition")
        admin_client(cluster.bootstrap).create_partitions([NewPartitions(topic, 3)])[topic].result(TIMEOUT_S)
        poll_until([client], lambda: assigned_partitions(client) == {0, 1, 2}, "three partitions")


def test_members_of_different_protocols_do_not_mix(cluster: Cluster, unique_name: str) -> None:
    topic = create_topic(cluster.bootstrap, unique_name)
    with (
        consumer(cluster.bootstrap, unique_name, partition_assignment_strategy="range") as first,
        consumer(cluster.bootstrap, unique_name, partition_assignment_strategy="roundrobin") as second,
    ):
        first.subscribe([topic])
        poll_until([first], lambda: bool(assigned_partitions(first)), "first has the partition")
        second.subscribe([topic])
        message = second.poll(TIMEOUT_S)
        assert message is not None
        assert message.error().code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL


def test_two_topics_in_one_group(cluster: Cluster, unique_name: str) -> None:
    topics = [create_topic(cluster.bootstrap, f"{unique_name}-{letter}", partitions=2) for letter in "ab"]
    with consumer(cluster.bootstrap, unique_name) as client:
        client.subscribe(topics)
        poll_until([client], lambda: len(client.assignment()) == 4, "four partitions")
        for topic in topics:
            produce(cluster.bootstrap, topic, ({"value": b"x", "partition": n % 2} for n in range(10)))
        assert Counter(m.topic() for m in poll_messages(client, 20)) == {topics[0]: 10, topics[1]: 10}
