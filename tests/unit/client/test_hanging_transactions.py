"""A transaction hangs where no coordinator will write its marker."""

from __future__ import annotations

from ottla.client.cluster_requests import TopicPartition
from ottla.client.errors import ClusterError
from ottla.client.transactions import ActiveProducer, Transaction, hanging_transactions, old_transactions

NOW_MS = 1_700_000_000_000
A, B = TopicPartition("a", 0), TopicPartition("b", 3)
OLD_MS = NOW_MS - 1_000_000


def producer(
    partition: TopicPartition, producer_id: int, last_ms: int = OLD_MS, start: int = 7
) -> ActiveProducer:
    return ActiveProducer(partition, producer_id, 0, 5, last_ms, -1, start)


def transaction(name: str, producer_id: int, *partitions: TopicPartition) -> Transaction:
    return Transaction(name, 1, producer_id, 0, "Ongoing", 60_000, OLD_MS, partitions)


def test_only_open_transactions_that_are_silent_for_too_long_are_looked_at() -> None:
    silent, young, none_open = producer(A, 1), producer(A, 2, NOW_MS - 900_000), producer(A, 3, start=-1)
    assert old_transactions([silent, young, none_open], NOW_MS, 900_000) == [silent]


def test_a_transaction_hangs_where_its_coordinator_does_not_know_the_partition() -> None:
    known, other_partition, no_id, gone = (
        producer(A, 1),
        producer(B, 1),
        producer(A, 2),
        producer(B, 3),
    )
    described = {"one": transaction("one", 1, A), "three": ClusterError("not found")}
    ids = {1: "one", 3: "three"}
    candidates = [known, other_partition, no_id, gone]
    assert hanging_transactions(candidates, ids, described) == [no_id, other_partition, gone]
