"""Streams on an Apache Kafka that wants TLS and a password: sources, sinks, ledgers and groups all get in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import functions as F

from ottla.client.cluster import KafkaCluster, Topic
from ottla.pipeline.spark.session import SparkPipelineSession
from ottla.streams import Streams, StreamsError, StreamsSettings
from ottla.streams.run.application import start
from support.servers.secured_kafka import SecuredKafka, secured_kafka

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.long,
    pytest.mark.timeout(300),
]


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path) as kafka:
        yield kafka


def test_an_application_reads_keeps_and_writes(
    secured: SecuredKafka, spark_session: SparkPipelineSession, tmp_path: Path
) -> None:
    kafka = KafkaCluster(secured.bootstrap, secured.client_options)
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
        secured.bootstrap,
        tmp_path / "state",
        partitions=2,
        until_caught_up=True,
        client_options=secured.client_options,
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
