"""Kafka's own classes read the envelopes that an ottla broker sends, and would write the same bytes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ottla.broker.controller.envelope import wrap_request
from ottla.protocol.apis import ApiKey
from ottla.protocol.headers import RequestHeader
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from support.java.java_tools import java_command, kafka_classpath

pytestmark = pytest.mark.java

ORACLE = Path(__file__).parents[2] / "support" / "java" / "EnvelopeOracle.java"


@pytest.mark.parametrize(("host", "told_host"), [("10.1.2.3", "10.1.2.3"), ("::1", "0:0:0:0:0:0:0:1")])
def test_kafka_reads_and_writes_the_same_envelope(tmp_path: Path, host: str, told_host: str) -> None:
    header = RequestHeader(ApiKey.CREATE_TOPICS, 7, 42, "an admin")
    request = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=3, replication_factor=1)])
    sent = wrap_request(header, request, "User:alice", host).encode(0)
    question, answer = tmp_path / "envelope", tmp_path / "answer"
    question.write_bytes(sent)
    run_oracle(question, answer)
    told, written = answer.read_text().splitlines()
    assert told == f"CREATE_TOPICS 7 42 an admin User:alice {told_host} t"
    assert written == sent.hex()


def run_oracle(question: Path, answer: Path) -> None:
    """PySpark's Janino compiles it: Java may come without a compiler."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    janino = [
        str(path) for pattern in ("janino-*.jar", "commons-compiler-*.jar") for path in jars.glob(pattern)
    ]
    command = java_command(
        "org.codehaus.janino.SimpleCompiler",
        str(ORACLE),
        "EnvelopeOracle",
        str(question),
        str(answer),
        class_path=os.pathsep.join((kafka_classpath(), *janino)),
    )
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
