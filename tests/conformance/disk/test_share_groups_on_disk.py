"""Share groups on disk are Kafka's: its tool reads the records, and Apache Kafka and ottla take turns."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from ottla.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from support.clients.named_states import plain_name
from support.clients.wire import WireClient, wait_for
from support.java.java_tools import run_java
from support.servers.apache_kafka import ApacheKafka
from support.servers.ottla_broker import OttlaBroker

pytestmark = [pytest.mark.java, pytest.mark.long]

GROUP, TOPIC, PARTITIONS = plain_name(), "tasks", 4
AT_ONCE = {"group.share.assignment.interval.ms": "0"}


def heartbeat(client: WireClient, member: str, epoch: int, topics: list[str] | None = None) -> Any:
    return client.call(
        ShareGroupHeartbeatRequest(
            group_id=GROUP, member_id=member, member_epoch=epoch, subscribed_topic_names=topics
        )
    )


def described(client: WireClient) -> Any:
    return client.call(ShareGroupDescribeRequest(group_ids=[GROUP])).groups[0]


def wait_for_coordinator(client: WireClient, error: ErrorCode) -> None:
    def ready() -> bool:
        client.call(FindCoordinatorRequest(coordinator_keys=[GROUP]))
        return bool(described(client).error_code == error)

    wait_for(ready)


def initialized(client: WireClient) -> int:
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=None)
    answer = client.call(DescribeShareGroupOffsetsRequest(groups=[asked])).groups[0]
    return sum(len(topic.partitions) for topic in answer.topics)


def gather(client: WireClient) -> None:
    """Let two members share the topic."""
    wait_for_coordinator(client, ErrorCode.GROUP_ID_NOT_FOUND)
    client.create_topic(TOPIC, partitions=PARTITIONS)
    assert heartbeat(client, "m1", 0, [TOPIC]).member_epoch == 2
    wait_for(lambda: initialized(client) == PARTITIONS)
    assert heartbeat(client, "m1", 2).member_epoch == 3
    assert heartbeat(client, "m2", 0, [TOPIC]).member_epoch == 4
    assert heartbeat(client, "m1", 3).member_epoch == 4


def assignments(group: Any) -> dict[str, list[tuple[str, list[int]]]]:
    return {
        member.member_id: [
            (topic.topic_name, sorted(topic.partitions)) for topic in member.assignment.topic_partitions
        ]
        for member in group.members
    }


def dump(data: Path) -> list[tuple[str, Any, Any]]:
    """Kind, key and value of every record of `__consumer_offsets`, by DumpLogSegments."""
    files = sorted(str(path) for path in data.glob("__consumer_offsets-*/*.log"))
    run = run_java("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", ",".join(files))
    assert run.returncode == 0, run.stderr
    assert "isvalid: false" not in run.stdout
    records = []
    for key, value in re.findall(r"key: (\{.*?\}) payload: (.*)$", run.stdout, re.MULTILINE):
        parsed = json.loads(key)
        records.append((parsed["type"], parsed["data"], json.loads(value) if value != "<DELETE>" else None))
    return records


def test_kafkas_tool_reads_the_records(tmp_path: Path) -> None:
    # given
    with (
        OttlaBroker.start(tmp_path / "data", settings=AT_ONCE) as broker,
        WireClient.connect(broker.bootstrap) as client,
    ):
        gather(client)
        heartbeat(client, "m1", -1)
    # when
    records = dump(tmp_path / "data")
    # then
    kinds = Counter(str(kind) for kind, _, _ in records)
    assert kinds == {"10": 3, "11": 4, "12": 3, "13": 5, "14": 5, "15": 2}
    last = {(kind, json.dumps(key)): value for kind, key, value in records}
    epoch = last["11", json.dumps({"groupId": GROUP})]["data"]
    assert epoch["epoch"] == 5
    states = last["15", json.dumps({"groupId": GROUP})]["data"]
    assert [(topic["topicName"], topic["partitions"]) for topic in states["initializedTopics"]] == [
        (TOPIC, [0, 1, 2, 3])
    ]
    assert states["initializingTopics"] == states["deletingTopics"] == []


@pytest.mark.slow
def test_apache_kafka_takes_over_a_share_group_and_gives_it_back(tmp_path: Path) -> None:
    data = tmp_path / "logs"  # where ApacheKafka has it too
    # given
    with OttlaBroker.start(data, settings=AT_ONCE) as broker, WireClient.connect(broker.bootstrap) as client:
        gather(client)
        before = described(client)
    # when
    with (
        ApacheKafka.start(tmp_path, settings=AT_ONCE) as kafka,
        WireClient.connect(kafka.bootstrap) as client,
    ):
        wait_for_coordinator(client, ErrorCode.NONE)
        # then: epochs, members and assignments are the same, and no heartbeat changes them
        after = described(client)
        assert (after.group_epoch, after.assignment_epoch) == (before.group_epoch, before.assignment_epoch)
        assert assignments(after) == assignments(before)
        for member in ("m1", "m2"):
            answer = heartbeat(client, member, 4)
            assert (answer.error_code, answer.member_epoch, answer.assignment) == (ErrorCode.NONE, 4, None)
        assert initialized(client) == PARTITIONS
        # when
        assert heartbeat(client, "m2", -1).error_code == ErrorCode.NONE
        assert heartbeat(client, "m1", 4).member_epoch == 5
        assert heartbeat(client, "m3", 0, [TOPIC]).member_epoch == 6
        assert heartbeat(client, "m1", 5).member_epoch == 6
        before = described(client)
    with OttlaBroker.start(data, settings=AT_ONCE) as broker, WireClient.connect(broker.bootstrap) as client:
        wait_for_coordinator(client, ErrorCode.NONE)
        # then
        after = described(client)
        assert (after.group_epoch, after.assignment_epoch) == (before.group_epoch, before.assignment_epoch)
        assert assignments(after) == assignments(before)
        for member in ("m1", "m3"):
            answer = heartbeat(client, member, 6)
            assert (answer.error_code, answer.member_epoch, answer.assignment) == (ErrorCode.NONE, 6, None)
        assert heartbeat(client, "m3", -1).error_code == ErrorCode.NONE
        assert sorted(
            partition
            for topic in heartbeat(client, "m1", 6).assignment.topic_partitions
            for partition in topic.partitions
        ) == [0, 1, 2, 3]
