"""`ottla.testing.running_cluster`: three brokers, of which each may be broken."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from ottla.testing import KafkaTestError, RunningCluster, running_cluster

TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def three() -> Iterator[RunningCluster]:
    with running_cluster(3) as running:
        yield running


@pytest.mark.long
def test_a_topic_has_three_replicas_and_survives_the_death_of_its_leader(three: RunningCluster) -> None:
    # given
    topic = three.topic(config={"min.insync.replicas": 2})
    three.produce(topic, "before")
    assert three.in_sync(topic) == [1, 2, 3]
    leader = three.leader(topic)
    # when
    leader.kill()
    # then another one leads, and records are written
    three.produce(topic, "meanwhile", timeout_seconds=TIMEOUT_S)
    assert three.leader(topic) is not leader
    assert len(three.in_sync(topic)) == 2
    # and it comes back with all of them
    three.heal()
    assert three.in_sync(topic) == [1, 2, 3]
    assert [each.text for each in three.consume(topic)] == ["before", "meanwhile"]


@pytest.mark.long
def test_a_client_of_a_paused_leader_goes_to_the_next(three: RunningCluster) -> None:
    topic = three.topic()
    leader = three.leader(topic)
    producer = Producer({"bootstrap.servers": three.bootstrap, "socket.timeout.ms": 1_000})
    with leader.paused():
        producer.produce(topic, "a")
        assert producer.flush(TIMEOUT_S) == 0
    three.heal()
    # the paused one may have got the record, too, and lost it with its leadership
    assert [each.text for each in three.consume(topic)] == ["a"]


def test_a_broker_that_clients_cannot_reach_still_follows(three: RunningCluster) -> None:
    # given a partition that the unreachable broker does not lead
    topic = three.topic(partitions=3)
    leaders = {index: three.leader(topic, index) for index in range(3)}
    cut_off = three.broker(2)
    (partition, *_) = (index for index, leader in leaders.items() if leader is not cut_off)
    # when
    with cut_off.unreachable():
        direct = leaders[partition]
        produced = direct_produce(direct.bootstrap, topic, partition)
        assert produced == 0
        # then it is in sync all the same: brokers reach each other beside the proxy
        assert three.in_sync(topic, partition) == [1, 2, 3]


def direct_produce(bootstrap: str, topic: str, partition: int) -> int:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, "a", partition=partition)
    return producer.flush(TIMEOUT_S)


@pytest.mark.long
def test_all_stop_and_start_again_with_their_records(three: RunningCluster) -> None:
    topic = three.topic()
    three.produce(topic, "a")
    three.stop()
    assert not any(broker.running for broker in three)
    with pytest.raises(KafkaTestError, match="refused"):
        three.consume(topic, timeout_seconds=0.2)
    three.start()
    three.heal()
    assert [each.text for each in three.consume(topic)] == ["a"]


def test_a_size_that_cannot_be_is_refused(three: RunningCluster) -> None:
    with pytest.raises(ValueError, match="1 to 9 brokers, not 0"), running_cluster(0):
        pass
    with pytest.raises(KeyError, match="brokers 1 to 3, not 4"):
        three.broker(4)
