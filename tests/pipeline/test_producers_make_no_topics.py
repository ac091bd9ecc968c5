"""A deleted topic of the pipeline is not created again by one of the pipeline's producers."""

from __future__ import annotations

from confluent_kafka import Producer

from ottla.client.cluster import KafkaCluster
from support.servers.cluster import Cluster


def test_a_producer_asks_for_its_topic_and_makes_none(cluster: Cluster, unique_name: str) -> None:
    known = KafkaCluster(cluster.bootstrap)
    problems: list[object] = []
    producer = Producer({**known.producer_options(), "message.timeout.ms": 1_500, "linger.ms": 0})
    producer.produce(unique_name, b"x", on_delivery=lambda problem, _: problems.append(problem))
    assert producer.flush(10) == 0
    assert len(problems) == 1 and problems[0] is not None
    assert known.missing_topics([unique_name]) == [unique_name]
