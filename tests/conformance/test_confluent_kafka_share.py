"""Share groups through confluent-kafka's ShareConsumer (librdkafka)."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator

from confluent_kafka import AcknowledgeType, ShareConsumer

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from support.cluster import Cluster
from support.confluent import create_topic, produce
from support.wire import WireClient

GROUP_RESOURCE = 32
TIMEOUT_S = 60


@contextlib.contextmanager
def share_consumer(cluster: Cluster, group: str, topic: str, **settings: str) -> Iterator[ShareConsumer]:
    config = {"bootstrap.servers": cluster.bootstrap, "group.id": group}
    client = ShareConsumer({**config, **{key.replace("_", "."): value for key, value in settings.items()}})
    try:
        client.subscribe([topic])
        yield client
    finally:
        client.close()


def read_from_the_beginning(cluster: Cluster, group: str) -> None:
    configs = [
        AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest"),
        AlterableConfig(name="share.assignment.interval.ms", config_operation=0, value="0"),
    ]
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=configs)
    with WireClient.connect(cluster.bootstrap) as wire:
        answer = wire.call(IncrementalAlterConfigsRequest(resources=[resource]))
    assert answer.responses[0].error_code == ErrorCode.NONE


def poll_until(condition: Callable[[], bool], *polls: Callable[[], None]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        for poll in polls:
            poll()


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
