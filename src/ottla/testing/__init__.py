"""Brokers for tests: started in a moment, with their records at hand, and broken on purpose.

    from ottla.testing import running_broker

    with running_broker({"num.partitions": 3}) as broker:
        topic = broker.topic("orders")
        broker.produce(topic, "first", "second", key="k")
        with broker.unreachable():
            ...  # what does your client do now?
        assert [record.text for record in broker.consume(topic)] == ["first", "second"]

`ottla.pytest` has the same as fixtures. Nothing here needs pytest, or a client library.
"""

from __future__ import annotations

from ottla.testing.broker import RunningBroker
from ottla.testing.cluster import RunningCluster
from ottla.testing.errors import KafkaTestError, ServerError
from ottla.testing.kafka import ConsumedRecord, Kafka, ProducedRecord
from ottla.testing.registry import RunningRegistry, running_registry
from ottla.testing.running import running_broker, running_broker_async, running_cluster

__all__ = [
    "ConsumedRecord",
    "Kafka",
    "KafkaTestError",
    "ProducedRecord",
    "RunningBroker",
    "RunningCluster",
    "RunningRegistry",
    "ServerError",
    "running_broker",
    "running_broker_async",
    "running_cluster",
    "running_registry",
]
