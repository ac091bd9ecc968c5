"""Streams on an Apache Kafka that wants TLS and a password: sources, sinks, ledgers and groups all get in."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import functions as F

from ottla.client.cluster import KafkaCluster, Topic
from ottla.pipeline.spark.session import SparkPipelineSession
from ottla.streams import Streams, StreamsError, StreamsSettings
from ottla.streams.run.application import start
from support.servers.apache_kafka import ApacheKafka
from support.servers.cluster import free_port

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.long,
    pytest.mark.system("openssl", "openssl"),
    pytest.mark.timeout(300),
]

USER = "app"
PASSWORD = 'with "quotes", a \\ and spaces'
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@dataclass(frozen=True, slots=True)
class Secured:
    """An Apache Kafka behind SASL_SSL, and what its clients need."""

    bootstrap: str
    client_options: dict[str, str]


def openssl(directory: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)


def certificates(directory: Path) -> None:
    """ca.pem, and server.pem with a key and a certificate for 127.0.0.1."""
    directory.mkdir()
    new = ("req", "-newkey", "rsa:2048", "-nodes")
    openssl(
        directory, *new, "-x509", "-days", "2", "-subj", "/CN=test", "-keyout", "ca.key", "-out", "ca.pem"
    )
    openssl(directory, *new, "-subj", "/CN=127.0.0.1", "-keyout", "server.key", "-out", "server.csr")
    (directory / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
    openssl(directory, "x509", "-req", "-in", "server.csr", *signing, "-out", "server.crt")
    parts = (directory / name for name in ("server.key", "server.crt", "ca.pem"))
    (directory / "server.pem").write_text("".join(part.read_text() for part in parts))


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    certificates(tmp_path / "tls")
    port, controller = free_port(), free_port()

    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    jaas = f'{PLAIN} required username="broker" password="b" user_broker="b" user_{USER}={quoted(PASSWORD)};'
    settings = {
        "listeners": f"SASL_SSL://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas.replace("\\", "\\\\"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tmp_path / "tls/server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "tls/ca.pem"),
    }
    with ApacheKafka.start(tmp_path / "kafka", port, settings) as kafka:
        yield Secured(
            kafka.bootstrap,
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": USER,
                "sasl.password": PASSWORD,
                "ssl.ca.location": str(tmp_path / "tls/ca.pem"),
            },
        )


def test_an_application_reads_keeps_and_writes(
    secured: Secured, spark_session: SparkPipelineSession, tmp_path: Path
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
    secured: Secured, spark_session: SparkPipelineSession, tmp_path: Path
) -> None:
    app = Streams("intruder")
    app.stream("lines").to("loud")
    options = {**secured.client_options, "sasl.password": "guessed"}
    settings = StreamsSettings(secured.bootstrap, tmp_path / "state", client_options=options)

    with pytest.raises(StreamsError) as raised:
        start(app.topology(), settings, session=spark_session)

    assert "intruder: " in str(raised.value) and "\n" not in str(raised.value)
