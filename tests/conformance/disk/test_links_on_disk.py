"""What links leave on disk is Kafka's: its tools read it, and Apache Kafka starts on it."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from support.clients.confluent import create_topic, produce
from support.clients.ottla_command import done
from support.clients.whole_topics import read_everything
from support.clients.wire import WireClient, batch, wait_for
from support.java.java_tools import run_java
from support.links.mirrors import wait_until_copied
from support.servers.apache_kafka import ApacheKafka
from support.servers.ottla_broker import OttlaBroker

pytestmark = pytest.mark.java

VALUES = [b"%d" % each for each in range(50)]


def test_apache_kafka_starts_on_a_directory_with_mirrors_and_a_promoted_topic(tmp_path: Path) -> None:
    data = tmp_path / "own" / "logs"  # where ApacheKafka has it too
    kept, moved = (f"{word}-{uuid.uuid4().hex[:6]}" for word in ("kept", "moved"))
    with OttlaBroker.start(tmp_path / "source") as source, OttlaBroker.start(data) as target:
        for topic in (kept, moved):
            create_topic(source.bootstrap, topic)
            produce(
                source.bootstrap,
                topic,
                [{"value": b"%d" % each} for each in range(50)],
                enable_idempotence=True,
            )
        words = ("--source", source.bootstrap, "--topic", kept, "--topic", moved, "--interval-ms", "200")
        done(target.bootstrap, "link", "create", "lk", *words)
        wait_until_copied(target.bootstrap, "lk", {(kept, 0): 50, (moved, 0): 50})
        done(target.bootstrap, "link", "promote", "lk", moved)
        produce(target.bootstrap, moved, [{"value": b"mine"}])

    metadata = next((data / "__cluster_metadata-0").glob("*.log"))
    for decoder, file in (
        (("--cluster-metadata-decoder",), metadata),
        (("--print-data-log", "--deep-iteration"), next((data / f"{moved}-0").glob("*.log"))),
    ):
        run = run_java("org.apache.kafka.tools.DumpLogSegments", *decoder, "--files", str(file))
        assert run.returncode == 0, run.stderr
        assert "isvalid: false" not in run.stdout
        assert "isvalid: true" in run.stdout

    with ApacheKafka.start(tmp_path / "own") as kafka, WireClient.connect(kafka.bootstrap) as client:
        wait_for(
            lambda: all(each.leader_id == 1 for each in client.topic_metadata(moved).topics[0].partitions)
        )
        assert [each.value() for each in read_everything(kafka.bootstrap, kept)] == [
            b"%d" % n for n in range(50)
        ]
        assert read_everything(kafka.bootstrap, moved)[-1].value() == b"mine"
        wait_for(lambda: client.produce(moved, 0, batch(1)).error_code == 0)
