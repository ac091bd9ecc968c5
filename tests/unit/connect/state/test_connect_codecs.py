"""The bytes of connect-configs and connect-status, as Java's workers write and read them."""

from __future__ import annotations

import random

import orjson
import pytest

from ottla.connect.core.config_records import (
    ConfigRecord,
    ConnectorConfig,
    LoggerLevel,
    OffsetsGeneration,
    RestartRequest,
    SessionKey,
    Target,
    TaskConfig,
    TaskCount,
    TaskRestart,
    TasksCommit,
)
from ottla.connect.core.ids import CONNECTOR, State, TargetState, TaskId
from ottla.connect.core.status_image import Status, StatusImage, TaskStatus, TopicStatus, tombstones
from ottla.connect.state import config_codec, status_codec

NAMES = ("c", "a-b-3", "with space", "ünïcödé", "task-1", "x:connector-y", "")
RECORDS: tuple[ConfigRecord, ...] = tuple(
    record
    for name in NAMES
    for record in (
        ConnectorConfig(name, {"a": "b", "ä": ""}),
        ConnectorConfig(name, None),
        TaskConfig(name, 17, {"x": "y"}),
        TasksCommit(name, 3),
        *(Target(name, state) for state in TargetState),
        Target(name, None),
        TaskCount(name, 4),
        RestartRequest(name, True, False),
        TaskRestart(name, 2),
        LoggerLevel(name, "DEBUG"),
        OffsetsGeneration(name, 9),
    )
)


@pytest.mark.parametrize("record", [*RECORDS, SessionKey(b"\0\xff" * 16, "HmacSHA256", 1)])
def test_a_record_of_configurations_is_read_as_it_was_written(record: ConfigRecord) -> None:
    written = config_codec.encode(record)
    assert config_codec.decode(written.key, written.value) == record


def test_keys_and_values_are_those_of_kafka() -> None:
    written = config_codec.encode(ConnectorConfig("c", {"a": "b"}))
    assert (written.key, written.value) == (b"connector-c", b'{"properties":{"a":"b"}}')
    written = config_codec.encode(Target("c", TargetState.STOPPED))
    assert (written.key, orjson.loads(written.value or b"")) == (
        b"target-state-c",
        {"state": "PAUSED", "state.v2": "STOPPED"},
    )
    assert config_codec.encode(TasksCommit("c", 1)).key == b"commit-c"
    assert config_codec.encode(TaskCount("c", 1)).value == b'{"task-count":1}'
    assert config_codec.encode(TaskConfig("a-b", 3, {})).key == b"task-a-b-3"


def test_targets_of_older_workers_are_read() -> None:
    assert config_codec.decode(b"target-state-c", b'{"state":"PAUSED"}') == Target("c", TargetState.PAUSED)
    found = config_codec.decode(b"target-state-c", b'{"state":"STARTED","state.v2":"LATER"}')
    assert found == Target("c", TargetState.STARTED)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\xff", b"{}"),
        (b"connector-c", b"no json"),
        (b"connector-c", b"[]"),
        (b"connector-c", b'{"properties":[]}'),
        (b"connector-c", b'{"properties":{"a":1}}'),
        (b"task-c-x", b'{"properties":{}}'),
        (b"task-c", b'{"properties":{}}'),
        (b"commit-c", b'{"tasks":-1}'),
        (b"commit-c", b'{"tasks":1e9}'),
        (b"commit-c", b'{"tasks":true}'),
        (b"session-key", b'{"key":"!","algorithm":"x","creation-timestamp":1}'),
        (b"target-state-c", b'{"state":"ASLEEP"}'),
        (b"something-c", b"{}"),
        (b"something-c", None),
    ],
)
def test_a_record_that_is_not_understood_is_left_out(key: bytes, value: bytes | None) -> None:
    assert config_codec.decode(key, value) is None


def test_damaged_records_never_raise() -> None:
    drawn = random.Random(5)
    for _ in range(5_000):
        written = config_codec.encode(drawn.choice(RECORDS))
        data = bytearray(written.value or b"{}")
        for _ in range(drawn.randint(1, 4)):
            data[drawn.randrange(len(data))] = drawn.randrange(256)
        config_codec.decode(written.key, bytes(data))
        status_codec.decode(b"status-task-c-1", bytes(data))


def test_statuses_are_read_as_they_were_written() -> None:
    for name in NAMES:
        for task in (CONNECTOR, 0, 12):
            status = Status(State.FAILED, "host:8083", 4, "trace\n", "1.0", 17)
            for record in (TaskStatus(TaskId(name, task), status), TaskStatus(TaskId(name, task), None)):
                written = status_codec.encode(record)
                assert status_codec.decode(written.key, written.value) == record
        for topic in (TopicStatus("t:x", name, 1, 5), TopicStatus("t", name)):
            written = status_codec.encode(topic)
            found = status_codec.decode(written.key, written.value)
            assert found == topic or ":connector-" in f"{topic.topic}{name}"


def test_the_statuses_of_what_is_gone_get_tombstones() -> None:
    image = StatusImage()
    status = Status(State.RUNNING, "w", 1)
    image.replay(TaskStatus(TaskId("c", CONNECTOR), status))
    for task in range(3):
        image.replay(TaskStatus(TaskId("c", task), status))
    image.replay(TopicStatus("t", "c", 0, 1))
    assert tombstones(image, "c", False, 2) == [TaskStatus(TaskId("c", 2), None)]
    for record in tombstones(image, "c", True, 0):
        image.replay(record)
    assert list(image.connectors) == []
