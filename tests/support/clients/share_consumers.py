"""confluent-kafka's share consumers, and the settings of a share group for tests."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from confluent_kafka import ShareConsumer

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from support.clients.wire import WireClient
from support.servers.cluster import Cluster

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
