"""States of partitions that a user looks for, by the rules of kafka-topics.sh."""

from __future__ import annotations

import pytest

from ottla.client.admin.topic_state import Trouble, has_trouble, replication_factor, topic_replication_factor
from ottla.protocol.messages.metadata_response import MetadataResponsePartition, MetadataResponseTopic

LIVE = {1, 2, 3}


def partition(leader: int, replicas: list[int], isr: list[int]) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        partition_index=0, leader_id=leader, replica_nodes=replicas, isr_nodes=isr
    )


@pytest.mark.parametrize(
    ("leader", "replicas", "isr", "min_isr", "adding", "troubles"),
    [
        (1, [1, 2, 3], [1, 2, 3], 2, (), set()),
        (1, [1, 2, 3], [1, 2, 3], 3, (), {Trouble.AT_MIN_ISR}),
        (1, [1, 2, 3], [1, 2], 2, (), {Trouble.UNDER_REPLICATED, Trouble.AT_MIN_ISR}),
        (1, [1, 2, 3], [1], 2, (), {Trouble.UNDER_REPLICATED, Trouble.UNDER_MIN_ISR}),
        # no leader: under min ISR, whatever is in sync
        (-1, [3], [3], 1, (), {Trouble.UNAVAILABLE, Trouble.UNDER_MIN_ISR, Trouble.AT_MIN_ISR}),
        # a leader that is not alive
        (9, [9], [9], 1, (), {Trouble.UNAVAILABLE, Trouble.AT_MIN_ISR}),
        # a replica that is being added need not be in sync yet
        (1, [1, 2, 3], [1, 2], 1, (3,), set()),
        (1, [1, 2, 3], [1], 0, (3,), {Trouble.UNDER_REPLICATED}),
        (1, [1, 2], [1], 0, (3,), {Trouble.UNDER_REPLICATED}),
    ],
)
def test_the_states_of_a_partition(
    leader: int,
    replicas: list[int],
    isr: list[int],
    min_isr: int,
    adding: tuple[int, ...],
    troubles: set[Trouble],
) -> None:
    one = partition(leader, replicas, isr)
    found = {
        trouble
        for trouble in Trouble
        if has_trouble(one, trouble, live_brokers=LIVE, min_isr=min_isr, adding=adding)
    }
    assert found == troubles


def test_the_replication_factor_of_a_topic_is_that_of_its_first_partition() -> None:
    first, second = partition(1, [1, 2], [1]), partition(1, [1, 2, 3], [1])
    second.partition_index = 1
    topic = MetadataResponseTopic(name="a", partitions=[second, first])
    assert topic_replication_factor(topic) == 2
    assert topic_replication_factor(MetadataResponseTopic(name="a")) == 0
    assert replication_factor(second, (3, 9)) == 2
