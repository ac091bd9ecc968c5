"""The options of Spark's Kafka source that decide how long its consumers wait."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.cluster import KafkaCluster
from ottla.pipeline.query.source import KafkaSource, spark_source_options

WAIT = "kafka.fetch.max.wait.ms"


@pytest.mark.parametrize(
    ("settings", "wait_ms"),
    [
        ({}, "0"),
        ({"flowing": True}, None),
        ({"client_options": {"fetch.wait.max.ms": "30"}}, "30"),
        ({"client_options": {"fetch.wait.max.ms": "30"}, "flowing": True}, "30"),
    ],
    ids=["a-batch", "real-time", "a-batch-as-the-user-says", "real-time-as-the-user-says"],
)
def test_a_task_of_a_batch_does_not_wait_for_records(settings: dict[str, Any], wait_ms: str | None) -> None:
    source = KafkaSource("127.0.0.1:1", ["in"], **settings)
    assert spark_source_options(source, ["in"], KafkaCluster("127.0.0.1:1")).get(WAIT) == wait_ms
