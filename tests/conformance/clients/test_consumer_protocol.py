"""confluent-kafka consumes with KIP-848's protocol: members, static members, expressions, migration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, TopicPartition
from confluent_kafka.admin import NewPartitions

from support.clients.confluent import (
    TIMEOUT_S,
    admin_client,
    assigned_partitions,
    consumer,
    create_topic,
    dotted,
    eventually,
    poll_messages,
    poll_until,
    produce,
)
from support.servers.cluster import Cluster


@contextmanager
def member(cluster: Cluster, group: str, **settings: object) -> Iterator[Consumer]:
    """A consumer of the new protocol, in which the broker sets sessions and heartbeats."""
    client = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            "topic.metadata.refresh.interval.ms": 500,
            **dotted(settings),
        }
    )
    try:
        yield client
    finally:
        client.close()


def shared_evenly(clients: Sequence[Consumer], partitions: int) -> bool:
    """Every partition has exactly one owner, and no owner has two more than another."""
    owned = [assigned_partitions(client) for client in clients]
    together = Counter(partition for partitions_of_one in owned for partition in partitions_of_one)
    sizes = [len(partitions_of_one) for partitions_of_one in owned]
    return together == Counter(range(partitions)) and max(sizes) - min(sizes) <= 1


def describe(cluster: Cluster, group: str):  # type: ignore[no-untyped-def]
    return admin_client(cluster.bootstrap).describe_consumer_groups([group])[group].result(TIMEOUT_S)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_share_the_partitions_and_take_over(
    cluster: Cluster, unique_name: str, assignor: str
) -> None:
    # given: one member owns all
    topic = create_topic(cluster.bootstrap, unique_name, partitions=6)
    settings = {"group_remote_assignor": assignor}
    with ExitStack() as stack:
        clients = [stack.enter_context(member(cluster, unique_name, **settings))]
        clients[0].subscribe([topic])
        poll_until(clients, lambda: shared_evenly(clients, 6), "one member owns six partitions")
        # when: two more join
        for _ in range(2):
            clients.append(stack.enter_context(member(cluster, unique_name, **settings)))
            clients[-1].subscribe([topic])
        poll_until(clients, lambda: shared_evenly(clients, 6), "three members own two partitions each")
        # then: the group says so too
        eventually(
            lambda: describe(cluster, unique_name).state == ConsumerGroupState.STABLE, "the group is stable"
        )
        group = describe(cluster, unique_name)
        assert group.partition_assignor == assignor
        assert group.type == ConsumerGroupType.CONSUMER
        assert sorted(len(m.assignment.topic_partitions) for m in group.members) == [2, 2, 2]
        # when: one leaves
        clients.pop(0).close()
        # then
        poll_until(clients, lambda: shared_evenly(clients, 6), "two members own three partitions each")


def test_offsets_are_committed_and_gone_on_from(cluster: Cluster, unique_name: str) -> None:
    # given: a consumer read and committed
    topic = create_topic(cluster.bootstrap, unique_name, partitions=2)
    produce(cluster.bootstrap, topic, [{"value": str(n), "partition": n % 2} for n in range(20)])
    with member(cluster, unique_name, enable_auto_commit=False) as first:
        first.subscribe([topic])
        assert len(poll_messages(first, 20)) == 20
        first.commit(asynchronous=False)
    produce(cluster.bootstrap, topic, [{"value": "new", "partition": 0}])
    # when: another one of the group reads
    with member(cluster, unique_name) as second:
        second.subscribe([topic])
        read = poll_messages(second, 1)
        # then: it sees only what is new
        assert [message.value() for message in read] == [b"new"]
        committed = second.committed([TopicPartition(topic, 1)], timeout=TIMEOUT_S)
        assert committed[0].offset == 10


def test_new_partitions_are_assigned(cluster: Cluster, unique_name: str) -> None:
    # given
    topic = create_topic(cluster.bootstrap, unique_name, partitions=2)
    with member(cluster, unique_name) as client:
        client.subscribe([topic])
        poll_until([client], lambda: assigned_partitions(client) == {0, 1}, "both partitions")
        # when
        admin_client(cluster.bootstrap).create_partitions([NewPartitions(topic, 5)])[topic].result(TIMEOUT_S)
        # then
        poll_until([client], lambda: assigned_partitions(client) == set(range(5)), "the new partitions too")


def test_a_static_member_comes_back_to_its_partitions(cluster: Cluster, unique_name: str) -> None:
    # given: two static members
    topic = create_topic(cluster.bootstrap, unique_name, partitions=4)
    with ExitStack() as stack:
        stays = stack.enter_context(member(cluster, unique_name, group_instance_id="a"))
        goes = stack.enter_context(member(cluster, unique_name, group_instance_id="b"))
        both = [stays, goes]
        for client in both:
            client.subscribe([topic])
        poll_until(both, lambda: shared_evenly(both, 4), "two partitions each")
        had = assigned_partitions(goes)
        # when: one restarts
        goes.close()
        with member(cluster, unique_name, group_instance_id="b") as back:
            back.subscribe([topic])
            # then: it has the same partitions, and the other one was not disturbed
            poll_until([stays, back], lambda: assigned_partitions(back) == had, "the same partitions")
            assert assigned_partitions(stays) == set(range(4)) - had


def test_a_regular_expression_names_topics_of_now_and_later(cluster: Cluster, unique_name: str) -> None:
    # given
    first = create_topic(cluster.bootstrap, f"{unique_name}-x1")
    create_topic(cluster.bootstrap, f"{unique_name}-y1")
    with member(cluster, unique_name) as client:
        # when
        client.subscribe([f"^{unique_name}-x[0-9]+"])

        def topics() -> set[str]:
            return {partition.topic for partition in client.assignment()}

        # then
        poll_until([client], lambda: topics() == {first}, "the topic that fits")


def test_groups_are_listed_and_deleted(cluster: Cluster, unique_name: str) -> None:
    # given: a group with a member
    topic = create_topic(cluster.bootstrap, unique_name)
    admin = admin_client(cluster.bootstrap)

    def listed() -> list[tuple[str, ConsumerGroupState]]:
        groups = admin.list_consumer_groups(types={ConsumerGroupType.CONSUMER}).result(TIMEOUT_S).valid
        return [(group.group_id, group.state) for group in groups if group.group_id == unique_name]

    with member(cluster, unique_name) as client:
        client.subscribe([topic])
        poll_until([client], lambda: assigned_partitions(client) == {0}, "the partition")
        # then
        eventually(lambda: listed() == [(unique_name, ConsumerGroupState.STABLE)], "it is listed as stable")
    eventually(lambda: listed() == [(unique_name, ConsumerGroupState.EMPTY)], "it is listed as empty")
    # when
    admin.delete_consumer_groups([unique_name])[unique_name].result(TIMEOUT_S)
    # then
    assert listed() == []


def test_classic_members_are_upgraded_one_by_one(cluster: Cluster, unique_name: str) -> None:
    # given: a classic group of two
    topic = create_topic(cluster.bootstrap, unique_name, partitions=4)
    with ExitStack() as stack:
        classic = [
            stack.enter_context(
                consumer(cluster.bootstrap, unique_name, partition_assignment_strategy="range")
            )
            for _ in range(2)
        ]
        for client in classic:
            client.subscribe([topic])
        poll_until(classic, lambda: shared_evenly(classic, 4), "two partitions each")
        # when: one restarts with the new protocol
        classic.pop().close()
        new = stack.enter_context(member(cluster, unique_name))
        new.subscribe([topic])
        # then: both read, in a group of the new type
        poll_until([*classic, new], lambda: shared_evenly([*classic, new], 4), "two partitions each again")
        assert describe(cluster, unique_name).type == ConsumerGroupType.CONSUMER
        # when: the other one does too
        classic.pop().close()
        newer = stack.enter_context(member(cluster, unique_name))
        newer.subscribe([topic])
        # then
        poll_until([new, newer], lambda: shared_evenly([new, newer], 4), "two partitions each, all new")


def test_the_last_new_member_leaves_a_classic_group(cluster: Cluster, unique_name: str) -> None:
    # given: one member of each protocol
    topic = create_topic(cluster.bootstrap, unique_name, partitions=4)
    with ExitStack() as stack:
        new = stack.enter_context(member(cluster, unique_name))
        new.subscribe([topic])
        poll_until([new], lambda: shared_evenly([new], 4), "all partitions")
        classic = stack.enter_context(
            consumer(cluster.bootstrap, unique_name, partition_assignment_strategy="range")
        )
        classic.subscribe([topic])
        poll_until([classic, new], lambda: shared_evenly([classic, new], 4), "two partitions each")
        # when
        new.close()
        # then: a classic group of one
        poll_until([classic], lambda: shared_evenly([classic], 4), "all partitions")
        assert describe(cluster, unique_name).type == ConsumerGroupType.CLASSIC


StartOwn = Callable[..., AbstractContextManager[Cluster]]


def test_a_live_group_survives_a_restart_of_the_broker(start_own: StartOwn, unique_name: str) -> None:
    # given: two members that read
    with start_own() as broker, ExitStack() as stack:
        topic = create_topic(broker.bootstrap, unique_name, partitions=4)
        clients = [stack.enter_context(member(broker, unique_name)) for _ in range(2)]
        for client in clients:
            client.subscribe([topic])
        poll_until(clients, lambda: shared_evenly(clients, 4), "two partitions each")
        # when
        broker.restart()
        # then: they go on where they were
        produce(broker.bootstrap, topic, [{"value": "x", "partition": n} for n in range(4)])
        read: list[int] = []

        def all_read() -> bool:
            for client in clients:
                message = client.poll(0.05)
                if message is not None and not message.error():
                    read.append(message.partition())
            return sorted(read) == [0, 1, 2, 3]

        eventually(all_read, "a record of each partition", 40)
        assert shared_evenly(clients, 4)
