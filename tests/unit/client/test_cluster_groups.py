"""Offsets of groups through KafkaCluster, where the coordinator is not ready yet."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from ottla.client import answers, offsets
from ottla.client.cluster import KafkaCluster
from ottla.client.errors import ClusterError
from ottla.client.offsets import CommittedOffset


class _Coordinator:
    """A consumer's view of one that answers with errors first, then with an offset."""

    def __init__(self, errors: list[int]) -> None:
        self.errors = errors
        self.asked = 0
        self.closed = False

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        self.asked += 1
        if self.errors:
            raise KafkaException(KafkaError(self.errors.pop(0)))
        return [TopicPartition("orders", 0, 7, metadata="m")]

    def close(self) -> None:
        self.closed = True


def _cluster(monkeypatch: pytest.MonkeyPatch, coordinator: _Coordinator) -> KafkaCluster:
    cluster = KafkaCluster("127.0.0.1:1")
    monkeypatch.setattr(offsets, "Consumer", lambda options: coordinator)
    monkeypatch.setattr(cluster, "partitions", lambda topic: [0])
    return cluster


def test_a_coordinator_that_starts_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = _Coordinator([KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR])
    cluster = _cluster(monkeypatch, coordinator)
    assert cluster.commits("g", "orders") == {0: CommittedOffset(7, "m")}
    assert coordinator.asked == 3 and coordinator.closed


def test_what_does_not_pass_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = _Coordinator([KafkaError.GROUP_AUTHORIZATION_FAILED])
    with pytest.raises(ClusterError, match="cannot read the offsets of group g"):
        _cluster(monkeypatch, coordinator).commits("g", "orders")
    assert coordinator.asked == 1


def test_a_coordinator_that_never_starts_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "REQUEST_TIMEOUT_SECONDS", 0.0)
    coordinator = _Coordinator([KafkaError.COORDINATOR_LOAD_IN_PROGRESS] * 2)
    with pytest.raises(ClusterError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        _cluster(monkeypatch, coordinator).commits("g", "orders")
