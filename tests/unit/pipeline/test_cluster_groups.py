"""Offsets of groups through KafkaCluster, where the coordinator is not ready yet."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from ottla.pipeline import kafka
from ottla.pipeline.kafka import ClusterError, CommittedOffset, KafkaCluster


class _Coordinator:
    """Answers with errors first, then with an offset."""

    def __init__(self, errors: list[int]) -> None:
        self.errors = errors
        self.asked = 0

    def list_consumer_group_offsets(self, requests: list[Any], request_timeout: float) -> dict[str, Any]:
        self.asked += 1
        future: Future[Any] = Future()
        (request,) = requests
        if self.errors:
            future.set_exception(KafkaException(KafkaError(self.errors.pop(0))))
        else:
            found = [TopicPartition("orders", 0, 7, metadata="m")]
            future.set_result(ConsumerGroupTopicPartitions(request.group_id, found))
        return {request.group_id: future}


def _cluster(monkeypatch: pytest.MonkeyPatch, coordinator: _Coordinator) -> KafkaCluster:
    cluster = KafkaCluster("127.0.0.1:1")
    monkeypatch.setattr(cluster, "_admin", coordinator)
    monkeypatch.setattr(cluster, "partitions", lambda topic: [0])
    return cluster


def test_a_coordinator_that_starts_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = _Coordinator([KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR])
    cluster = _cluster(monkeypatch, coordinator)
    assert cluster.commits("g", "orders") == {0: CommittedOffset(7, "m")}
    assert coordinator.asked == 3


def test_what_does_not_pass_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = _Coordinator([KafkaError.GROUP_AUTHORIZATION_FAILED])
    with pytest.raises(ClusterError, match="cannot read the offsets of group g"):
        _cluster(monkeypatch, coordinator).commits("g", "orders")
    assert coordinator.asked == 1


def test_a_coordinator_that_never_starts_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "REQUEST_TIMEOUT_SECONDS", 0.0)
    coordinator = _Coordinator([KafkaError.COORDINATOR_LOAD_IN_PROGRESS] * 2)
    with pytest.raises(ClusterError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        _cluster(monkeypatch, coordinator).commits("g", "orders")
