"""Small parts of a host: topic groups, clients' properties, names in front of log lines, settings."""

from __future__ import annotations

import logging
import re
import sys

import pytest

from ottla.config.errors import ConfigError
from ottla.connect.host.clients import access, consumer_group
from ottla.connect.host.logs import HostFormatter, log_name
from ottla.connect.host.messages import Role, Run, Start
from ottla.connect.host.settings import connector_settings, topics_of
from ottla.connect.host.topic_creation import creation_groups


def _start(config: dict[str, str], worker: dict[str, str] | None = None) -> Start:
    return Start(Run("c", 0, 1), Role.SINK_TASK, config, worker or {})


def _group_of(config: dict[str, str], topic: str) -> str:
    groups = creation_groups(config, connector_settings(_start(config)))
    return next(each.name for each in groups if each.matches(topic))


DEFAULT = {"topic.creation.default.partitions": "-1", "topic.creation.default.replication.factor": "2"}


def test_the_first_group_that_includes_and_does_not_exclude_a_topic_has_it() -> None:
    config = {
        **DEFAULT,
        "topic.creation.groups": "one,two",
        "topic.creation.one.include": "a.*, b",
        "topic.creation.one.exclude": "a-x",
        "topic.creation.two.include": ".*x",
    }
    assert [_group_of(config, topic) for topic in ("abc", "b", "bc", "a-x", "ax", "x")] == [
        *("one", "one", "default", "two", "one", "two")
    ]


def test_without_a_default_group_no_topics_are_created() -> None:
    assert creation_groups({}, connector_settings(_start({}))) == ()


@pytest.mark.parametrize(
    "config",
    [
        {"topic.creation.default.partitions": "1"},
        {**DEFAULT, "topic.creation.default.partitions": "0"},
        {**DEFAULT, "topic.creation.default.replication.factor": "x"},
        {**DEFAULT, "topic.creation.groups": "g", "topic.creation.g.include": "("},
    ],
)
def test_bad_groups_are_refused(config: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"topic\.creation"):
        creation_groups(config, connector_settings(_start(config)))


def test_overrides_win_over_prefixes_and_those_over_the_workers_security() -> None:
    worker = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_SSL",
        "sasl.username": "worker",
        "producer.linger.ms": "5",
        "producer.sasl.username": "producer",
        "consumer.linger.ms": "7",
        "group.id": "workers",
    }
    config = {"producer.override.linger.ms": "9", "producer.override.bootstrap.servers": "b:2"}
    found = access(worker, config, "producer")
    assert found.bootstrap == "b:2"
    assert found.properties == {
        "security.protocol": "SASL_SSL",
        "sasl.username": "producer",
        "linger.ms": "9",
    }
    assert access(worker, {}, "admin").bootstrap == "a:1"


def test_the_group_of_a_sink() -> None:
    assert consumer_group("c", {"group.id": "workers"}, {}) == "connect-c"
    assert consumer_group("c", {}, {"consumer.override.group.id": "g"}) == "g"


def test_every_line_of_the_log_begins_with_the_connector() -> None:
    name = log_name(Run("a]b|c%\n\x85ü", 3, 1))
    assert name == "a%5Db%7Cc%25%0A%C2%85ü|task-3"
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "f", 1, "said\nmore", (), sys.exc_info())
    record.run_name = name
    lines = HostFormatter().format(record).splitlines()
    assert len(lines) > 5 and all(line.startswith(f"[{name}] ") for line in lines)


def test_a_sink_has_topics_or_a_pattern_but_not_its_dead_letters() -> None:
    def topics(config: dict[str, str]) -> object:
        return topics_of(connector_settings(_start(config)))

    assert topics({"topics": "a, b"}) == ("a", "b")
    assert topics({"topics.regex": "a.*"}) == re.compile("a.*")
    for config in (
        {},
        {"topics": "a", "topics.regex": "a"},
        {"topics.regex": "("},
        {"topics": "a,dead", "errors.deadletterqueue.topic.name": "dead"},
        {"topics.regex": "d.*", "errors.deadletterqueue.topic.name": "dead"},
    ):
        with pytest.raises(ConfigError):
            topics(config)
