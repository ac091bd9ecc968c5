"""A broker's metrics beside Apache Kafka's: the same names and values for the same load."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer

from ottla.metrics.tables import broker as table
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_cluster_request import DescribeClusterRequest
from support.clients.scrapes import Scrape
from support.clients.wire import WireClient, batch, wait_for
from support.servers.cluster import free_port
from support.servers.kafka_metrics import start_kafka_with_metrics
from support.servers.ottla_broker import OttlaBroker

pytestmark = [pytest.mark.long, pytest.mark.java]

TOPICS = {"orders": 3, "payments": 1}
GROUP = "readers"
PRODUCES = 24 + 7 + 2 + 3 + 2 + 2
#: Two records of one of these are a batch above max.message.bytes.
TOO_LARGE_BYTES = (524_300, 600_000, 2_000_000)
TOPIC_METRICS = "kafka_server_brokertopicmetrics"
REQUEST_BYTES = "kafka_network_requestmetrics_requestbytes"
REQUESTS = "kafka_network_requestmetrics_requests_total"


def load(bootstrap: str) -> None:
    """The same requests for both: batches, a fetch of each partition, errors, a group that commits."""
    with WireClient.connect(bootstrap) as client:
        for topic, partitions in TOPICS.items():
            client.create_topic(topic, partitions)
        for _ in range(4):
            client.call(DescribeClusterRequest())
        for number in range(24):
            assert client.produce("orders", number % 3, batch(number % 5 + 1)).error_code == 0
        for _ in range(7):
            assert client.produce("payments", 0, batch(10, b"v" * 500)).error_code == 0
        for _ in range(2):
            client.produce("payments", 5, batch(1))
        for size in TOO_LARGE_BYTES:
            assert (
                client.produce("payments", 0, batch(2, b"v" * size)).error_code == ErrorCode.MESSAGE_TOO_LARGE
            )
        damaged = bytearray(batch(2))
        damaged[-1] ^= 1
        assert client.produce("orders", 0, bytes(damaged)).error_code == ErrorCode.CORRUPT_MESSAGE
        assert client.produce("orders", 0, batch(1), 5).error_code == ErrorCode.INVALID_REQUIRED_ACKS
        for sequence, code in ((0, ErrorCode.NONE), (5, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)):
            records = batch(1, producer_id=77, producer_epoch=0, base_sequence=sequence)
            assert client.produce("orders", 1, records).error_code == code
        for topic, partitions in TOPICS.items():
            for index in range(partitions):
                assert client.fetch(topic, [index])[index].records
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["payments"])
    assert sum(message is not None for message in (consumer.poll(20) for _ in range(70))) == 70
    consumer.commit(asynchronous=False)
    consumer.close()


@pytest.fixture(scope="module")
def scrapes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Scrape, Scrape]:
    """(ottla's, Apache Kafka's) after the load."""
    directory: Path = tmp_path_factory.mktemp("beside")
    port = free_port()
    arguments = ["--metrics", f"127.0.0.1:{port}"]
    with OttlaBroker.start(directory / "ottla", extra_arguments=arguments) as ottla:
        load(ottla.bootstrap)
        ours = Scrape.take(port)
    with start_kafka_with_metrics(directory) as kafka:
        load(kafka.bootstrap)
        # Kafka counts its groups once a minute.
        wait_for(lambda: kafka.scrape().value(table.GROUPS.name) > 0, timeout_s=90)
        theirs = kafka.scrape()
    return ours, theirs


def test_every_name_and_label_that_is_said_to_be_kafkas_is(scrapes: tuple[Scrape, Scrape]) -> None:
    ours, theirs = scrapes
    said = {metric.name for metric in table.METRICS if metric.origin}
    assert not sorted(said - theirs.names)
    labels_differ = {}
    for name in said & ours.names:
        own = {frozenset(labels) for labels, _ in ours.of(name)}
        kafkas = {frozenset(labels) for labels, _ in theirs.of(name)}
        if not own <= kafkas:
            labels_differ[name] = (own - kafkas, kafkas)
    assert not labels_differ


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("name", ["messagesin_total", "bytesin_total", "totalproducerequests_total"])
def test_traffic_by_topic_is_the_same(scrapes: tuple[Scrape, Scrape], topic: str, name: str) -> None:
    ours, theirs = (each.value(f"{TOPIC_METRICS}_{name}", topic=topic) for each in scrapes)
    assert ours == theirs > 0


@pytest.mark.parametrize("labels", [{"topic": "orders"}, {"topic": "payments"}, {}])
@pytest.mark.parametrize("name", ["bytesrejected_total", "failedproducerequests_total"])
def test_refused_produces_by_topic_and_in_all_are_the_same(
    scrapes: tuple[Scrape, Scrape], name: str, labels: dict[str, str]
) -> None:
    ours, theirs = (each.value(f"{TOPIC_METRICS}_{name}", **labels) for each in scrapes)
    assert ours == theirs
    assert ours > 0 or labels


def test_the_bytes_of_batches_that_are_too_large_are_counted(scrapes: tuple[Scrape, Scrape]) -> None:
    for each in scrapes:
        refused = each.value(f"{TOPIC_METRICS}_bytesrejected_total", topic="payments")
        assert refused == sum(len(batch(2, b"v" * size)) for size in TOO_LARGE_BYTES)


def test_bytes_out_of_a_topic_that_is_fetched_by_known_requests_are_the_same(
    scrapes: tuple[Scrape, Scrape],
) -> None:
    ours, theirs = (each.value(f"{TOPIC_METRICS}_bytesout_total", topic="orders") for each in scrapes)
    assert ours == theirs > 0


@pytest.mark.parametrize("request_name", ["DescribeCluster", "OffsetCommit", "LeaveGroup"])
def test_requests_by_api_are_as_many(scrapes: tuple[Scrape, Scrape], request_name: str) -> None:
    counts = [
        sum(value for labels, value in each.of(REQUESTS) if labels["request"] == request_name)
        for each in scrapes
    ]
    assert counts[0] == counts[1] > 0


def test_the_wires_produce_requests_are_as_many(scrapes: tuple[Scrape, Scrape]) -> None:
    ours, theirs = (each.value(REQUESTS, request="Produce", version=12) for each in scrapes)
    assert ours == theirs == PRODUCES


@pytest.mark.parametrize("request_name", ["DescribeCluster", "OffsetCommit", "LeaveGroup"])
def test_sizes_of_requests_are_the_same(scrapes: tuple[Scrape, Scrape], request_name: str) -> None:
    for quantile in ("0.95", "0.99"):
        labels = {"request": request_name, "quantile": quantile}
        ours, theirs = (each.value(REQUEST_BYTES, **labels) for each in scrapes)
        assert ours == theirs > 0


@pytest.mark.parametrize("request_name", ["OffsetCommit", "Produce"])
def test_as_many_sizes_of_requests_are_counted(scrapes: tuple[Scrape, Scrape], request_name: str) -> None:
    ours, theirs = (each.value(f"{REQUEST_BYTES}_count", request=request_name) for each in scrapes)
    assert ours == theirs > 0


def test_syncs_of_logs_are_counted_and_timed(scrapes: tuple[Scrape, Scrape]) -> None:
    for each in scrapes:
        assert each.value(f"{table.LOG_FLUSH_TIME.name}_count") > 0
        assert each.value(table.LOG_FLUSH_TIME.name, quantile="0.99") > 0


def test_errors_of_produce_requests_are_as_many(scrapes: tuple[Scrape, Scrape]) -> None:
    labels = {"request": "Produce", "error": "UNKNOWN_TOPIC_OR_PARTITION"}
    name = "kafka_network_requestmetrics_errors_total"
    ours, theirs = (each.value(name, **labels) for each in scrapes)
    assert ours == theirs == 2


@pytest.mark.parametrize(
    "name",
    [
        table.PARTITION_COUNT.name,
        table.LEADER_COUNT.name,
        table.UNDER_REPLICATED.name,
        table.UNDER_MIN_ISR.name,
        table.AT_MIN_ISR.name,
        table.OFFLINE_REPLICAS.name,
        table.OFFLINE_PARTITIONS.name,
        table.GLOBAL_TOPICS.name,
        table.GLOBAL_PARTITIONS.name,
        table.ACTIVE_CONTROLLER.name,
        table.ACTIVE_BROKERS.name,
        table.FENCED_BROKERS.name,
        table.PREFERRED_IMBALANCE.name,
        table.RAFT_LEADER.name,
        table.RAFT_VOTERS.name,
        table.RAFT_CHANNEL_INCOMING.name,
        table.RAFT_CHANNEL_OUTGOING.name,
        table.GROUPS.name,
        table.GROUPS_EMPTY.name,
        table.GROUPS_STABLE.name,
        table.OFFSETS.name,
        table.ISR_SHRINKS.name,
    ],
)
def test_the_state_of_the_node_is_told_by_the_same_values(scrapes: tuple[Scrape, Scrape], name: str) -> None:
    ours, theirs = (each.value(name) for each in scrapes)
    assert ours == theirs


@pytest.mark.parametrize("name", [table.LOG_SIZE.name, table.LOG_END_OFFSET.name, table.LOG_SEGMENTS.name])
def test_logs_of_the_load_are_the_same(scrapes: tuple[Scrape, Scrape], name: str) -> None:
    for topic, partitions in TOPICS.items():
        for index in range(partitions):
            ours, theirs = (each.value(name, topic=topic, partition=index) for each in scrapes)
            assert ours == theirs > 0
