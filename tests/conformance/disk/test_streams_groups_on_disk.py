"""The records of a streams group: Kafka's tool reads them, Apache Kafka goes on with the group and gives it
back."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from ottla.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from support.clients.named_states import plain_name
from support.clients.wire import WireClient, wait_for
from support.java.java_tools import run_java
from support.servers.apache_kafka import ApacheKafka
from support.servers.ottla_broker import OttlaBroker

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long]

GROUP = plain_name()
AT_ONCE = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.num.standby.replicas": "1",
    "offsets.topic.num.partitions": "1",
}


def join(wire: WireClient, member: str) -> Any:
    topology = Topology(
        epoch=0,
        subtopologies=[
            Subtopology(
                subtopology_id="0",
                source_topics=["in"],
                state_changelog_topics=[TopicInfo(name="app-changelog")],
            )
        ],
    )
    request = StreamsGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member,
        process_id=member,
        rebalance_timeout_ms=60_000,
        topology=topology,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    return wire.call(request)


def described(wire: WireClient) -> Any:
    """The group, once its coordinator has loaded it; members in order, only with fields of the log."""

    def is_loaded() -> bool:
        answer = wire.call(StreamsGroupDescribeRequest(group_ids=[GROUP])).groups[0]
        return bool(answer.error_code == ErrorCode.NONE)

    wait_for(is_loaded)
    group = wire.call(StreamsGroupDescribeRequest(group_ids=[GROUP])).groups[0]
    group.members.sort(key=lambda member: member.member_id)
    group.topology = None
    return group


def records(file: Path) -> Counter[str]:
    """How many records of each kind DumpLogSegments finds; tombstones count as "deleted"."""
    tool = "org.apache.kafka.tools.DumpLogSegments"
    run = run_java(tool, "--offsets-decoder", "--print-data-log", "--files", str(file))
    assert run.returncode == 0, run.stderr
    assert "isvalid: false" not in run.stdout
    found: Counter[str] = Counter()
    for key, payload in re.findall(r"key: (\{.*?\}) payload: (.*)$", run.stdout, re.MULTILINE):
        kind = json.loads(key)["type"]
        found["deleted" if payload == "<NULL>" else str(kind)] += 1
    return found


def test_a_group_goes_to_apache_kafka_and_back(tmp_path: Path) -> None:
    data = tmp_path / "logs"  # where ApacheKafka has it too
    with OttlaBroker.start(data, settings=AT_ONCE) as broker, WireClient.connect(broker.bootstrap) as wire:
        wire.create_topic("in", partitions=2)
        wire.call(FindCoordinatorRequest(coordinator_keys=[GROUP]))
        wait_for(lambda: join(wire, "m1").error_code == ErrorCode.NONE)
        wait_for(lambda: bool(join(wire, "m1").active_tasks))
        join(wire, "m2")
        ours = described(wire)
    # then
    found = records(data / "__consumer_offsets-0" / "00000000000000000000.log")
    assert set(found) == {"17", "19", "20", "21", "22", "23"}, found
    assert found["23"] == 1, "one topology"
    # when
    with ApacheKafka.start(tmp_path, settings=AT_ONCE) as kafka, WireClient.connect(kafka.bootstrap) as wire:
        assert described(wire) == ours
        answer = join(wire, "m1")
        assert answer.error_code == ErrorCode.NONE, answer
        join(wire, "m3")
        theirs = described(wire)
        assert theirs.group_epoch > ours.group_epoch
    # then
    with OttlaBroker.start(data, settings=AT_ONCE) as broker, WireClient.connect(broker.bootstrap) as wire:
        assert described(wire) == theirs
        answer = join(wire, "m3")
        assert answer.error_code == ErrorCode.NONE, answer
