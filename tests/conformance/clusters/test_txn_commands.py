"""`ottla txn` on a cluster, and beside kafka-transactions.sh."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaException, Producer

from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.record_batch import NewRecord, encode_batch
from support.clients.confluent import create_topic, eventually
from support.clients.named_states import plain_name, seed_of_this_run
from support.clients.ottla_command import done, ottla, refused
from support.clients.wire import WireClient
from support.java.java_tools import run_java
from support.servers.cluster import Cluster

TOOL = "org.apache.kafka.tools.TransactionsCommand"


def tool(cluster: Cluster, *words: str) -> list[list[str]]:
    """The rows of the table that kafka-transactions.sh prints."""
    run = run_java(TOOL, "--bootstrap-server", cluster.bootstrap, *words)
    assert run.returncode == 0, run
    return [line.split("\t") for line in map(str.strip, run.stdout.splitlines()[1:]) if line]


def cells(rows: list[list[str]]) -> list[list[str]]:
    return sorted([cell.strip() for cell in row if cell.strip()] for row in rows)


@dataclass(frozen=True, slots=True)
class OpenTransactions:
    """A topic, and transactions that are open in it: transactional id -> its producer."""

    topic: str
    producers: dict[str, Producer]


@pytest.fixture(scope="module")
def open_transactions(cluster: Cluster) -> Iterator[OpenTransactions]:
    draw = random.Random(seed_of_this_run())
    topic = create_topic(cluster.bootstrap, f"t-{plain_name()}", 3)
    producers = {}
    for number in range(3):
        name = f"{number}-{plain_name()}"
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": name})
        producer.init_transactions(30)
        producer.begin_transaction()
        for partition in draw.sample(range(3), draw.randint(1, 3)):
            producer.produce(topic, b"v", partition=partition)
        producer.flush(30)
        producers[name] = producer
    yield OpenTransactions(topic, producers)
    for producer in producers.values():
        producer.purge()


@pytest.mark.java
def test_listing_and_describing_are_those_of_the_tool(
    cluster: Cluster, open_transactions: OpenTransactions
) -> None:
    at = cluster.bootstrap
    ours = done(at, "txn", "list")
    rows = [
        [row["transactional_id"], str(row["coordinator"]), str(row["producer_id"]), row["state"]]
        for row in ours
    ]
    assert sorted(rows) == cells(tool(cluster, "list"))
    names = list(open_transactions.producers)
    described = {row["transactional_id"]: row for row in done(at, "txn", "describe", *names)}
    for name in names:
        (said,) = tool(cluster, "describe", "--transactional-id", name)
        row = described[name]
        places = sorted(f"{place['topic']}-{place['partition']}" for place in row["partitions"])
        words = [cell.strip() for cell in said]
        assert words[:7] == [
            str(row["coordinator"]),
            name,
            str(row["producer_id"]),
            str(row["producer_epoch"]),
            row["state"],
            str(row["timeout_ms"]),
            str(row["start_ms"]),
        ]
        assert sorted(words[8].split(",")) == places
        assert row["duration_ms"] >= 0
    for partition in range(3):
        place = ("--topic", open_transactions.topic, "--partition", str(partition))
        rows = [
            [
                str(-1 if row[key] is None else row[key])
                for key in ("producer_id", "producer_epoch", "coordinator_epoch", "last_sequence")
            ]
            + [str(row["last_timestamp_ms"])]
            + ["None" if row["txn_start_offset"] is None else str(row["txn_start_offset"])]
            for row in done(at, "txn", "describe-producers", *place)
        ]
        assert sorted(rows) == cells(tool(cluster, "describe-producers", *place))


def test_listings_are_filtered(cluster: Cluster, open_transactions: OpenTransactions) -> None:
    at, names = cluster.bootstrap, sorted(open_transactions.producers)
    by_name = {row["transactional_id"]: row for row in done(at, "txn", "list", "--state", "ongoing")}
    assert set(names) <= by_name.keys()
    first = by_name[names[0]]
    (row,) = done(at, "txn", "list", "--producer-id", str(first["producer_id"]))
    assert row == first
    assert done(at, "txn", "list", "--state", "prepareabort") == []
    # Longer than since 1970, for a transaction that never began has a start of -1, in Apache Kafka too.
    assert done(at, "txn", "list", "--longer-than", str(10**15)) == []
    (row,) = done(at, "txn", "list", "--regex", names[1].replace(".", "[.]"))
    assert row["transactional_id"] == names[1]
    assert "there is no transaction state NoSuch" in refused(at, "txn", "list", "--state", "NoSuch")
    assert "INVALID_REGULAR_EXPRESSION" in refused(at, "txn", "list", "--regex", "(")


def test_a_transaction_that_is_terminated_is_aborted_and_its_producer_fenced(
    cluster: Cluster, unique_name: str
) -> None:
    at = cluster.bootstrap
    create_topic(at, unique_name)
    producer = Producer({"bootstrap.servers": at, "transactional.id": unique_name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(unique_name, b"v")
    producer.flush(30)
    assert "needs a yes" in refused(at, "txn", "force-terminate", unique_name)
    (ended,) = done(at, "txn", "force-terminate", unique_name, "--yes")
    assert ended["terminated"] is True
    (row,) = done(at, "txn", "describe", unique_name)
    assert (row["state"], row["partitions"], row["start_ms"]) == ("Empty", [], None)
    with pytest.raises(KafkaException, match=r"_FENCED|PRODUCER_FENCED|INVALID_PRODUCER_EPOCH"):
        producer.commit_transaction(10)
    missing = refused(at, "txn", "force-terminate", f"{unique_name}x", "--yes")
    assert "TRANSACTIONAL_ID_NOT_FOUND" in missing
    assert f"{unique_name}x" not in {row["transactional_id"] for row in done(at, "txn", "list")}


# -- transactions that hang ----------------------------------------------------------------------------------

UNVERIFIED = {"transaction.partition.verification.enable": "false"}
"""So that a producer can begin a transaction in a partition without telling its coordinator."""


def hang(bootstrap: str, topic: str, partition: int, producer_id: int) -> None:
    """Begin a transaction that no coordinator knows."""
    records = encode_batch(
        [NewRecord(b"k", b"v", time.time_ns() // 1_000_000)],
        producer_id=producer_id,
        producer_epoch=3,
        base_sequence=0,
        transactional=True,
    )
    data = TopicProduceData(
        name=topic, partition_data=[PartitionProduceData(index=partition, records=records)]
    )
    request = ProduceRequest(transactional_id="lost", acks=-1, timeout_ms=10_000, topic_data=[data])
    with WireClient.connect(bootstrap) as wire:
        answer = wire.call(request, 9)
        assert answer.responses[0].partition_responses[0].error_code == 0, answer


@pytest.mark.java
@pytest.mark.long
def test_hanging_transactions_are_found_and_aborted(
    start_own: object, cluster: Cluster, unique_name: str
) -> None:
    with start_own(settings=UNVERIFIED) as own:  # type: ignore[operator]
        at = own.bootstrap
        create_topic(at, unique_name, 3)
        living = Producer({"bootstrap.servers": at, "transactional.id": "living"})
        living.init_transactions(30)
        living.begin_transaction()
        living.produce(unique_name, b"v", partition=0)
        living.flush(30)
        for partition, producer_id in ((0, 71_001), (1, 71_002), (2, 71_003), (2, 71_004)):
            hang(at, unique_name, partition, producer_id)

        def found(*words: str) -> list[tuple[int, int, int]]:
            rows = done(at, "txn", "find-hanging", "--max-timeout", "0", *words)
            return [(row["partition"], row["producer_id"], row["txn_start_offset"]) for row in rows]

        hanging = [(0, 71_001, 1), (1, 71_002, 0), (2, 71_003, 0), (2, 71_004, 1)]
        eventually(lambda: found() == hanging, "all that hang are found, and the living one is not")
        assert found("--topic", unique_name, "--partition", "2") == hanging[2:]
        assert done(at, "txn", "find-hanging") == [], "none is older than a quarter of an hour"
        said = tool(own, "find-hanging", "--topic", unique_name, "--max-transaction-timeout", "0")
        assert sorted((int(row[1]), int(row[2]), int(row[5])) for row in said) == hanging

        place = ("--topic", unique_name, "--partition", "1")
        assert "open ones begin at 0" in refused(at, "txn", "abort", *place, "--start-offset", "5", "--yes")
        done(at, "txn", "abort", *place, "--start-offset", "0", "--yes")
        assert found() == [hanging[0], *hanging[2:]]
        assert len(done(at, "txn", "abort", "--hanging", "--max-timeout", "0", "--yes")) == 3
        assert found() == []
        run = ottla(at, "txn", "abort", "--hanging", "--max-timeout", "0", "--yes")
        assert (run.code, run.err) == (0, "there is no hanging transaction\n")
        said = tool(own, "find-hanging", "--topic", unique_name, "--max-transaction-timeout", "0")
        assert said == []
        # the living one is as it was
        living.commit_transaction(30)


@pytest.mark.parametrize(
    "words",
    [
        ["abort", "--start-offset", "4"],
        ["abort", "--topic", "t", "--partition", "0"],
        ["abort", "--topic", "t", "--partition", "0", "--producer-id", "1"],
        ["abort", "--hanging", "--start-offset", "3"],
        ["describe"],
        ["describe-producers", "--topic", "t"],
    ],
)
def test_words_that_make_no_sense_are_refused(cluster: Cluster, words: list[str]) -> None:
    run = ottla(cluster.bootstrap, "txn", *words)
    assert run.code == 2 or "does not exist" in run.err, run
