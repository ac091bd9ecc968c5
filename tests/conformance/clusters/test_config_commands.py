"""`ottla config` on a cluster: what it does, and that it says the same of settings as kafka-configs.sh."""

from __future__ import annotations

import random
import re
import string
from typing import Any

import pytest

from support.clients.ottla_command import done, ottla, refused
from support.java.java_tools import run_java
from support.servers.cluster import Cluster

CONFIG_COMMAND = "kafka.admin.ConfigCommand"
ENTITY_TYPES = {
    "topic": "topics",
    "broker": "brokers",
    "logger": "broker-loggers",
    "group": "groups",
    "client-metrics": "client-metrics",
}
SOURCES = {
    "topic": "DYNAMIC_TOPIC_CONFIG",
    "broker": "DYNAMIC_BROKER_CONFIG",
    "all brokers": "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "server.properties": "STATIC_BROKER_CONFIG",
    "default": "DEFAULT_CONFIG",
    "logger": "DYNAMIC_BROKER_LOGGER_CONFIG",
    "client metrics": "DYNAMIC_CLIENT_METRICS_CONFIG",
    "group": "DYNAMIC_GROUP_CONFIG",
}
CHANGES = {
    "topic": {
        "cleanup.policy": ["delete", "compact", "compact,delete"],
        "retention.ms": ["-1", "5000"],
        "max.message.bytes": ["1000", "2097164"],
        "message.timestamp.type": ["CreateTime", "LogAppendTime"],
        "min.cleanable.dirty.ratio": ["0.0", "0.25"],
    },
    "broker": {"log.cleaner.threads": ["1", "2"], "message.max.bytes": ["1048600"]},
    "group": {"consumer.session.timeout.ms": ["45001", "46000"], "share.auto.offset.reset": ["earliest"]},
    "client-metrics": {"interval.ms": ["10000", "60000"], "metrics": ["org.apache.kafka.producer."]},
}


def broker_id(cluster: Cluster) -> str:
    rows = done(cluster.bootstrap, "config", "describe", "broker", "--all")
    return next(row["resource"] for row in rows if row["resource"] != "default")


def values(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {row["name"]: row["value"] for row in rows}


# -- what it does --------------------------------------------------------------------------------------------


def test_values_of_a_topic_are_set_shown_and_unset(cluster: Cluster, unique_name: str) -> None:
    at = cluster.bootstrap
    done(at, "topic", "create", unique_name)
    topic = ("topic", unique_name)
    assert done(at, "config", "describe", *topic) == []
    (changed,) = done(at, "config", "set", *topic, "retention.ms=5000", "cleanup.policy+=compact")
    assert changed["set"] == ["retention.ms", "cleanup.policy"]
    described = done(at, "config", "describe", *topic)
    assert values(described) == {"cleanup.policy": "delete,compact", "retention.ms": "5000"}
    assert {row["source"] for row in described} == {"topic"}
    done(at, "config", "set", *topic, "cleanup.policy-=delete")
    assert ottla(at, "config", "get", *topic, "cleanup.policy").out == "compact\n"
    assert ottla(at, "config", "get", *topic, "cleanup.policy", "retention.ms").out == (
        "cleanup.policy=compact\nretention.ms=5000\n"
    )
    done(at, "config", "unset", *topic, "retention.ms")
    assert values(done(at, "config", "describe", *topic)) == {"cleanup.policy": "compact"}
    everything = done(at, "config", "describe", *topic, "--all")
    assert values(everything)["retention.ms"] == "604800000"
    assert len(everything) > 30


def test_a_validation_changes_nothing(cluster: Cluster, unique_name: str) -> None:
    at = cluster.bootstrap
    done(at, "topic", "create", unique_name)
    (checked,) = done(at, "config", "set", "topic", unique_name, "retention.ms=1", "--validate-only")
    assert checked["validate_only"] is True
    assert done(at, "config", "describe", "topic", unique_name) == []
    assert "INVALID_CONFIG" in refused(
        at, "config", "set", "topic", unique_name, "retention.ms=soon", "--validate-only"
    )


def test_errors_give_advice(cluster: Cluster, unique_name: str) -> None:
    at = cluster.bootstrap
    done(at, "topic", "create", unique_name)
    problem = refused(at, "config", "set", "topic", unique_name, "retenion.ms=1")
    assert problem.endswith("did you mean retention.ms or retention.bytes or local.retention.ms?")
    problem = refused(at, "config", "get", "topic", unique_name, "segment.byte")
    assert f"topic {unique_name} has no setting segment.byte; did you mean segment.bytes" in problem
    problem = refused(at, "config", "unset", "topic", unique_name, "segment.bytes")
    assert problem == f"ottla config unset: topic {unique_name} does not set segment.bytes"
    for words in (
        ("describe", "topic", f"{unique_name}x"),
        ("set", "topic", f"{unique_name}x", "segment.ms=1"),
    ):
        assert f"does not exist; did you mean {unique_name}" in refused(at, "config", *words)
    assert "no live broker 77" in refused(at, "config", "describe", "broker", "77")
    assert "write KEY=VALUE" in refused(at, "config", "set", "topic", unique_name, "x", code=2)
    assert "a broker's id" in refused(at, "config", "describe", "broker", "x", code=2)


def test_an_explanation_tells_all_layers(cluster: Cluster, unique_name: str) -> None:
    at = cluster.bootstrap
    done(at, "topic", "create", unique_name, "--config", "cleanup.policy=compact")
    (told,) = done(at, "config", "describe", "topic", unique_name, "--explain")
    assert (told["value"], told["source"], told["default"]) == ("compact", "topic", "delete")
    assert (told["value_type"], told["read_only"], told["sensitive"]) == ("list", False, False)
    assert [(one["name"], one["source"]) for one in told["synonyms"]] == [
        ("cleanup.policy", "topic"),
        ("log.cleanup.policy", "default"),
    ]
    assert len(told["documentation"]) > 20
    people = ottla(at, "config", "describe", "topic", unique_name, "--explain").out
    assert re.search(r"^documentation  \w", people, re.MULTILINE)


def test_values_of_brokers_loggers_groups_and_client_metrics(cluster: Cluster, unique_name: str) -> None:
    at, broker = cluster.bootstrap, broker_id(cluster)
    for resource, change in (
        (("broker", "default"), "log.cleaner.threads=2"),
        (("broker", broker), "log.cleaner.threads=2"),
        (("group", unique_name), "consumer.session.timeout.ms=46000"),
        (("client-metrics", unique_name), "interval.ms=7000"),
    ):
        name, _, value = change.partition("=")
        done(at, "config", "set", *resource, change)
        assert values(done(at, "config", "describe", *resource))[name] == value
        kind = done(at, "config", "describe", resource[0])
        assert (resource[1], name, value) in [(row["resource"], row["name"], row["value"]) for row in kind]
        done(at, "config", "unset", *resource, name)
        assert name not in values(done(at, "config", "describe", *resource))
    loggers = values(done(at, "config", "describe", "logger", broker))
    logger = next(name for name in loggers if name != "root")
    done(at, "config", "set", "logger", broker, f"{logger}=ERROR")
    assert ottla(at, "config", "get", "logger", broker, logger).out == "ERROR\n"
    done(at, "config", "unset", "logger", broker, logger)


def test_a_password_is_never_shown(cluster: Cluster) -> None:
    at, broker = cluster.bootstrap, broker_id(cluster)
    rows = done(at, "config", "describe", "broker", broker, "--all", "--explain")
    secrets = [row for row in rows if row["sensitive"]]
    assert secrets, "a broker has settings of passwords"
    for row in secrets:
        assert row["value"] is None
        assert all(one["value"] is None for one in row["synonyms"])
    name = secrets[0]["name"]
    assert ottla(at, "config", "get", "broker", broker, name).out == "\n"
    assert re.search(
        rf"^{name} +\(sensitive\)", ottla(at, "config", "describe", "broker", broker, "--all").out, re.M
    )


# -- what kafka-configs.sh says ------------------------------------------------------------------------------


def kafka_configs(bootstrap: str, kind: str, name: str, *words: str) -> dict[str, tuple[str | None, Any]]:
    """Each setting's value and layers, as kafka-configs.sh describes them."""
    entity = ("--entity-default",) if name == "default" else ("--entity-name", name)
    command = ("--bootstrap-server", bootstrap, "--describe", "--entity-type", ENTITY_TYPES[kind])
    ran = run_java(CONFIG_COMMAND, *command, *entity, *words)
    assert ran.returncode == 0, ran
    found = {}
    for line in ran.stdout.splitlines():
        told = re.fullmatch(r"  ([^=]+)=(.*) sensitive=(true|false) synonyms=\{(.*)\}", line)
        if told is not None:
            key, value, sensitive, synonyms = told.groups()
            layers = re.findall(r"([A-Z_]+):(\S+?)=(.*?)(?=, [A-Z_]+:|$)", synonyms)
            hidden = sensitive == "true"
            found[key] = (None if hidden else value, [] if hidden else layers)
    return found


def explained(bootstrap: str, kind: str, name: str, *words: str) -> dict[str, tuple[str | None, Any]]:
    """The same of ottla."""
    found = {}
    for row in done(bootstrap, "config", "describe", kind, name, "--explain", *words):
        layers = [(SOURCES[one["source"]], one["name"], one["value"]) for one in row["synonyms"]]
        hidden = row["sensitive"]
        value = "null" if row["value"] is None else row["value"]
        found[row["name"]] = (None if hidden else value, [] if hidden else layers)
    return found


@pytest.mark.java
@pytest.mark.long
@pytest.mark.parametrize("kind", sorted(ENTITY_TYPES))
def test_settings_are_those_of_kafka_configs(cluster: Cluster, unique_name: str, kind: str) -> None:
    at, broker = cluster.bootstrap, broker_id(cluster)
    if kind == "topic":
        done(at, "topic", "create", unique_name)
    names = {"broker": [broker, "default"], "logger": [broker]}.get(kind, [unique_name])
    for name in names:
        drawn = CHANGES.get(kind, {})
        chosen = random.sample(sorted(drawn), random.randrange(1, len(drawn) + 1)) if drawn else []
        if chosen:
            changes = [f"{key}={random.choice(drawn[key])}" for key in chosen]
            done(at, "config", "set", kind, name, *changes)
        assert explained(at, kind, name) == kafka_configs(at, kind, name)
        if kind != "logger":  # kafka-configs.sh knows no --all of them
            assert explained(at, kind, name, "--all") == kafka_configs(at, kind, name, "--all")
        if chosen:
            done(at, "config", "unset", kind, name, *chosen)


@pytest.mark.java
@pytest.mark.long
def test_what_kafka_configs_sets_is_shown(cluster: Cluster, unique_name: str) -> None:
    at = cluster.bootstrap
    done(at, "topic", "create", unique_name)
    command = ("--bootstrap-server", at, "--alter", "--entity-type", "topics", "--entity-name", unique_name)
    ran = run_java(
        CONFIG_COMMAND, *command, "--add-config", "retention.ms=77,cleanup.policy=[compact,delete]"
    )
    assert ran.returncode == 0, ran
    shown = values(done(at, "config", "describe", "topic", unique_name))
    assert shown == {"retention.ms": "77", "cleanup.policy": "compact,delete"}


# -- any words -----------------------------------------------------------------------------------------------


def test_no_words_end_in_a_traceback(cluster: Cluster) -> None:
    heads = [
        ("describe",), ("describe", "topic"), ("describe", "broker"), ("get", "topic", "x"), ("set", "topic"),
        ("set", "topic", "x"), ("unset", "topic", "x"), ("describe", "group"), ("describe", "logger"),
        ("set", "logger", "1"), ("get", "client-metrics"), ("set", "group", "g"),
    ]  # fmt: skip
    alphabet = string.printable + "äß日\u202e\x00\x1b\udc80*?[]=+-"
    for _ in range(150):
        words = [
            "".join(random.choices(alphabet, k=random.randrange(12))) for _ in range(random.randrange(1, 3))
        ]
        dashes = ("--",) if random.random() < 0.5 else ()
        run = ottla(cluster.bootstrap, "config", *random.choice(heads), *dashes, *words)
        assert run.code in (0, 1, 2), run
        assert "Traceback" not in run.err, run
