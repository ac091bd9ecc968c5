"""Streams, pipeline and sink on a broker that wants TLS and a password or a certificate: all get in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ottla.client.cluster import KafkaCluster, Topic
from ottla.pipeline.query.source import KafkaSource, read_stream
from ottla.pipeline.sink.exactly_once import source_column, write_exactly_once
from ottla.pipeline.spark.session import SparkPipelineSession
from ottla.streams import Streams, StreamsError, StreamsSettings
from ottla.streams.run.application import start
from support.clients.confluent import eventually
from support.pipeline.pipeline_kills import PYTHON_SINK
from support.servers.secured_kafka import WAYS_IN, SecuredKafka, secured_kafka

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.long,
    pytest.mark.timeout(300),
]


@pytest.fixture
def secured(cluster_kind: str, tmp_path: Path) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path, kind=cluster_kind) as kafka:
        yield kafka


@pytest.mark.parametrize("way", WAYS_IN)
def test_an_application_reads_keeps_and_writes(
    way: str, secured: SecuredKafka, spark_session: SparkPipelineSession, tmp_path: Path
) -> None:
    bootstrap, client_options = secured.way_in(way)
    kafka = KafkaCluster(bootstrap, client_options)
    kafka.ensure_topics([Topic(name, 2) for name in ("lines", "loud", "counts")])
    producer = Producer(kafka.producer_options())
    for line in ("a b", "a"):
        producer.produce("lines", line)
    assert producer.flush(30) == 0
    app = Streams("secured")
    lines = app.stream("lines", value=str)
    lines.map_values(lambda line: F.upper(line.value)).to("loud", value=str)
    words = lines.flat_map_values(lambda line: F.split(line.value, " ")).group_by(lambda word: word.value)
    words.count(name="words").materialize("words").to("counts", key=str, value=int)
    settings = StreamsSettings(
        bootstrap,
        tmp_path / "state",
        partitions=2,
        until_caught_up=True,
        client_options=client_options,
    )

    with start(app.topology(), settings, session=spark_session) as running:
        assert running.await_end(0)

    assert sorted(message.value() or b"" for message in kafka.read("loud")) == [b"A", b"A B"]
    counted = {
        message.key(): int.from_bytes(message.value() or b"", "big") for message in kafka.read("counts")
    }
    assert counted == {b"a": 2, b"b": 1}
    assert kafka.lag("secured-words", "lines") == 0


def test_a_wrong_password_stops_the_start_in_one_line(
    secured: SecuredKafka, spark_session: SparkPipelineSession, tmp_path: Path
) -> None:
    app = Streams("intruder")
    app.stream("lines").to("loud")
    options = {**secured.client_options, "sasl.password": "guessed"}
    settings = StreamsSettings(secured.bootstrap, tmp_path / "state", client_options=options)

    with pytest.raises(StreamsError) as raised:
        start(app.topology(), settings, session=spark_session)

    assert "intruder: " in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("writer", [{}, PYTHON_SINK], ids=["jvm", "python"])
@pytest.mark.parametrize("way", WAYS_IN)
def test_a_pipeline_reads_and_its_sink_writes_exactly_once(
    way: str, writer: dict[str, str], secured: SecuredKafka, spark: SparkSession, tmp_path: Path
) -> None:
    """The source is Java's client inside of Spark; the sink and its ledger are Java's or librdkafka's."""
    bootstrap, client_options = secured.way_in(way)
    kafka = KafkaCluster(bootstrap, client_options)
    kafka.ensure_topics([Topic(name, 2) for name in ("in", "out")])
    producer = Producer(kafka.producer_options())
    for number in range(10):
        producer.produce("in", str(number))
    assert producer.flush(30) == 0
    source = KafkaSource(bootstrap, ["in"], client_options=client_options)
    frame = read_stream(spark, source).select("value", source_column())
    query = (
        write_exactly_once(
            frame,
            bootstrap=bootstrap,
            query_name="secured-sink",
            topic="out",
            client_options=client_options | writer,
        )
        .option("checkpointLocation", (tmp_path / "checkpoint").as_uri())
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(200)

    def written() -> list[int]:
        return sorted(int(message.value() or b"") for message in kafka.read("out"))

    # Apache Kafka answers a commit before the markers are in the partitions.
    eventually(lambda: len(written()) >= 10, "the transactions have ended in the topic")
    assert written() == list(range(10))
