"""kio and kafka-python read our bytes and write bytes that we read."""

from __future__ import annotations

import importlib
import io
import random
from collections.abc import Iterator
from typing import Any

from kio.serial import entity_reader, entity_writer

from ottla.protocol.messages.api_versions_response import ApiVersionsResponse
from ottla.protocol.schema import Message
from support.protocol.messages import all_versions, tame_message

SAMPLES_A_VERSION = 4
RECORDS_UNKNOWN_TO_KIO = {"AbortedTxn", "ProducerSnapshot", "QuorumStateData"}
# kio has the messages of Kafka 4.3. By name: the first version that came with 4.4.
NEW_IN_KAFKA_4_4 = {
    "ApiVersionsRequest": 5,
    "ApiVersionsResponse": 5,
    "DeleteGroupsRequest": 3,
    "DeleteGroupsResponse": 3,
    "StreamsGroupDescribeRequest": 1,
    "StreamsGroupDescribeResponse": 1,
    "StreamsGroupHeartbeatRequest": 1,
    "StreamsGroupHeartbeatResponse": 1,
    "StreamsGroupTopologyDescriptionUpdateRequest": 0,
    "StreamsGroupTopologyDescriptionUpdateResponse": 0,
    "TxnOffsetCommitRequest": 6,
    "TxnOffsetCommitResponse": 6,
    "UnregisterControllerRequest": 0,
    "UnregisterControllerResponse": 0,
}


def test_kio_reads_and_writes_the_same_bytes() -> None:
    # given: every message that kio has, at every version that it has
    dice = random.Random(1)
    seen = set()
    wrong = []
    for cls, version, theirs in _kio_classes():
        seen.add((cls, version))
        read, write = entity_reader(theirs), entity_writer(theirs)
        for _ in range(SAMPLES_A_VERSION):
            data = tame_message(cls, version, dice).encode(version)

            # when: kio decodes and encodes it again
            value, size = read(data, 0)
            answer = io.BytesIO()
            write(answer, value)

            # then
            if size != len(data) or answer.getvalue() != data:
                wrong.append(f"{cls.NAME} v{version}: {data.hex()} -> {answer.getvalue().hex()}")
    assert not wrong, wrong[:5]

    # and: that was every request and response, and all records but Kafka's private files
    all_but_topic_records = {
        (cls, version)
        for cls, version in all_versions()
        if cls.KIND in ("request", "response", "header", "data")
        and cls.NAME not in RECORDS_UNKNOWN_TO_KIO
        and version < NEW_IN_KAFKA_4_4.get(cls.NAME, version + 1)
    }
    assert seen == all_but_topic_records


def test_kafka_python_reads_and_writes_the_same_bytes() -> None:
    # given: every request and response that kafka-python has, at every version that both have
    dice = random.Random(2)
    compared = 0
    wrong = []
    classes = _kafka_python_classes()
    for cls, version in all_versions():
        theirs = classes.get(cls.NAME)
        if theirs is None or cls.KIND not in ("request", "response") or version > theirs.max_version:
            continue
        for _ in range(SAMPLES_A_VERSION):
            message = tame_message(cls, version, dice)
            if isinstance(message, ApiVersionsResponse):
                message.error_code = 0  # kafka-python reads a failed ApiVersions response as version 0
            data = message.encode(version)

            # when: kafka-python decodes and encodes it again
            value = theirs.decode(data, version=version)
            value._header = None
            answer = bytes(value.encode(version=version))

            # then
            compared += 1
            if answer != data:
                wrong.append(f"{cls.NAME} v{version}: {data.hex()} -> {answer.hex()}")
    assert not wrong, wrong[:5]
    assert compared > 400 * SAMPLES_A_VERSION


def _kio_classes() -> Iterator[tuple[type[Message], int, Any]]:
    """Every (message, version) that kio has, with kio's class."""
    for cls, version in all_versions():
        name, kind = cls.NAME, cls.KIND
        if kind in ("request", "response"):
            name = name.removesuffix(kind.capitalize())
        package = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)[1:]
        try:
            module = importlib.import_module(f"kio.schema.{package}.v{version}.{kind}")
        except ModuleNotFoundError:
            continue
        yield cls, version, getattr(module, cls.NAME)


def _kafka_python_classes() -> dict[str, Any]:
    """kafka-python's message classes by name."""
    classes: dict[str, Any] = {}
    for name in ("producer", "consumer", "admin", "metadata", "sasl"):
        module = importlib.import_module(f"kafka.protocol.{name}")
        classes |= {key: value for key, value in vars(module).items() if isinstance(value, type)}
    return classes
