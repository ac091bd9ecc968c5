"""Share groups through confluent-kafka's ShareConsumer (librdkafka)."""

from __future__ import annotations

from collections import Counter

from confluent_kafka import AcknowledgeType, ShareConsumer

from support.clients.confluent import create_topic, produce
from support.clients.share_consumers import poll_until, read_from_the_beginning, share_consumer
from support.servers.cluster import Cluster


def test_two_consumers_share_a_partition(cluster: Cluster, unique_name: str) -> None:
    # given
    topic = group = unique_name
    create_topic(cluster.bootstrap, topic, partitions=1)
    read_from_the_beginning(cluster, group)
    produce(cluster.bootstrap, topic, [{"value": f"value {number}"} for number in range(100)])
    seen: Counter[bytes] = Counter()
    # when
    with share_consumer(cluster, group, topic) as one, share_consumer(cluster, group, topic) as other:

        def poll(client: ShareConsumer) -> None:
            for message in client.poll(0.5):
                assert message.error() is None
                seen[message.value()] += 1

        poll_until(lambda: len(seen) == 100, lambda: poll(one), lambda: poll(other))
    # then: every record went to one of them
    assert seen == Counter(f"value {number}".encode() for number in range(100))


def test_a_released_record_comes_again_and_a_rejected_one_does_not(
    cluster: Cluster, unique_name: str
) -> None:
    # given
    topic = group = unique_name
    create_topic(cluster.bootstrap, topic, partitions=1)
    read_from_the_beginning(cluster, group)
    produce(cluster.bootstrap, topic, [{"value": value} for value in ("accept", "release", "reject")])
    deliveries: Counter[bytes] = Counter()
    # when
    with share_consumer(cluster, group, topic, share_acknowledgement_mode="explicit") as client:

        def poll() -> None:
            for message in client.poll(0.5):
                deliveries[message.value()] += 1
                again = deliveries[message.value()] > 1
                kind = {b"reject": AcknowledgeType.REJECT, b"release": AcknowledgeType.RELEASE}.get(
                    message.value(), AcknowledgeType.ACCEPT
                )
                client.acknowledge(message, AcknowledgeType.ACCEPT if again else kind)
            client.commit_sync(10.0)

        poll_until(lambda: deliveries[b"release"] == 2, poll)
        produce(cluster.bootstrap, topic, [{"value": "last"}])
        poll_until(lambda: deliveries[b"last"] == 1, poll)
    # then
    assert deliveries == {b"accept": 1, b"release": 2, b"reject": 1, b"last": 1}
