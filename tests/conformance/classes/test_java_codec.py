"""Kafka's own generated classes read our bytes and write bytes that we read: every message and version."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.protocol.schema import Message
from support.java.java_tools import JAR_LOCK, jars_of, java_command, kafka_classpath
from support.protocol.messages import all_messages, all_versions, lone_fields, random_message

pytestmark = pytest.mark.java

ORACLE = Path(__file__).parents[2] / "support" / "java" / "MessageOracle.java"
SAMPLES_A_VERSION = 12


def run_oracle(lines: list[str], directory: Path) -> list[str]:
    """The oracle's answers, a line each. PySpark's Janino compiles it: Java may come without a compiler."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    janino = [
        str(path) for pattern in ("janino-*.jar", "commons-compiler-*.jar") for path in jars.glob(pattern)
    ]
    assert len(janino) == 2
    questions, answers = directory / "questions", directory / "answers"
    questions.write_text("".join(f"{line}\n" for line in lines))
    command = java_command(
        "org.codehaus.janino.SimpleCompiler",
        str(ORACLE),
        "MessageOracle",
        str(questions),
        str(answers),
        class_path=os.pathsep.join((kafka_classpath(), *janino)),
    )
    run = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    result = answers.read_text().splitlines()
    assert len(result) == len(lines)
    return result


def java_class(cls: type[Message]) -> str:
    """The name of Kafka's generated class for a message."""
    match cls.KIND:
        case "request" | "response" | "header":
            return f"org.apache.kafka.common.message.{cls.NAME}Data"
        case "coordinator-key" | "coordinator-value":
            if cls.NAME.startswith("TransactionLog"):
                return f"org.apache.kafka.coordinator.transaction.generated.{cls.NAME}"
            if cls.NAME.startswith(("ShareSnapshot", "ShareUpdate")):
                return f"org.apache.kafka.coordinator.share.generated.{cls.NAME}"
            return f"org.apache.kafka.coordinator.group.generated.{cls.NAME}"
        case _ if cls.NAME.startswith("Remote") or cls.NAME == "ProducerSnapshot":
            return f"org.apache.kafka.server.log.remote.metadata.storage.generated.{cls.NAME}"
        case "metadata":
            return f"org.apache.kafka.common.metadata.{cls.NAME}"
        case _ if cls.NAME == "QuorumStateData":
            return f"org.apache.kafka.raft.generated.{cls.NAME}"
        case _:
            return f"org.apache.kafka.common.message.{cls.NAME}"


def test_java_reads_and_writes_the_same_bytes(tmp_path: Path) -> None:
    # given: random messages of every message at every version, with nulls and unknown tags
    dice = random.Random(20)
    lines, expected = [], []
    for cls, version in all_versions():
        for _ in range(SAMPLES_A_VERSION):
            data = random_message(cls, version, dice).encode(version).hex()
            lines.append(f"{java_class(cls)} {version} {version} {data}")
            expected.append(data)

    # when: Kafka's class decodes and encodes them again
    answers = run_oracle(lines, tmp_path)

    # then: the bytes are the same
    wrong = [
        f"{line} -> {answer}"
        for line, answer, data in zip(lines, answers, expected, strict=True)
        if answer != data
    ]
    assert not wrong, f"{len(wrong)} of {len(lines)} differ, the first: {wrong[:5]}"


def test_defaults_are_those_of_java(tmp_path: Path) -> None:
    # given: a new instance of every message
    lines, ours = [], []
    for cls, version in all_versions():
        lines.append(f"{java_class(cls)} -1 {version} ")
        ours.append(_encoded(cls(), version))

    # when: Kafka's class and ours encode it at every version
    answers = run_oracle(lines, tmp_path)

    # then: both give the same bytes, or both refuse
    _assert_same(lines, answers, ours)


def test_fields_that_a_version_lacks_are_refused_or_dropped_as_in_java(tmp_path: Path) -> None:
    # given: for each field a message in which only that field is set
    lines, ours, labels = [], [], []
    for cls in all_messages():
        for version, message, path in lone_fields(cls):
            data = _encoded(message, version)
            if data is None:
                continue
            decoded = cls.decode(bytes.fromhex(data), version)
            for target in range(cls.MIN_VERSION, cls.MAX_VERSION + 1):
                lines.append(f"{java_class(cls)} {version} {target} {data}")
                ours.append(_encoded(decoded, target))
                labels.append(f"{cls.NAME}.{path}")

    # when: it is decoded and then encoded at every other version
    answers = run_oracle(lines, tmp_path)

    # then: both give the same bytes, or both refuse
    _assert_same([f"{label}: {line}" for label, line in zip(labels, lines, strict=True)], answers, ours)


def test_the_generator_makes_these_modules_of_the_jars() -> None:
    # given: the jars that hold tables
    names = (
        "kafka-clients",
        "kafka-metadata",
        "kafka-group-coordinator",
        "kafka-transaction-coordinator",
        "kafka-share-coordinator",
        "kafka-storage",
        "kafka-raft",
    )
    paths = kafka_classpath().split(os.pathsep)
    artifacts = {Path(path).name.rpartition("-")[0]: path for path in paths}
    assert {jar.artifact for jar in jars_of(JAR_LOCK)} >= set(names)
    tool = Path(__file__).parents[3] / "tools" / "generate_messages.py"

    # when
    run = subprocess.run(
        [sys.executable, str(tool), "--check", *(artifacts[name] for name in names)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    # then
    assert run.returncode == 0, run.stdout + run.stderr


def _encoded(message: Message, version: int) -> str | None:
    """The message's bytes in hexadecimal, or None where it cannot be written at this version."""
    try:
        return message.encode(version).hex()
    except ValueError:
        return None


def _assert_same(lines: list[str], answers: list[str], ours: list[str | None]) -> None:
    wrong = []
    for line, answer, data in zip(lines, answers, ours, strict=True):
        if (data is None) != answer.startswith("!") or (data is not None and answer != data):
            wrong.append(f"{line} -> Java {answer}, ours {data}")
    assert not wrong, f"{len(wrong)} of {len(lines)} differ, the first: {wrong[:5]}"
