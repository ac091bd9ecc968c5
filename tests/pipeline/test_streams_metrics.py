"""The metrics and the health of applications on a broker, checked against what their input must give."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.client.cluster import KafkaCluster, Topic
from ottla.pipeline.spark.session import SparkPipelineSession
from ottla.streams import PythonRecord, Streams, StreamsError, StreamsSettings, python, tumbling
from ottla.streams.run.application import RunningStreams, start
from support.clients.confluent import eventually
from support.metrics.samples import by_labels, checks, sample, scrape
from support.servers.cluster import Cluster

pytestmark = pytest.mark.spark
AGE_MS = 5_000
"""How long before they are produced records were made, by their timestamps."""


class Metered:
    """The applications of one test, with an endpoint each."""

    def __init__(self, name: str, bootstrap: str, session: SparkPipelineSession, state: Path) -> None:
        self.name = name
        self.kafka = KafkaCluster(bootstrap)
        self.session = session
        self.state = state

    def topic(self, role: str, partitions: int = 2) -> str:
        name = f"{self.name}-{role}"
        self.kafka.ensure_topics([Topic(name, partitions)])
        return name

    def produce(self, topic: str, *records: tuple[bytes | None, bytes | None], at_ms: int) -> None:
        producer = Producer(self.kafka.producer_options())
        for number, (key, value) in enumerate(records):
            producer.produce(topic, value, key, partition=number % 2, timestamp=at_ms)
        assert producer.flush(30) == 0

    @contextmanager
    def started(self, app: Streams, **changes: object) -> Iterator[RunningStreams]:
        given = {"partitions": 2, "metrics": "127.0.0.1:0", **changes}
        settings = StreamsSettings(self.kafka.bootstrap, self.state, **given)  # type: ignore[arg-type]
        with start(app.topology(), settings, session=self.session) as running:
            yield running


@pytest.fixture
def metered(
    cluster: Cluster, spark_session: SparkPipelineSession, unique_name: str, tmp_path: Path
) -> Metered:
    return Metered(unique_name, cluster.bootstrap, spark_session, tmp_path / "state")


def has_read(running: RunningStreams, records: int) -> bool:
    """Whether the only query has read so many records."""
    text = running.metrics.exposition.text()
    return by_labels(text, "ottla_query_input_rows_total", "query") == {(running.queries[0].name,): records}


def test_an_application_tells_its_records_and_their_latency(metered: Metered) -> None:
    source, sink, dead = metered.topic("in"), metered.topic("out"), metered.topic("dead", 1)
    app = Streams(f"{metered.name}-app")
    app.stream(source, value=str).filter(lambda r: r.value != "left out").to(sink, value=str)
    begun_ms = int(time.time() * 1000)
    made_ms = begun_ms - AGE_MS
    records: list[tuple[bytes | None, bytes | None]] = [(None, b"record %d" % each) for each in range(20)]
    records += [(None, b"\xff")] * 3 + [(None, b"left out")] * 4
    metered.produce(source, *records, at_ms=made_ms)

    with metered.started(app, dead_letters=dead) as running:
        base = (running.metrics_url or "").removesuffix("/metrics")
        eventually(lambda: has_read(running, 27), "all is read", 90)
        metered.produce(source, *[(None, b"later")] * 5, at_ms=made_ms)
        eventually(lambda: has_read(running, 32), "the rest is read", 90)
        (query,) = (each.name for each in running.queries)
        text = scrape(f"{base}/metrics")
        ended_ms = int(time.time() * 1000)
        alive, ready = checks(f"{base}/healthz"), checks(f"{base}/readyz")

    def value(name: str, **labels: str) -> float | None:
        return sample(text, name, query=query, **labels)

    assert value("ottla_query_running") == 1
    assert value("ottla_query_input_rows_total") == 32
    assert value("ottla_query_dead_letters_total") == 3
    assert value("ottla_query_late_rows_total") == value("ottla_query_dropped_rows_total") == 0
    assert value("ottla_query_failures_total") == value("ottla_query_restarts_total") == 0
    assert value("ottla_query_records_written_total") == 25
    of_partition = by_labels(text, "ottla_query_offsets_read_total", "topic", "partition")
    assert of_partition == {(source, "0"): 3, (source, "1"): 2}, "of the batches behind the first one"
    behind = by_labels(text, "ottla_query_offsets_behind_latest", "topic", "partition")
    assert behind == {(source, "0"): 0, (source, "1"): 0}
    latency = by_labels(text, "ottla_query_record_e2e_latency_seconds", "stat")
    assert AGE_MS / 1000 <= latency["min",] <= latency["avg",] <= latency["max",]
    assert latency["max",] <= (ended_ms - made_ms) / 1000
    total = value("ottla_query_record_e2e_latency_seconds_total")
    assert total is not None and total == pytest.approx(25 * latency["avg",])
    phases = by_labels(text, "ottla_query_phase_seconds_total", "phase")
    assert {("addBatch",), ("queryPlanning",), ("triggerExecution",)} <= phases.keys()

    as_kafka = {"client_id": app.name, "task_id": query}
    assert sample(text, "kafka_streams_stream_task_metrics_process_total", **as_kafka) == 32
    name = "kafka_streams_stream_processor_node_metrics_record_e2e_latency_max"
    assert sample(text, name, **as_kafka) == pytest.approx(1000 * latency["max",])
    alive_queries = sample(text, "kafka_streams_stream_metrics_alive_stream_threads", client_id=app.name)
    assert alive_queries == 1

    assert alive[0] == 200 and alive[1]["spark"][0] == "ok"
    assert ready[0] == 200 and ready[1]["queries"] == ("ok", f"all run: {query}")


def test_late_and_unusable_records_are_counted(metered: Metered) -> None:
    source, sink = metered.topic("clicks"), metered.topic("counts")
    base_ms = 1_700_000_040_000  # a full minute
    app = Streams(f"{metered.name}-windows")
    windows = tumbling(timedelta(minutes=1), grace=timedelta(0))
    counted = app.stream(source, key=str, value=str).group_by_key().windowed_by(windows)
    counts = counted.aggregate(lambda: 0, lambda so_far, value: so_far + 1, returns=int, name="count")
    counts.to_stream(key=lambda r: r.key.key).to(sink, key=str, value=int)

    metered.produce(source, (b"a", b"1"), (b"b", b"1"), at_ms=base_ms)
    metered.produce(source, (b"a", b"2"), (b"b", b"2"), at_ms=base_ms + 300_000)
    with metered.started(app) as running:
        eventually(lambda: has_read(running, 4), "all is read", 90)
        (query,) = (each.name for each in running.queries)
        first = running.metrics.exposition.text()
        # Event time of the batches so far decides about those that come now.
        metered.produce(source, (b"a", b"late"), (b"b", b"late"), (b"c", b"late"), at_ms=base_ms)
        metered.produce(source, (None, b"no key"), (None, b"no key"), at_ms=base_ms + 300_000)
        eventually(lambda: has_read(running, 9), "the rest is read", 90)
        second = scrape(running.metrics_url or "")

    assert sample(first, "ottla_query_late_rows_total", query=query) == 0
    assert sample(first, "ottla_query_dropped_rows_total", query=query) == 0
    assert sample(second, "ottla_query_late_rows_total", query=query) == 3
    assert sample(second, "ottla_query_dropped_rows_total", query=query) == 2
    watermark = sample(second, "ottla_query_watermark_timestamp_seconds", query=query)
    assert watermark == (base_ms + 300_000) / 1000
    rows = sample(second, "ottla_query_state_rows", query=query)
    assert rows is not None and rows >= 2
    assert (sample(second, "ottla_query_state_disk_bytes", query=query) or 0) > 0
    dropped = "kafka_streams_stream_task_metrics_dropped_records_total"
    assert sample(second, dropped, client_id=app.name, task_id=query) == 5


def test_readiness_tells_why_a_query_has_failed(metered: Metered) -> None:
    source, sink = metered.topic("in"), metered.topic("out")

    def raising(record: PythonRecord) -> str:
        if record.value == "bad":
            raise ValueError("this value is bad")
        return str(record.value)

    app = Streams(f"{metered.name}-failing")
    app.stream(source, value=str).map_values(python(raising, returns=str)).to(sink, value=str)
    metered.produce(source, (None, b"good"), at_ms=int(time.time() * 1000))
    with metered.started(app) as running:
        base = (running.metrics_url or "").removesuffix("/metrics")
        eventually(lambda: checks(f"{base}/readyz")[0] == 200, "the query runs", 60)
        metered.produce(source, (None, b"bad"), at_ms=int(time.time() * 1000))
        with pytest.raises(StreamsError, match="this value is bad"):
            running.await_end(60)
        status, found = checks(f"{base}/readyz")
        healthy, _ = checks(f"{base}/healthz")
        text = scrape(f"{base}/metrics")
        (query,) = (each.name for each in running.queries)

    assert status == 503 and healthy == 200
    for check in ("application", "queries"):
        state, reason = found[check]
        assert state == "failed" and "this value is bad" in reason
    assert sample(text, "ottla_query_failures_total", query=query) == 1
    assert sample(text, "ottla_query_running", query=query) == 0
    failed = "kafka_streams_stream_metrics_failed_stream_threads"
    assert sample(text, failed, client_id=app.name) == 1
