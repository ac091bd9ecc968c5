"""Apache Kafka's share consumers at work: releases, rejects and lock timeouts, and its tools on our files."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from support.clients.confluent import create_topic, produce
from support.java.java_tools import run_java
from support.java.share_consumers import run_share_consumers
from support.servers.apache_kafka import ApacheKafka
from support.servers.cluster import Cluster
from support.servers.ottla_broker import OttlaBroker

pytestmark = [pytest.mark.java, pytest.mark.long]

CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableShareConsumer"
GROUP_COMMAND = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
LOCK_MS = 2_000
SHORT_LOCKS = {
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.min.record.lock.duration.ms": "1000",
}

StartOwn = Callable[..., AbstractContextManager[OttlaBroker | ApacheKafka]]


def from_the_start(bootstrap: str, group: str) -> None:
    """Have a group begin with the first record of each partition."""
    alter = ("--alter", "--entity-type", "groups", "--entity-name", group)
    setting = "share.auto.offset.reset=earliest,share.assignment.interval.ms=0"
    done = run_java(
        "kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, *alter, "--add-config", setting
    )
    assert done.returncode == 0, done.stderr


def described(bootstrap: str, group: str) -> list[list[str]]:
    """The rows of kafka-share-groups --describe."""
    done = run_java(GROUP_COMMAND, "--bootstrap-server", bootstrap, "--describe", "--group", group)
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines() if line.strip()][1:]


def test_several_consumers_of_one_partition(start_own: StartOwn) -> None:
    """Given records of every kind, when three consumers share them, then each has its own end."""
    with start_own(settings=SHORT_LOCKS) as node:
        # given
        create_topic(node.bootstrap, "jobs")
        kinds = ["accept"] * 40 + ["release"] * 4 + ["reject"] * 4 + ["slow"] * 2
        values = [f"{kind}-{number}" for number, kind in enumerate(kinds)]
        for first in range(0, len(values), 5):  # a batch is given to one consumer as a whole
            produce(node.bootstrap, "jobs", [{"value": value} for value in values[first : first + 5]])
        from_the_start(node.bootstrap, "workers")
        # when
        said = run_share_consumers(
            node.bootstrap, ["jobs"], ["workers"], count=3, hold_ms=2 * LOCK_MS, idle_ms=4 * LOCK_MS
        )
        # then
        deliveries: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for words in said:
            if words[0] not in ("refused", "failed"):
                _, value, count, kind = words
                deliveries[value].append((int(count), kind))
        assert not [words for words in said if words[0] == "failed"]
        assert sorted(deliveries) == sorted(values), "every record came"
        for value, each in deliveries.items():
            kind = value.split("-")[0]
            if kind == "release":
                assert sorted(each)[:3] == [(1, "release"), (2, "release"), (3, "accept")], value
            elif kind == "reject":
                assert each[-1][1] == "reject"
            elif kind == "slow":
                assert max(count for count, _ in each) >= 2, "its lock timed out, so it came again"
        # a record that shared a poll with a slow one timed out with it, the others came once
        assert Counter(len(each) for each in deliveries.values())[1] >= 20
        (row,) = described(node.bootstrap, "workers")
        assert row[-1] == "0", "nothing is left to deliver"


def test_verifiable_share_consumer(cluster: Cluster, unique_name: str) -> None:
    # given
    create_topic(cluster.bootstrap, unique_name)
    produce(cluster.bootstrap, unique_name, [{"value": f"value {number}"} for number in range(100)])
    # when
    run = run_java(
        VERIFIABLE_CONSUMER,
        *("--bootstrap-server", cluster.bootstrap, "--topic", unique_name, "--group-id", unique_name),
        *("--max-messages", "100", "--acknowledgement-mode", "sync"),
        *("--offset-reset-strategy", "earliest"),
    )
    # then
    assert run.returncode == 0, run.stderr
    events = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    acknowledged = [each for each in events if each["name"] == "offsets_acknowledged"]
    assert sum(each["count"] for each in acknowledged) == 100
    assert all(each["success"] for each in acknowledged)


def test_files_that_kafka_reads_and_goes_on_with(tmp_path: Path) -> None:
    """Given states that ottla wrote, then DumpLogSegments reads them and Apache Kafka goes on from there."""
    data = tmp_path / "data" / "logs"
    settings = {"share.coordinator.snapshot.update.records.per.snapshot": "2"}
    # given
    with OttlaBroker.start(data, settings=settings) as ours:
        create_topic(ours.bootstrap, "jobs")
        produce(ours.bootstrap, "jobs", [{"value": f"value {number}"} for number in range(30)])
        from_the_start(ours.bootstrap, "workers")
        assert consumed(ours.bootstrap, 30) == [f"value {number}" for number in range(30)]
        produce(ours.bootstrap, "jobs", [{"value": f"value {number}"} for number in range(30, 40)])
    # then
    dumped = run_java(
        "org.apache.kafka.tools.DumpLogSegments",
        "--share-group-state-decoder",
        *("--files", str(data / "__share_group_state-0" / f"{0:020}.log")),
    )
    assert dumped.returncode == 0, dumped.stderr
    records = payloads(dumped.stdout)
    assert {record["key"]["type"] for record in records} == {"0", "1"}
    assert {record["key"]["data"]["groupId"] for record in records} == {"workers"}
    last = records[-1]["payload"]["data"]
    assert last["startOffset"] + last["deliveryCompleteCount"] == 30
    # when
    with ApacheKafka.start(tmp_path / "data", settings=settings) as kafka:
        # then
        assert consumed(kafka.bootstrap, 10) == [f"value {number}" for number in range(30, 40)]
        produce(kafka.bootstrap, "jobs", [{"value": "back again"}])
    with OttlaBroker.start(data, settings=settings) as ours:
        assert consumed(ours.bootstrap, 1) == ["back again"]


def consumed(bootstrap: str, count: int) -> list[str]:
    """The records that a console consumer of the group gets, in the order of their numbers."""
    run = run_java(
        CONSOLE_CONSUMER,
        *("--bootstrap-server", bootstrap, "--topic", "jobs", "--group", "workers"),
        *("--max-messages", str(count), "--timeout-ms", "30000"),
    )
    assert run.returncode == 0, run.stderr
    return sorted(run.stdout.splitlines(), key=lambda value: int(re.sub(r"\D", "", value) or 0))


def payloads(dump: str) -> list[dict[str, Any]]:
    """The records that DumpLogSegments shows, keys and values as Kafka's JSON has them."""
    found = []
    for line in dump.splitlines():
        match = re.search(r"key: (\{.*\}) payload: (\{.*\}|<DELETE>)", line)
        if match:
            payload = json.loads(match[2]) if match[2] != "<DELETE>" else None
            found.append({"key": json.loads(match[1]), "payload": payload})
    return found
