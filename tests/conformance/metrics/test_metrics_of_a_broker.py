"""A broker's metrics after a load whose numbers are known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.metadata_request import MetadataRequest
from ottla.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from support.clients.scrapes import Scrape, ask_health
from support.clients.wire import WireClient, batch, wait_for
from support.servers.cluster import free_port
from support.servers.ottla_broker import OttlaBroker

TOPIC_METRICS = "kafka_server_brokertopicmetrics"
REQUESTS = "kafka_network_requestmetrics_requests_total"
ERRORS = "kafka_network_requestmetrics_errors_total"


@pytest.fixture(scope="module")
def metrics_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, metrics_port: int) -> Iterator[OttlaBroker]:
    """A broker of its own, with series of two clients."""
    with OttlaBroker.start(
        tmp_path_factory.mktemp("metrics") / "data",
        # The metadata log is synced for changes alone.
        settings={"ottla.metrics.client.series.max": "2", "metadata.max.idle.interval.ms": "0"},
        extra_arguments=["--metrics", f"127.0.0.1:{metrics_port}"],
    ) as running:
        yield running


def test_messages_and_bytes_are_those_that_were_produced_and_fetched(
    broker: OttlaBroker, metrics_port: int, unique_name: str
) -> None:
    before = Scrape.take(metrics_port)
    messages = bytes_in = bytes_out = batches = 0
    with WireClient.connect(broker.bootstrap) as client:
        client.create_topic(unique_name, 3)
        for number in range(60):
            records = batch(number % 7 + 1)
            answer = client.produce(unique_name, number % 3, records)
            assert answer.error_code == ErrorCode.NONE
            messages += number % 7 + 1
            bytes_in += len(records)
            batches += 1
        for index in range(3):
            for partition in client.fetch(unique_name, [index]).values():
                bytes_out += len(partition.records)
    after = Scrape.take(metrics_port)
    assert bytes_out == bytes_in
    for name, expected in (
        ("messagesin_total", messages),
        ("bytesin_total", bytes_in),
        ("bytesout_total", bytes_out),
        ("totalproducerequests_total", batches),
    ):
        metric = f"{TOPIC_METRICS}_{name}"
        assert after.value(metric, topic=unique_name) == expected, name
        assert after.value(metric) - before.value(metric) == expected, name
    for acks, expected in (("0", 0), ("1", 0), ("all", batches)):
        metric = "ottla_produced_batches_total"
        assert after.value(metric, acks=acks) - before.value(metric, acks=acks) == expected, acks
    produced = sum(value for labels, value in after.of(REQUESTS) if labels["request"] == "Produce")
    assert produced - sum(v for labels, v in before.of(REQUESTS) if labels["request"] == "Produce") == batches
    for part in ("totaltimems", "localtimems", "remotetimems", "throttletimems", "requestqueuetimems"):
        assert after.value(f"kafka_network_requestmetrics_{part}_count", request="Produce") == produced
    assert after.value("kafka_network_requestmetrics_totaltimems", request="Produce", quantile="0.99") > 0
    # The logs, against their files.
    for index in range(3):
        files = list((broker.data_dir / f"{unique_name}-{index}").glob("*.log"))
        labels = {"topic": unique_name, "partition": index}
        assert after.value("kafka_log_log_size", **labels) == sum(file.stat().st_size for file in files)
        assert after.value("kafka_log_log_numlogsegments", **labels) == len(files)
        assert after.has("kafka_log_log_logstartoffset", **labels)
        assert after.value("kafka_cluster_partition_insyncreplicascount", **labels) == 1
    ends = [
        after.value("kafka_log_log_logendoffset", topic=unique_name, partition=index) for index in range(3)
    ]
    assert sum(ends) == messages


def test_counters_of_a_deleted_topic_go_and_the_totals_stay(
    broker: OttlaBroker, metrics_port: int, unique_name: str
) -> None:
    metric = f"{TOPIC_METRICS}_messagesin_total"
    with WireClient.connect(broker.bootstrap) as client:
        client.create_topic(unique_name)
        client.produce(unique_name, 0, batch(5))
        before = Scrape.take(metrics_port)
        assert before.value(metric, topic=unique_name) == 5
        client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name=unique_name)], timeout_ms=20_000))
        wait_for(lambda: not Scrape.take(metrics_port).has(metric, topic=unique_name))
    after = Scrape.take(metrics_port)
    assert after.value(metric) == before.value(metric)
    assert not any(labels.get("topic") == unique_name for name in after.names for labels, _ in after.of(name))


def test_syncs_of_a_log_are_counted_and_timed(
    broker: OttlaBroker, metrics_port: int, unique_name: str
) -> None:
    name = "kafka_log_logflushstats_logflushrateandtimems"
    with WireClient.connect(broker.bootstrap) as client:
        began = Scrape.take(metrics_port).value(f"{name}_count")
        client.create_topic(unique_name, config={"flush.messages": "1"})
        wait_for(lambda: Scrape.take(metrics_port).value(f"{name}_count") > began)  # the metadata log's
        for _ in range(3):
            before = Scrape.take(metrics_port).value(f"{name}_count")
            client.produce(unique_name, 0, batch(1))
            wait_for(lambda: Scrape.take(metrics_port).value(f"{name}_count") > before)  # noqa: B023
    after = Scrape.take(metrics_port)
    assert after.value(f"{name}_sum") > 0
    assert after.value(name, quantile="0.999") >= after.value(name, quantile="0.5") > 0


def test_sizes_of_requests_are_those_on_the_wire(
    broker: OttlaBroker, metrics_port: int, unique_name: str
) -> None:
    name = "kafka_network_requestmetrics_requestbytes"
    groups = [OffsetFetchRequestGroup(group_id=unique_name * number) for number in (1, 2, 3)]
    requests = [OffsetFetchRequest(groups=[each], require_stable=False) for each in groups]
    before = Scrape.take(metrics_port)
    with WireClient.connect(broker.bootstrap) as client:
        for each in requests:
            client.call(each, 8)
    after = Scrape.take(metrics_port)
    grown = {
        part: after.value(f"{name}_{part}", request="OffsetFetch")
        - before.value(f"{name}_{part}", request="OffsetFetch")
        for part in ("count", "sum")
    }
    assert grown == {"count": 3, "sum": sum(len(each.encode(8)) for each in requests)}


def test_errors_are_counted_by_their_codes(broker: OttlaBroker, metrics_port: int, unique_name: str) -> None:
    before = Scrape.take(metrics_port)
    with WireClient.connect(broker.bootstrap) as client:
        client.create_topic(unique_name)
        damaged = bytearray(batch(2))
        damaged[-1] ^= 1
        answer = client.produce(unique_name, 0, bytes(damaged))
        assert answer.error_code == ErrorCode.CORRUPT_MESSAGE
        for _ in range(3):
            answer = client.produce(unique_name, 7, batch(1))
            assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answer = client.produce(unique_name, 0, batch(1), acks=5)
        assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS
        for sequence, code in ((0, ErrorCode.NONE), (5, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)):
            records = batch(1, producer_id=77, producer_epoch=0, base_sequence=sequence)
            assert client.produce(unique_name, 0, records).error_code == code
        (fetched,) = client.fetch(unique_name, [9]).values()
        assert fetched.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        groups = [OffsetFetchRequestGroup(group_id="")]
        client.call(OffsetFetchRequest(groups=groups, require_stable=False))
    after = Scrape.take(metrics_port)

    def counted(request: str, error: str) -> float:
        labels = {"request": request, "error": error}
        return after.value(ERRORS, **labels) - before.value(ERRORS, **labels)

    assert counted("Produce", "CORRUPT_MESSAGE") == 1
    assert counted("Produce", "UNKNOWN_TOPIC_OR_PARTITION") == 3
    assert counted("Produce", "INVALID_REQUIRED_ACKS") == 1
    assert counted("Fetch", "UNKNOWN_TOPIC_OR_PARTITION") == 1
    # Of these Kafka counts one as a failure of the broker's work on the topic, and three as appends.
    assert after.value(f"{TOPIC_METRICS}_failedproducerequests_total", topic=unique_name) == 1
    assert after.value(f"{TOPIC_METRICS}_totalproducerequests_total", topic=unique_name) == 3


def test_groups_are_counted_by_state_with_their_members_and_offsets(
    broker: OttlaBroker, metrics_port: int, unique_name: str
) -> None:
    before = Scrape.take(metrics_port)
    with WireClient.connect(broker.bootstrap) as client:
        client.create_topic(unique_name, 2)
        for index in range(2):
            client.produce(unique_name, index, batch(3))
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": unique_name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([unique_name])
    assert sum(message is not None for message in (consumer.poll(20) for _ in range(6))) == 6
    consumer.commit(asynchronous=False)
    during = Scrape.take(metrics_port)
    consumer.close()
    wait_for(
        lambda: Scrape.take(metrics_port).value("ottla_group_count", protocol="classic", state="Empty") > 0
    )
    after = Scrape.take(metrics_port)

    def grown(scrape: Scrape, name: str, **labels: str) -> float:
        return scrape.value(name, **labels) - before.value(name, **labels)

    assert grown(during, "ottla_group_count", protocol="classic", state="Stable") == 1
    assert grown(during, "ottla_group_members", protocol="classic") == 1
    prefix = "kafka_coordinator_group_groupmetadatamanager"
    assert grown(during, f"{prefix}_numgroupsstable") == 1
    assert grown(during, f"{prefix}_numoffsets") == 2
    assert grown(during, "ottla_group_rebalances_total", protocol="classic") >= 1
    assert grown(after, f"{prefix}_numgroupsempty") == 1
    assert grown(after, f"{prefix}_numgroupsstable") == 0
    assert during.value("ottla_coordinator_partitions", coordinator="group", state="serving") == 4
    assert during.value("ottla_coordinator_loads_total", coordinator="group") == 4


def test_clients_have_series_up_to_the_asked_number_and_others_share_one(
    broker: OttlaBroker, metrics_port: int
) -> None:
    metric = "ottla_client_requests_total"
    for number in range(5):
        with WireClient.connect(broker.bootstrap, f"client-{number}") as client:
            client.call(MetadataRequest(topics=[]))
    scrape = Scrape.take(metrics_port)
    series = list(scrape.of(metric))
    assert len(series) == 3
    assert scrape.value(metric, principal="other", client_id="other") >= 3
    total = sum(value for _, value in series)
    with WireClient.connect(broker.bootstrap, "client-9") as client:
        client.call(MetadataRequest(topics=[]))
    assert sum(value for _, value in Scrape.take(metrics_port).of(metric)) >= total + 1


def test_a_broker_that_serves_is_alive_and_ready_with_reasons(broker: OttlaBroker, metrics_port: int) -> None:
    status, alive = ask_health(metrics_port, "/healthz")
    assert (status, alive["status"]) == (200, "ok")
    assert {each["name"] for each in alive["checks"]} == {"event-loop", "background-tasks", "log-directory"}
    status, ready = ask_health(metrics_port)
    assert (status, ready["status"]) == (200, "ok")
    reasons = {each["name"]: each["reason"] for each in ready["checks"]}
    assert reasons["metadata-quorum"].startswith("node 1 leads the metadata quorum in epoch")
    assert reasons["broker"].endswith("and not fenced")
    assert not list(broker.data_dir.glob(".health-check"))


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("0.0.0.0:{port}", "to any machine that reaches it: set ottla.metrics.users.file"),
        ("nonsense", "give HOST:PORT"),
        ("https://127.0.0.1:{port}", "the metrics can't be served by https"),
    ],
)
def test_a_start_that_would_serve_metrics_wrongly_is_refused_in_one_line(
    tmp_path: Path, address: str, reason: str
) -> None:
    refused = OttlaBroker.prepare(
        tmp_path / "data", extra_arguments=["--metrics", address.format(port=free_port())]
    )
    with pytest.raises(Exception, match=reason):
        refused.server.start()
    lines = refused.server.log_path.read_text().splitlines()
    assert [line for line in lines if line.startswith("ottla broker: ")] == lines
    assert len(lines) == 1
