"""Replicas are spread evenly, over brokers and over racks, for any cluster."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ottla.core.decisions.placement import place_replicas
from support.core.metadata import SeededRandomness, image_with_brokers


@given(
    broker_count=st.integers(1, 12),
    partition_count=st.integers(1, 60),
    factor=st.integers(1, 12),
    seed=st.integers(0, 1000),
)
def test_brokers_lead_equally_often(broker_count: int, partition_count: int, factor: int, seed: int) -> None:
    factor = min(factor, broker_count)
    brokers = list(image_with_brokers(range(broker_count)).brokers.values())
    placed = place_replicas(brokers, partition_count, factor, SeededRandomness(seed))
    assert len(placed) == partition_count
    for replicas in placed:
        assert len(set(replicas)) == factor
    led = Counter(replicas[0] for replicas in placed)
    counts = [led[broker.broker_id] for broker in brokers]
    assert max(counts) - min(counts) <= 1


@given(
    rack_count=st.integers(1, 5),
    brokers_a_rack=st.integers(1, 4),
    rounds=st.integers(1, 4),
    factor=st.integers(1, 8),
    seed=st.integers(0, 1000),
)
def test_racks_share_a_partitions_replicas(
    rack_count: int, brokers_a_rack: int, rounds: int, factor: int, seed: int
) -> None:
    count = rack_count * brokers_a_rack
    factor = min(factor, count)
    racks = [f"rack-{broker % rack_count}" for broker in range(count)]
    image = image_with_brokers(range(count), racks)
    placed = place_replicas(list(image.brokers.values()), rounds * count, factor, SeededRandomness(seed))
    for replicas in placed:
        assert len(set(replicas)) == factor
        in_rack = Counter(image.brokers[replica].rack for replica in replicas)
        assert len(in_rack) == min(rack_count, factor)
    led = Counter(image.brokers[replicas[0]].rack for replicas in placed)
    assert max(led.values()) - min(led.values()) <= 1
